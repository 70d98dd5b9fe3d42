"""Calls through coturn alone, with credentials that the server hands out."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from aioice.stun import TransactionFailed
from aioice.turn import create_turn_endpoint

from rtc_agent.client.call_client import CallClient
from rtc_agent.client.offer import SmallWebRtcSignaling
from rtc_agent.client.place_call import CallOrder, CallReport, place_call
from rtc_agent.client.relays import through_relay
from rtc_agent.config import IceServer as Relay
from rtc_agent.errors import CallFailed
from rtc_agent.media.ice import IceServer, IceSettings
from rtc_agent.tls import make_self_signed
from rtc_agent.turn import IceServers
from tests.client.audio import save_wav, speech
from tests.coturn import SECRET, Tls, relaying
from tests.namespaces import Networks, networks
from tests.real_server import ROOT, RealServer, serving
from tests.telephony.gateway import free_port

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPOKEN_S = 1.6
HTTP_PORT = 8080
TURN_PORT = 3478


def settings_file(folder: Path, host: str, port: int, *further: str) -> Path:
    """A server's settings that name that relay, by UDP and TCP, and at further addresses."""
    urls = [*(f"turn:{host}:{port}?transport={way}" for way in ("udp", "tcp")), *further]
    file = folder / "server.toml"
    file.write_text(
        f"turn_secret = {json.dumps(SECRET)}\nice_servers = [{{urls = {json.dumps(urls)}}}]\n"
    )
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealServer]:
    folder = tmp_path_factory.mktemp("relay")
    tls = Tls(folder / "cert.pem", folder / "key.pem", free_port())
    for path, pem in zip((tls.cert, tls.key), make_self_signed(["localhost"], 1), strict=True):
        path.write_bytes(pem)
    async with relaying(folder, tls=tls) as port:
        secured = f"turns:localhost:{tls.port}?transport=tcp"
        settings = settings_file(folder, "127.0.0.1", port, secured)
        async with serving("--agent", "echo", "--config", str(settings)) as running:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SSL_CERT_FILE", str(tls.cert))
                yield running


@pytest.fixture
def speech_wav(tmp_path: Path) -> Path:
    return save_wav(tmp_path / "speech.wav", speech(SPOKEN_S))


async def test_a_call_by_a_relay_alone_over_udp_tcp_and_tls(
    server: RealServer, speech_wav: Path, tmp_path: Path
) -> None:
    async def call(way: str) -> CallReport:
        ice = await through_relay(server.url, way)
        assert ice.relay_only and ice.servers[0].username and ice.servers[0].credential
        assert len(ice.servers[0].urls) == 1
        return await place_call(CallOrder(server.url, speech_wav, tmp_path / f"{way}.wav", ice=ice))

    for report in await asyncio.gather(*map(call, ("udp", "tcp", "tls"))):
        assert report.complete and report.frames >= SPOKEN_S / 0.08 / 2
    async with asyncio.timeout(20):
        while await server.free_slots() < 4:
            await asyncio.sleep(0.1)


def _wrong(relay: IceServer) -> IceServer:
    return replace(relay, credential="wrong")


def _expired(relay: IceServer) -> IceServer:
    """Made with the right secret, two hours ago, for one hour."""
    past = IceServers((Relay(urls=list(relay.urls)),), SECRET, wall=lambda: time.time() - 7_200)
    (issued,) = past.issue()
    return IceServer(relay.urls, issued.username, issued.credential)


@pytest.mark.parametrize("spoil", [_wrong, _expired])
async def test_credentials_that_are_wrong_or_expired_are_named(
    server: RealServer, spoil: object
) -> None:
    assert callable(spoil)
    good = await through_relay(server.url, "udp")
    ice = IceSettings(servers=(spoil(good.servers[0]),), relay_only=True)
    async with CallClient(SmallWebRtcSignaling(server.url), ice=ice) as client:
        with pytest.raises(CallFailed, match=r"no network path by TURN.*credentials \(401\)"):
            await client.connect()


async def test_a_relay_that_does_not_answer_is_named_and_not_waited_for(
    server: RealServer,
) -> None:
    nobody = IceServer(("turn:127.0.0.1:9?transport=tcp",), "u", "p")
    ice = IceSettings(servers=(nobody,), relay_only=True)
    async with CallClient(SmallWebRtcSignaling(server.url), ice=ice) as client:
        with pytest.raises(CallFailed, match="127.0.0.1:9 cannot be reached"):
            await client.connect()


