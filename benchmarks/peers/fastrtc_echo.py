"""FastRTC: an `AsyncStreamHandler` that emits each frame it receives."""

from __future__ import annotations

import asyncio
import sys

import uvicorn
from fastapi import FastAPI
from fastrtc import AsyncStreamHandler, Stream
from loopback import use_loopback


class Echo(AsyncStreamHandler):
    def __init__(self) -> None:
        super().__init__(input_sample_rate=24_000, output_sample_rate=24_000)
        self.frames: asyncio.Queue = asyncio.Queue()

    async def start_up(self) -> None:
        pass

    async def receive(self, frame) -> None:
        self.frames.put_nowait(frame)

    async def emit(self):
        return await self.frames.get()

    def copy(self) -> Echo:
        return Echo()

    async def shutdown(self) -> None:
        pass


if __name__ == "__main__":
    use_loopback()
    stream = Stream(
        Echo(),
        modality="audio",
        mode="send-receive",
        concurrency_limit=100,
        server_rtc_configuration={"iceServers": []},
    )
    app = FastAPI()
    stream.mount(app)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
