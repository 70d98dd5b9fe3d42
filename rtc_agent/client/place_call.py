"""`rtc-agent call`: play a file to the agent in real time and record what it answers."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from rtc_agent.client.call_client import NO_MEDIA, CallClient, samples_in
from rtc_agent.client.messages import left_out_frames, said, steps_back, write_transcript
from rtc_agent.client.offer import SmallWebRtcSignaling
from rtc_agent.client.sources import EncodedSource
from rtc_agent.engine.stepper import FRAME_S, SAMPLE_RATE
from rtc_agent.media.codecs import PACKET_S, PACKET_SAMPLES, silence
from rtc_agent.media.ice import IceSettings
from rtc_agent.media.levels import AUDIBLE_DBFS, dbfs
from rtc_agent.wav import WavReader, WavWriter, require_samples, require_writable

_LATEST_PACKET_S = 1.0
"""How long the last packets of the recorded time are waited for."""
_LATE_WORDS_S = 1.0
"""How long the call goes on, unrecorded, for text about the last thing said: that somebody has
stopped speaking is only known after a pause."""
_TAIL_SAMPLES = SAMPLE_RATE // 4
"""At the recording's end, in which sound means that the agent was still speaking."""


@dataclass(frozen=True, slots=True)
class CallOrder:
    """What to do on a call."""

    url: str
    input: Path
    output: Path
    transcript: Path | None = None
    voice: str | None = None
    persona: str | None = None
    leading_s: float = 0.0
    """How long to say nothing before the file: what begins at once cuts the greeting short."""
    trailing_s: float = 0.0
    """How long to go on listening after the file's end."""
    codec: str = "opus"
    ice: IceSettings = IceSettings()


@dataclass(frozen=True, slots=True)
class CallReport:
    """How a call went. Times in milliseconds are from the offer on."""

    call_id: str | None
    connect_ms: float
    ready_ms: float
    duration_s: float
    """Of the recording: the file's length, the leading and the trailing time."""
    frames: int
    """80 ms frames' worth of agent audio that arrived in that time."""
    lost_packets: int
    concealed_ms: float
    longest_gap_ms: float
    """The longest stretch of the recording for which nothing was received or concealed."""
    left_out_s: float
    """Of the caller, what the agent did not hear: the server was too slow and left it out."""
    frames_back: int
    """Text events whose frame number was below the one before."""
    text: str
    ended: str
    """Why the call ended; `hangup` when it was this side that hung up."""
    complete: bool
    """Whether the whole file was said, and listened to for as long as asked; the agent may have
    heard less of it, by `left_out_s`."""
    reply_cut: bool
    """The agent was still speaking when the recording ended."""

    def as_dict(self) -> dict[str, object]:
        """For JSON; times to a tenth of a millisecond."""
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(self).items()}


async def place_call(order: CallOrder) -> CallReport:
    """Make the call. The recording is as long as the leading time, the file and the trailing time
    together: what it holds at second t is what a listener heard t seconds after the first of them
    began. When the call breaks off, what there is is still written.

    Raises:
        BadAudioFile: the input cannot be read or the output not written.
        ServerUnreachable, CallRefused, CallFailed: see `CallClient.connect` and `wait_ready`.
    """
    signaling = SmallWebRtcSignaling(order.url, order.voice, order.persona)
    # Nobody should learn after a long call that it cannot be kept.
    require_writable(order.output)
    with WavReader(order.input) as reader:
        leading = round(order.leading_s / PACKET_S)
        pieces = itertools.chain(
            itertools.repeat(silence(PACKET_SAMPLES), leading),
            require_samples(reader.blocks(), order.input),
        )
        async with CallClient(signaling, codec=order.codec, ice=order.ice) as client:
            await client.connect()
            await client.wait_ready()
            origin_s = client.play(EncodedSource(pieces, client.encoder))
            whole = await client.wait_said()
            samples = leading * PACKET_SAMPLES + reader.samples + samples_in(order.trailing_s)
            end_s = origin_s + samples / SAMPLE_RATE
            complete = whole and await client.wait_until(end_s)
            if complete:
                await _last_packets(client, end_s)
                client.expect_media(_LATEST_PACKET_S)
                complete = client.ended != NO_MEDIA
                await client.wait_until(end_s + _LATE_WORDS_S)
    recording = client.recording(origin_s, samples)
    tail = np.zeros(0, np.float32)
    with WavWriter(order.output) as writer:
        for block in recording.blocks():
            writer.write(block)
            tail = np.concatenate((tail, block))[-_TAIL_SAMPLES:]
    if order.transcript is not None:
        write_transcript(order.transcript, client.messages, origin_s)
    heard = recording.heard
    return CallReport(
        call_id=client.call_id,
        connect_ms=client.connect_ms or 0.0,
        ready_ms=client.ready_ms or 0.0,
        duration_s=samples / SAMPLE_RATE,
        frames=round(
            (samples / SAMPLE_RATE - (heard.silent_ms + heard.concealed_ms) / 1e3) / FRAME_S
        ),
        lost_packets=heard.lost_packets,
        concealed_ms=heard.concealed_ms,
        longest_gap_ms=heard.longest_silent_ms,
        left_out_s=left_out_frames(client.messages, origin_s) * FRAME_S,
        frames_back=steps_back(client.messages),
        text=said(client.messages).strip(),
        ended=client.ended or "hangup",
        complete=complete,
        reply_cut=dbfs(tail) > AUDIBLE_DBFS,
    )


async def _last_packets(client: CallClient, end_s: float) -> None:
    """Wait until the packets that cover the recording's end are in, but not for long."""
    recorded = client.recording(end_s, 0)
    for _ in range(round(_LATEST_PACKET_S / 0.02)):
        if recorded.heard_at(0.0) is not None or not await client.wait_until(
            client.clock.now() + 0.02
        ):
            return
        recorded = client.recording(end_s, 0)
