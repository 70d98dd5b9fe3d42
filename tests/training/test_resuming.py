"""A run that was interrupted goes on as if it had not been, to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rtc_agent.errors import CheckpointError, TrainingFailed
from rtc_agent.model.mimi_weights import assemble_mimi
from rtc_agent.training.budget import Budget
from rtc_agent.training.codec_init import new_codec
from rtc_agent.training.codec_net import OfflineCodec
from rtc_agent.training.codec_training import CodecRun, CodecTrainer
from rtc_agent.training.conversations import Encoder
from rtc_agent.training.decoder_training import DecoderRun, DecoderTrainer
from rtc_agent.training.lm_training import LmRun, LmTrainer
from rtc_agent.training.stage import Findings, Intervals, Trainer, read_state, run_stage
from tests.lockstep_model import SPEC as LOCKSTEP
from tests.training.small_data import (
    CLASSES,
    REPLIES,
    SmallBook,
    SmallPool,
    SmallSource,
    WordPieces,
    plain,
)

CPU = torch.device("cpu")
SPEC = replace(
    LOCKSTEP,
    lm=replace(
        LOCKSTEP.lm,
        context=61,
        window=60,
        depformer_checkpoint_steps=8,
        depformer_window=7,
        text_card=WordPieces().vocab_size(),
    ),
)


RUN = LmRun(batch=2, made_at_once=2, first=1, every=2, capacity=3, validation=1)


class Ticking:
    """A trainer whose every step takes one second."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self.now_s = 0.0
        self.name = trainer.name
        self.findings = trainer.findings
        self.state = trainer.state
        self.restore = trainer.restore

    def step(self, progress: float) -> None:
        self._trainer.step(progress)
        self.now_s += 1

    def now(self) -> float:
        return self.now_s


def codec() -> CodecTrainer:
    run = CodecRun(agent_crops=1, caller_crops=1, frames=2, bank=3, bank_steps=2, placing=3)
    return CodecTrainer(SPEC.mimi, SmallBook(), SmallPool(), plain, CPU, run)


def placed_codec() -> dict[str, Tensor]:
    """Random weights whose codebooks hold what there is to hear."""
    trainer = codec()
    trainer._place(0.2)
    return trainer.tensors.export()


def decoder() -> DecoderTrainer:
    run = DecoderRun(crops=1, frames=1, channels=2)
    return DecoderTrainer(SPEC.mimi, placed_codec(), SmallBook(), CPU, run)


def lm(replies: Sequence[str] = CLASSES, run: LmRun = RUN) -> LmTrainer:
    tensors = placed_codec()
    weights = assemble_mimi(SPEC.mimi, lambda key, _: tensors[key])
    encoder = Encoder(SPEC, OfflineCodec(SPEC.mimi, weights), SmallBook(), plain)
    return LmTrainer(SPEC.lm, encoder, SmallSource(WordPieces()), replies, CPU, run)


@pytest.mark.parametrize("make", [codec, decoder, lm])
def test_an_interrupted_run_is_an_uninterrupted_one(tmp_path: Path, make: Any) -> None:
    steps = 5
    lines: list[str] = []

    def run(name: str, seconds: float = float("inf")) -> bool:
        trainer = Ticking(make())
        budget = Budget(steps, seconds, trainer.now)
        return run_stage(trainer, budget, tmp_path / name, lines.append, Intervals(4, 3))

    assert run("whole")
    assert not run("parts", 2)
    assert not run("parts", 1)
    assert run("parts")
    assert any("goes on at step 3" in line for line in lines)
    whole, parts = read_state(tmp_path / "whole"), read_state(tmp_path / "parts")
    assert whole["step"] == parts["step"] == steps
    _same(whole, parts)
    # And it did learn something all along.
    first = new_codec(SPEC.mimi, 0).state_dict() if make is codec else make().tensors.state_dict()
    assert any(not torch.equal(first[k], v) for k, v in whole["trainer"]["tensors"].items())


