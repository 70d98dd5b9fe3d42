"""The small lock-step model with its stages apart, code2wav in a thread that tests can hold up."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from rtc_agent.engine.stages.code2wav import MakeBank
from rtc_agent.engine.stages.link import Code2WavLink
from rtc_agent.engine.stages.memory import Layout
from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.engine.stages.stepper import StagedStepper
from rtc_agent.engine.stages.worker import ThreadWorker, Worker
from rtc_agent.engine.stepper import Mask
from rtc_agent.model.code2wav import Code2WavModel, HostSound
from rtc_agent.model.talker import Codes
from tests.lockstep_model import parts

PATIENT_S = 120.0
"""Before a code2wav counts as hung, on a machine that may stand still for long."""


class Gate:
    """What a test does to code2wav: hold it up, or have it fail."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.fail_on_frame: int | None = None
        self.delay_s = 0.0
        self.starts = 0
        self.decoded = 0
        """Frames of all banks, since the last start."""


class GatedModel(Code2WavModel):
    """`Code2WavModel` behind a gate."""

    gate: Gate

    def decode(self, codes: Codes, speaking: Mask) -> HostSound:
        self.gate.open.wait()
        time.sleep(self.gate.delay_s)
        self.gate.decoded += 1
        if self.gate.fail_on_frame == self.gate.decoded:
            raise RuntimeError("code2wav was told to fail")
        return super().decode(codes, speaking)


@contextlib.contextmanager
def staged(
    slots: int,
    stages: StageSettings | None = None,
    *,
    bank_rows: int | None = None,
    gate: Gate | None = None,
    refuse: Callable[[], MakeBank] | None = None,
    **changes: Any,
) -> Iterator[StagedStepper]:
    """A staged stepper of the test model, ended and its memory closed afterwards."""
    stages = stages or StageSettings()
    made = parts(**changes)
    layout = Layout.of(slots, stages)
    gate = gate or Gate()

    def connect(rows: int) -> Code2WavLink:
        def bank() -> Code2WavModel:
            model = GatedModel(made.spec, made.mimi.decoder_half(), rows)
            model.gate = gate
            return model

        def load() -> MakeBank:
            gate.starts += 1
            gate.decoded = 0
            return bank

        def start(fd: int) -> Worker:
            return ThreadWorker(refuse or load, slots // rows, fd, layout)

        return Code2WavLink(
            layout,
            start,
            stages.codec_left_context_frames,
            hung_s=PATIENT_S,
            spare=stages.code2wav.spare,
        )

    stepper = StagedStepper(
        replace(made, mimi=made.mimi.encoder_half()),
        slots,
        stages,
        connect,
        bank_rows=bank_rows,
        prefill_chunk=8,
        random_seed=lambda: 99,
    )
    try:
        yield stepper
    finally:
        gate.open.set()
        stepper.shutdown()
