"""Telephones: baresip, which has a voice and a recorder, and sipp, which follows a script."""

from __future__ import annotations

import asyncio
import contextlib
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.telephony.gateway import free_port

_NAMES = {"PCMU": "PCMU", "PCMA": "PCMA", "G722": "G722", "opus": "opus/48000/2"}
Samples = npt.NDArray[np.float64]


def write_wav(path: Path, samples: Samples, rate: int, channels: int = 1) -> None:
    samples = np.repeat(samples, channels)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32_767).astype("<i2").tobytes())


def read_wav(path: Path) -> tuple[Samples, int]:
    """The first channel, and the rate."""
    with wave.open(str(path)) as file:
        raw = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float64)
        return raw[:: file.getnchannels()] / 32_768, file.getframerate()


class Baresip:
    """A telephone with a control port. It speaks a WAV and records what it hears."""

    def __init__(self, folder: Path, voice: Path, *, codec: str, answer: bool = False) -> None:
        self.folder = folder
        self.sip_port = free_port()
        self.control_port = free_port()
        self._codec = codec
        self._answer = answer
        self._voice = voice
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.events: list[dict[str, Any]] = []
        self._read_task: asyncio.Task[None] | None = None
        self._new = asyncio.Event()

    @property
    def uri(self) -> str:
        return f"sip:phone@127.0.0.1:{self.sip_port}"

    async def start(self) -> None:
        """Start it; on other ports if somebody took one of these meanwhile."""
        self.folder.mkdir(exist_ok=True)
        for _ in range(3):
            if await self._attempt():
                loop = asyncio.get_running_loop()
                self._read_task = loop.create_task(self._read())
                return
            self.sip_port, self.control_port = free_port(), free_port()
        raise RuntimeError((self.folder / "baresip.log").read_text()[-2000:])

    async def _attempt(self) -> bool:
        self._write_config()
        log = (self.folder / "baresip.log").open("wb")
        try:
            self._process = await asyncio.create_subprocess_exec(
                "baresip", "-4", "-f", str(self.folder),
                cwd=self.folder,
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        finally:
            log.close()
        for _ in range(200):
            if self._process.returncode is not None:
                return False
            try:
                self._reader, self._writer = await asyncio.open_connection(
                    "127.0.0.1", self.control_port
                )
            except OSError:
                await asyncio.sleep(0.05)
            else:
                return True
        self._process.kill()
        await self._process.wait()
        return False

    async def command(self, command: str, params: str = "") -> None:
        """A command of its own: `dial URI`, `hangup`, `hold`, `resume`, …"""
        assert self._writer is not None
        text = json.dumps({"command": command, "params": params, "token": "t"})
        self._writer.write(f"{len(text)}:{text},".encode())
        await self._writer.drain()

    async def event(self, type_: str, timeout_s: float = 15.0) -> dict[str, Any]:
        """The next event of that type, counted from the last one asked for."""
        async with asyncio.timeout(timeout_s):
            while True:
                for index, event in enumerate(self.events):
                    if event.get("type") == type_:
                        del self.events[: index + 1]
                        return event
                self._new.clear()
                await self._new.wait()

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            if self._writer is not None:
                with contextlib.suppress(ConnectionError):
                    await self.command("hangup")
                    await asyncio.sleep(0.1)
            self._process.terminate()
            try:
                async with asyncio.timeout(3):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._read_task is not None:
            self._read_task.cancel()
        if self._writer is not None:
            self._writer.close()

    def heard(self) -> tuple[Samples, int]:
        """What it recorded, once closed: samples and rate."""
        files = sorted(self.folder.glob("dump-*-dec.wav"))
        assert files, (self.folder / "baresip.log").read_text()[-2000:]
        return read_wav(files[-1])

    async def _read(self) -> None:
        assert self._reader is not None
        while True:
            head = await self._reader.readuntil(b":")
            body = await self._reader.readexactly(int(head[:-1]) + 1)
            message = json.loads(body[:-1])
            if message.get("event"):
                self.events.append(message)
                self._new.set()

    def _write_config(self) -> None:
        modules = "account.so menu.so ctrl_tcp.so"
        config = [
            f"sip_listen 127.0.0.1:{self.sip_port}",
            f"ctrl_tcp_listen 127.0.0.1:{self.control_port}",
            "module_path /usr/lib/baresip/modules",
            "module g711.so",
            "module g722.so",
            "module opus.so",
            "module aufile.so",
            "module sndfile.so",
            "module uuid.so",
            *(f"module_app {module}" for module in modules.split()),
            f"audio_source aufile,{self._voice}",
            "audio_player aufile,/dev/null",
            "audio_alert aufile,/dev/null",
            f"snd_path {self.folder}",
            "audio_buffer 20-160",
            "net_interface 127.0.0.1",
            "rtp_ports 44000-48000",
            "jitter_buffer_type off",
        ]
        (self.folder / "config").write_text("\n".join(config) + "\n")
        mode = "auto" if self._answer else "manual"
        (self.folder / "accounts").write_text(
            f"<{self.uri}>;regint=0;audio_codecs={_NAMES[self._codec]};answermode={mode};ptime=20\n"
        )
        (self.folder / "contacts").write_text("")