@pytest.mark.parametrize("known", [True, False])
def test_other_reply_classes_are_gone_on_with(known: bool) -> None:
    """Those that are the same keep what was learned; only auxiliary heads may differ."""
    old, new = lm(), lm(("nothing", "Bye.", f"{REPLIES[0]}:Nova", "Ho ho.", "Ha ha."))
    old.step(0.0)
    state = old.state()
    if not known:
        del state["replies"]
    new.restore(state)
    fresh, now = lm(new._replies)._heads.state_dict(), new._heads.state_dict()
    for name in ("reply.weight", "reply.bias"):
        was = state["heads"][name]
        for i, before in enumerate((0, 3, 1, None, 2)):
            wanted = fresh[name][i] if before is None or not known else was[before]
            assert torch.equal(now[name][i], wanted)
    assert torch.equal(now["words.weight"], state["heads"]["words.weight"])
    for key, tensor in new.tensors.state_dict().items():
        assert torch.equal(tensor, state["tensors"][key])
    # Conversations kept have the old classes' numbers.
    assert new._store.added == 0 and new._began == 1
    new.step(0.5)
    del state["tensors"]["out_norm/alpha"]
    with pytest.raises(RuntimeError, match="out_norm/alpha"):
        lm().restore(state)


def test_new_conversations_come_twice_as_often_at_first() -> None:
    run = replace(lm()._run, every=4, eager=4, capacity=8, first=1)
    trainer = lm(run=run)
    added = []
    for _ in range(14):
        trainer.step(0.2)
        added.append(trainer._store.added)
    # Two before the first step and after two steps, then every four.
    assert added == [2, 2, 4, 4, 6, 6, 6, 6, 8, 8, 8, 8, 10, 10]
    trainer.step(0.95)
    assert trainer._store.added == 10


def test_what_is_over_stays_over(tmp_path: Path) -> None:
    trainer = Ticking(codec())
    budget = Budget(2, now=trainer.now)
    assert run_stage(trainer, budget, tmp_path / "c", lambda _: None)
    again = Ticking(codec())
    assert run_stage(again, Budget(2, now=again.now), tmp_path / "c", lambda _: None)
    assert again.now_s == 0


class Failing:
    """A trainer that finds what it is told to."""

    name = "failing"

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.steps = 0

    def step(self, progress: float) -> None:
        self.steps += 1

    def findings(self, progress: float) -> Findings:
        return self._findings

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: object) -> None:
        pass


@pytest.mark.parametrize(
    ("findings", "steps", "why"),
    [
        (Findings({"loss": float("nan")}), 1, "loss is no number"),
        (Findings({"codes": [1.0, float("inf")]}), 1, "codes is no number"),
        (Findings({"loss": 1.0}, ["a codebook has collapsed"]), 4, "a codebook has collapsed"),
    ],
)
def test_a_run_that_fails_ends_at_once(
    tmp_path: Path, findings: Findings, steps: int, why: str
) -> None:
    failing = Failing(findings)
    trainer = Ticking(failing)
    with pytest.raises(TrainingFailed, match=why):
        run_stage(trainer, Budget(99, now=trainer.now), tmp_path / "f", print, Intervals(1, 100))
    assert failing.steps == steps
    assert not (tmp_path / "f").exists()


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="run the stage before"):
        read_state(tmp_path / "none")
    (tmp_path / "torn").write_bytes(b"PK\3\4torn")
    with pytest.raises(CheckpointError, match="torn cannot be read"):
        read_state(tmp_path / "torn")


def _same(one: object, other: object, where: str = "") -> None:
    if isinstance(one, torch.Tensor):
        assert isinstance(other, torch.Tensor) and torch.equal(one, other), where
    elif isinstance(one, dict):
        assert isinstance(other, dict) and one.keys() == other.keys(), where
        for key in one:
            _same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert isinstance(other, list | tuple) and len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            _same(a, b, f"{where}.{i}")
    else:
        assert one == other, where
