"""The real gateway, started for one test: its own configuration, free ports, loopback for SIP."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sysconfig
from pathlib import Path

import aioice.ice
import pytest

PARTS = ("janus", "baresip", "sipp")
MISSING = [part for part in PARTS if shutil.which(part) is None]

_PLUGINS = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/janus"
_UNUSED_PLUGINS = (
    "audiobridge duktape echotest lua nosip recordplay streaming textroom videocall videoroom "
    "voicemail"
)
_UNUSED_TRANSPORTS = "http mqtt nanomsg pfunix rabbitmq"


def require_parts() -> None:
    """Skip where a part is missing; in CI that is a failure."""
    missing = [*MISSING, *([] if media_host() else ["an address other than loopback"])]
    if missing:
        message = f"not here: {', '.join(missing)} (`make system-parts` installs programs)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


def media_host() -> str | None:
    """This machine's own address: the gateway never uses loopback for WebRTC. Packets to it stay
    on the machine."""
    hosts = aioice.ice.get_host_addresses(use_ipv4=True, use_ipv6=False)
    return hosts[0] if hosts else None


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _libraries(names: str) -> str:
    return ",".join(f"libjanus_{name}.so" for name in names.split())


class RealJanus:
    """One gateway process; `kill` and `start` again as often as a test likes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: asyncio.subprocess.Process | None = None
        self._write_config()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        log = (self.folder / "janus.log").open("ab")
        try:
            self._process = await asyncio.create_subprocess_exec(
                "janus",
                "-C", str(self.folder / "janus.jcfg"),
                "-F", str(self.folder),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )  # fmt: skip
        finally:
            log.close()
        async with asyncio.timeout(15):
            while True:
                if self._process.returncode is not None:
                    raise RuntimeError((self.folder / "janus.log").read_text()[-2000:])
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                return

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def _write_config(self) -> None:
        rtp = 20_000 + (os.getpid() * 97 + self.port) % 20_000
        files = {
            "janus.jcfg": f"""
general: {{
    configs_folder = "{self.folder}"
    plugins_folder = "{_PLUGINS}/plugins"
    transports_folder = "{_PLUGINS}/transports"
    events_folder = "{_PLUGINS}/events"
    loggers_folder = "{_PLUGINS}/loggers"
    debug_level = 4
    debug_colors = false
    admin_secret = "unused"
    reclaim_session_timeout = 30
}}
media: {{
    rtp_port_range = "{rtp}-{rtp + 2000}"
}}
nat: {{
    full_trickle = false
    ice_enforce_list = "{media_host()}"
}}
plugins: {{
    disable = "{_libraries(_UNUSED_PLUGINS)}"
}}
transports: {{
    disable = "{_libraries(_UNUSED_TRANSPORTS)}"
}}
""",
            "janus.plugin.sip.jcfg": f"""
general: {{
    local_ip = "127.0.0.1"
    sdp_ip = "127.0.0.1"
    keepalive_interval = 120
    behind_nat = false
    register_ttl = 3600
    rtp_port_range = "{rtp + 2002}-{rtp + 4000}"
    sip_timer_t1x64 = 4000
}}
""",
            "janus.transport.websockets.jcfg": f"""
general: {{
    json = "compact"
    ws = true
    ws_port = {self.port}
    ws_ip = "127.0.0.1"
    wss = false
}}
admin: {{
    admin_ws = false
}}
""",
        }
        for name, text in files.items():
            (self.folder / name).write_text(text)