@pytest.mark.parametrize("private", ["10.0.0.1", "172.17.0.1", "192.168.1.1", "169.254.169.254"])
async def test_the_relay_does_not_open_its_own_network(server: RealServer, private: str) -> None:
    """Its own configuration keeps callers away from addresses that are no server's."""
    relay = (await through_relay(server.url, "udp")).servers[0]
    host, _, port = relay.urls[0].removeprefix("turn:").partition("?")[0].partition(":")
    transport, _ = await create_turn_endpoint(
        asyncio.DatagramProtocol, (host, int(port)), relay.username, relay.credential
    )
    inner = transport._TurnTransport__inner_protocol  # type: ignore[attr-defined]
    try:
        with pytest.raises(TransactionFailed, match="403"):
            await inner.send_data(b"hello", (private, 80))
    finally:
        transport.close()


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_a_relayed_call_outlives_its_credentials(tmp_path: Path) -> None:
    """Allocations are refreshed after the credentials that opened them have expired."""
    async with relaying(tmp_path, "--max-allocate-lifetime=60", "--stale-nonce=45") as port:
        settings = settings_file(tmp_path, "127.0.0.1", port)
        settings.write_text(f"turn_ttl_s = 60\n{settings.read_text()}")
        async with serving("--agent", "echo", "--config", str(settings)) as server:
            for way in ("udp", "tcp"):
                ice = await through_relay(server.url, way)
                async with CallClient(SmallWebRtcSignaling(server.url), ice=ice) as client:
                    await client.connect()
                    await client.wait_ready()
                    assert await client.wait_until(client.clock.now() + 150), client.ended


async def test_a_server_in_a_network_of_its_own_is_reached_by_the_relay_alone(
    tmp_path: Path, speech_wav: Path
) -> None:
    """As a container on a bridge network: its web port is published, its UDP ports are not."""
    with networks() as nets:
        await _has_no_way(nets)
        here, gateway = nets.GATEWAY_TO_CALLER_IP, nets.within(nets.gateway)
        allowed = f"{nets.SERVER_IP} {nets.CALLER_IP}"
        async with relaying(tmp_path, address=here, port=TURN_PORT, agents=allowed, within=gateway):
            published = await asyncio.create_subprocess_exec(
                *gateway,
                *(sys.executable, str(ROOT / "tests" / "forward.py")),
                *(here, str(HTTP_PORT), nets.SERVER_IP, str(HTTP_PORT)),
            )
            server = await _start_within(nets, settings_file(tmp_path, here, TURN_PORT))
            try:
                # The caller's relay reaches the server; and, where the caller names none, the
                # server's own relay lets the caller's packets in.
                outputs = [tmp_path / f"{name}.wav" for name in ("relayed", "direct")]
                calls = [
                    _call_within(nets, speech_wav, outputs[0], "--relay", "udp"),
                    _call_within(nets, speech_wav, outputs[1]),
                ]
                for status, out in await asyncio.gather(*calls):
                    assert status == 0, (out, server.log)
                    report = json.loads(out.splitlines()[-1])
                    assert report["complete"] and report["frames"] >= SPOKEN_S / 0.08 / 2
            finally:
                published.terminate()
                await published.wait()
                await server.stop()


async def _has_no_way(nets: Networks) -> None:
    """Nothing that the caller sends to the server's own address arrives."""
    knock = f"exec 3<>/dev/tcp/{nets.SERVER_IP}/{HTTP_PORT}"
    trying = await asyncio.create_subprocess_exec(
        *nets.within(nets.caller), "timeout", "0.5", "bash", "-c", knock, stderr=PIPE
    )
    _, said = await trying.communicate()
    assert trying.returncode == 124 or b"unreachable" in said, said


async def _start_within(nets: Networks, settings: Path) -> RealServer:
    """The server in its network, which it has to itself."""
    process = await asyncio.create_subprocess_exec(
        *nets.within(nets.server),
        *(sys.executable, "-m", "rtc_agent", "serve", "--agent", "echo", "--insecure-public"),
        *("--host", nets.SERVER_IP, "--port", str(HTTP_PORT), "--config", str(settings)),
        cwd=ROOT,
        stdout=PIPE,
        stderr=STDOUT,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(60):
            while line := (await process.stdout.readline()).decode():
                lines.append(line)
                if line.startswith("ready"):
                    return RealServer(process, f"http://{nets.SERVER_IP}:{HTTP_PORT}", lines)
    except TimeoutError:
        process.kill()
    raise AssertionError(f"the server did not start: {''.join(lines)}")


async def _call_within(
    nets: Networks, source: Path, output: Path, *options: str
) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *nets.within(nets.caller),
        *(sys.executable, "-m", "rtc_agent", "call"),
        f"http://{nets.GATEWAY_TO_CALLER_IP}:{HTTP_PORT}",
        *("--input", str(source), "--output", str(output), "--json", *options),
        cwd=ROOT,
        stdout=PIPE,
        stderr=STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()
