"""Pipecat's SmallWebRTC transport with a pipeline that sends its input back."""

from __future__ import annotations

import asyncio
import sys

import uvicorn
from fastapi import FastAPI, Request
from loopback import use_loopback
from pipecat.frames.frames import Frame, InputAudioRawFrame, OutputAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc.connection import SmallWebRTCConnection
from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport
from pipecat.workers.runner import WorkerRunner


class Echo(FrameProcessor):
    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, InputAudioRawFrame):
            frame = OutputAudioRawFrame(
                audio=frame.audio,
                sample_rate=frame.sample_rate,
                num_channels=frame.num_channels,
            )
        await self.push_frame(frame, direction)


async def run_call(connection: SmallWebRTCConnection) -> None:
    params = TransportParams(
        audio_in_enabled=True,
        audio_out_enabled=True,
        audio_in_sample_rate=24_000,
        audio_out_sample_rate=24_000,
    )
    transport = SmallWebRTCTransport(webrtc_connection=connection, params=params)
    worker = PipelineWorker(
        Pipeline([transport.input(), Echo(), transport.output()]), params=PipelineParams()
    )

    @transport.event_handler("on_client_disconnected")
    async def on_client_disconnected(*_) -> None:
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()


app = FastAPI()
calls: set[asyncio.Task] = set()


@app.post("/api/offer")
async def offer(request: Request) -> dict:
    body = await request.json()
    connection = SmallWebRTCConnection(ice_servers=[])
    await connection.initialize(sdp=body["sdp"], type=body["type"])
    call = asyncio.create_task(run_call(connection))
    calls.add(call)
    call.add_done_callback(calls.discard)
    return connection.get_answer()


if __name__ == "__main__":
    use_loopback()
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
