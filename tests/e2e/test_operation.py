"""A real server as its operator has it: keys, HTTPS, reload, draining, records and recordings."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rtc_agent.client.call_client import CallClient
from rtc_agent.client.offer import KEY_VARIABLE, Answer, SmallWebRtcSignaling, post_json
from rtc_agent.errors import CallRefused
from rtc_agent.media.ice import IceSettings
from tests.real_server import RealServer, command

ICE = IceSettings(hosts=("127.0.0.1",))
PROCESSES = pytest.mark.parametrize("workers", ["0", "2"])


async def new_key(name: str, scope: str) -> tuple[str, str]:
    """A key by `rtc-agent token`, and the setting that tells a server of it."""
    made = await command("token", "--new", name, "--scope", scope, "--json", stdout=PIPE)
    report = json.loads((await made.communicate())[0])
    setting = report["setting"]
    return report["key"], (
        f'[[keys]]\nname = "{setting["name"]}"\nsha256 = "{setting["sha256"]}"\n'
        f'scopes = ["{scope}"]\n'
    )


async def get(url: str, key: str) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as response:
        return response.status, await response.text()


class Consenting(SmallWebRtcSignaling):
    """Offers of a caller who agrees to be recorded."""

    async def answer(self, sdp: str) -> Answer:
        data = {"recording_consent": True}
        body = {"sdp": sdp, "type": "offer", "pc_id": None, "request_data": data}
        reply = await post_json(f"{self.url}/api/offer", body, self.timeout_s)
        return Answer(sdp=reply["sdp"], pc_id=reply["pc_id"])


async def until(condition: Any, seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.1)


@PROCESSES
async def test_a_day_with_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    caller, caller_setting = await new_key("caller", "call")
    boss, boss_setting = await new_key("boss", "admin")
    config = tmp_path / "config.toml"
    settings = (
        f'drain_s = 20\nlog_format = "json"\ncall_records = "{tmp_path}/calls.jsonl"\n'
        f'recordings = "{tmp_path}/recordings"\nrecording_format = "wav"\n'
    )
    config.write_text(settings + caller_setting + boss_setting)
    server = await RealServer.start(
        *("--agent", "echo", "--config", str(config), "--media-workers", workers)
    )
    try:
        with pytest.raises(CallRefused, match="401"):
            await SmallWebRtcSignaling(server.url).answer("v=0")
        monkeypatch.setenv(KEY_VARIABLE, caller)
        asked = await command("token", server.url, "--seconds", "60", stdout=PIPE)
        secret = (await asked.communicate())[0].decode().strip()
        assert secret.startswith("ek_")
        monkeypatch.setenv(KEY_VARIABLE, secret)
        async with CallClient(Consenting(server.url), ice=ICE) as call:
            await call.connect()
            await call.wait_ready()
            status, listed = await get(f"{server.url}/v1/calls", boss)
            assert status == 200
            [seen] = json.loads(listed)["calls"]
            assert (seen["call_id"], seen["key"], seen["state"]) == (call.call_id, "caller", "live")
            assert (await get(f"{server.url}/metrics", secret))[0] == 403

            # The caller's key is withdrawn: no new calls with it, and this one goes on.
            config.write_text(settings + boss_setting)
            server.process.send_signal(signal.SIGHUP)

            async def withdrawn() -> bool:
                body = {"sdp": "v=0", "type": "offer"}
                try:
                    await post_json(f"{server.url}/api/offer", body, 5)
                except CallRefused as refusal:
                    return "401" in refusal.message
                return False

            await until(withdrawn)
            assert json.loads((await get(f"{server.url}/v1/calls", boss))[1])["calls"]

            # Told to stop, it takes no new calls and waits for this one.
            server.process.send_signal(signal.SIGTERM)

            async def draining() -> bool:
                return (await get(f"{server.url}/readyz", boss))[0] == 503

            await until(draining)
            assert (await get(f"{server.url}/healthz", boss))[0] == 200
            await asyncio.sleep(1)
            assert json.loads((await get(f"{server.url}/v1/calls", boss))[1])["calls"]
        async with asyncio.timeout(8):
            await server.process.wait()
    finally:
        await server.stop()
    lines = [json.loads(line) for line in server.log.splitlines() if line]
    assert {line["call_id"] for line in lines} >= {call.call_id}
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert "exc_info" not in server.log
    for hidden in (caller, secret, boss):
        assert hidden not in server.log
    [record] = (tmp_path / "calls.jsonl").read_text().splitlines()
    assert json.loads(record)["call_id"] == call.call_id
    [sound] = (tmp_path / "recordings").rglob("*.wav")
    assert sound.stem == call.call_id and sound.stat().st_size > 50_000
    assert not list((tmp_path / "recordings").rglob("*.part"))


@PROCESSES
async def test_https_with_a_certificate_that_is_renewed(tmp_path: Path, workers: str) -> None:
    made = await command("certs", "127.0.0.1", "--out", str(tmp_path), stdout=PIPE)
    assert (await made.wait()) == 0
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    server = await RealServer.start(
        *("--agent", "echo", "--media-workers", workers),
        *("--tls-cert", str(cert), "--tls-key", str(key)),
    )

    async def works(trusted: Path) -> bool:
        context = ssl.create_default_context(cafile=str(trusted))
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as http:
            try:
                async with http.get(f"{server.url}/healthz") as response:
                    return response.status == 200
            except aiohttp.ClientConnectorCertificateError:
                return False

    try:
        assert server.url.startswith("https://")
        assert await works(cert)
        old = tmp_path / "old.pem"
        cert.rename(old)
        key.unlink()
        made = await command("certs", "127.0.0.1", "--out", str(tmp_path), stdout=PIPE)
        assert (await made.wait()) == 0
        server.process.send_signal(signal.SIGHUP)
        await until(lambda: works(cert))
        assert not await works(old)
    finally:
        await server.stop()
    assert "Traceback" not in server.log


async def test_a_public_server_without_keys_does_not_start() -> None:
    process = await command("serve", "--host", "0.0.0.0", "--port", "0", stderr=PIPE)
    words = (await process.communicate())[1].decode()
    assert process.returncode == 2
    assert "--insecure-public" in words and "Traceback" not in words


@PROCESSES
async def test_clients_that_say_nothing_and_wrong_keys_leave_nothing_behind(
    tmp_path: Path, workers: str
) -> None:
    _, setting = await new_key("caller", "call")
    config = tmp_path / "config.toml"
    config.write_text(setting)
    server = await RealServer.start(
        *("--agent", "echo", "--config", str(config), "--media-workers", workers)
    )

    def descriptors() -> int:
        return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))

    try:
        port = int(server.url.rpartition(":")[2])
        before = descriptors()
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in silent[::2]:
            writer.write(b"POST /api/offer HTTP/1.1\r\nHost: x\r\n")
        async with aiohttp.ClientSession() as http:

            async def wrong(number: int) -> int:
                headers = {"Authorization": f"Bearer wrong {number}"}
                body = {"sdp": "v=0", "type": "offer"}
                url = f"{server.url}/api/offer"
                async with http.post(url, json=body, headers=headers) as response:
                    return response.status

            statuses = await asyncio.gather(*(wrong(number) for number in range(1_000)))
        assert set(statuses) == {401, 429} and statuses.count(401) <= 70
        for reader, writer in silent:
            async with asyncio.timeout(20):
                assert await reader.read() in (b"",)
            writer.close()

        async def gone() -> bool:
            return descriptors() <= before + 3

        await until(gone)
        assert await server.free_slots() == 4
    finally:
        await server.stop()
    assert "Traceback" not in server.log
