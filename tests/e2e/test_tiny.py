"""Whole calls to the tiny agent: real model code behind a real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from rtc_agent.call_server import CallServer
from rtc_agent.client.place_call import CallOrder, place_call
from rtc_agent.clock import MonotonicClock
from rtc_agent.config import Settings
from rtc_agent.engine.local import LocalEngine
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.runner import ThreadRunner
from rtc_agent.engine.stepper import (
    FRAME_SAMPLES,
    Mask,
    Pcm,
    SamplingSpec,
    SessionSpec,
    StepResult,
)
from rtc_agent.engine.tiny import tiny_model
from rtc_agent.listening import listen
from rtc_agent.media.ice import IceSettings
from rtc_agent.offline import run_offline
from tests.client.audio import SPEECH, load_wav
from tests.e2e.test_calls import call
from tests.real_server import serving

LOOPBACK = IceSettings(hosts=("127.0.0.1",))
LEAST_LETTERS = 8


async def test_text_and_sound_come_and_refusals_say_why(tmp_path: Path) -> None:
    output, transcript = tmp_path / "out.wav", tmp_path / "t.jsonl"
    async with serving("--agent", "tiny", "--sessions", "1") as server:
        info = await server.info()
        assert (info["agent"], info["voices"], info["takes_persona"]) == ("tiny", [], True)

        report = await call(
            *(server, SPEECH, output, "--persona", "You are kind."),
            *("--transcript", str(transcript)),
        )
        assert report["exit"] == 0, report
        assert len(report["text"]) >= LEAST_LETTERS
        heard = load_wav(output)
        assert abs(len(heard) - len(load_wav(SPEECH))) <= FRAME_SAMPLES
        assert np.sqrt(np.mean(heard[len(heard) // 2 :] ** 2)) > 1e-3
        events = [json.loads(line) for line in transcript.read_text().splitlines()]
        assert events[0]["type"] == "ready" and events[0]["agent"] == "tiny"
        assert events[0]["voice"] is None
        said = [event["delta"] for event in events if event["type"] == "text"]
        assert "".join(said) == report["text"]

        for options, reason in (
            (("--voice", "NATF0"), "There is no voice 'NATF0'; this agent has none."),
            (("--persona", "a" * 4_001), "4001 characters long; at most 4000"),
            (("--persona", "a" * 1_000), "this model takes 133 at most"),
        ):
            refused = await call(server, SPEECH, output, *options)
            assert refused["exit"] == 2
            assert "(400)" in refused["stderr"] and reason in refused["stderr"], refused
        assert await server.free_slots() == 1


class Overheard(LockstepStepper):
    """A stepper whose sessions draw by a given sampling, and that keeps what slot 0 was given."""

    def __init__(self, sampling: SamplingSpec) -> None:
        super().__init__(tiny_model(), 2)
        self._sampling = sampling
        self.frames: list[Pcm] = []
        self.text: list[str] = []
        self.spec: SessionSpec | None = None

    def open(self, slot: int, spec: SessionSpec) -> Iterator[None]:
        self.spec = replace(spec, sampling=self._sampling)
        return super().open(slot, self.spec)

    def step(self, pcm: Pcm, live: Mask) -> StepResult:
        result = super().step(pcm, live)
        if live[0]:
            self.frames.append(pcm[0].copy())
            self.text.append(result.text.get(0, ""))
        return result


@contextlib.asynccontextmanager
async def answering(stepper: LockstepStepper) -> AsyncIterator[str]:
    """A server around a stepper of one's own; its address."""
    settings = Settings(port=0, ice_hosts=["127.0.0.1"])
    clock = MonotonicClock()
    engine = LocalEngine(stepper, clock, ThreadRunner())
    server = CallServer(settings, engine, clock)
    engine.start()
    await server.start()
    try:
        yield (await listen(server.runner, settings.host, 0)).rstrip("/")
    finally:
        await server.aclose()
        await engine.aclose()


async def test_a_call_is_what_offline_says_of_the_frames_it_was_given(tmp_path: Path) -> None:
    """Whatever the network made of the caller: the same frames, persona and settings say the same.

    Greedy draws show the tokens, seeded ones the noise as well.
    """
    torch.set_num_threads(1)
    for sampling in (SamplingSpec(greedy=True), SamplingSpec(seed=23)):
        stepper = Overheard(sampling)
        async with answering(stepper) as url:
            order = CallOrder(
                url=url,
                input=SPEECH,
                output=tmp_path / "out.wav",
                persona="You are kind.",
                ice=LOOPBACK,
            )
            report = await place_call(order)
        assert stepper.spec is not None and stepper.spec.persona == "You are kind."
        frames = np.stack(stepper.frames)
        assert np.abs(frames).max() > 0.05, "the caller was not heard"
        result = await asyncio.to_thread(
            run_offline,
            LockstepStepper(tiny_model(), 1),
            iter(frames),
            lambda count=frames.size: count,
            lambda _: None,
            stepper.spec,
        )
        assert {event.frame: event.delta for event in result.events} == {
            frame: delta for frame, delta in enumerate(stepper.text) if delta
        }
        # The last words may still have been on their way when the caller hung up.
        assert len(report.text) >= LEAST_LETTERS
        assert result.text.strip().startswith(report.text)
