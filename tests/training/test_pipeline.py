"""Learning itself, in miniature: three questions are learned and answered through the stepper."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rtc_agent.errors import CheckpointError
from rtc_agent.model.spec import LmSpec, MimiSpec, ModelSpec
from rtc_agent.training.codec_training import CodecRun
from rtc_agent.training.decoder_training import DecoderRun
from rtc_agent.training.evaluation.calls import Model
from rtc_agent.training.evaluation.report import Evaluation, table
from rtc_agent.training.lm_training import LmRun
from rtc_agent.training.pipeline import Pipeline, Runs, Seconds, exported
from rtc_agent.training.stage import Intervals
from tests.training.small_data import QUESTIONS, SmallData, plain

SPEC = ModelSpec(
    lm=LmSpec(
        dim=48, num_layers=2, num_heads=4, feedforward=192, context=101, window=100,
        depformer_dim=24, depformer_num_layers=1, depformer_num_heads=2, depformer_feedforward=96,
        depformer_checkpoint_steps=8, depformer_window=7, text_card=128, card=16,
    ),
    mimi=MimiSpec(
        n_filters=4, dimension=24, transformer_layers=1, transformer_heads=2, transformer_ffn=48,
        quantizer_dimension=12, bins=16, n_q_total=8,
    ),
)  # fmt: skip
RUNS = Runs(
    CodecRun(agent_crops=2, caller_crops=2, frames=5, peak=3e-3, warm_up=10, bank=20, placing=6),
    DecoderRun(crops=1, frames=2, channels=2),
    LmRun(batch=8, peak=6e-3, warm_up=10, made_at_once=8, first=6, every=50, validation=4),
)


def pipeline(out: Path, lines: list[str], seconds: Seconds) -> Pipeline:
    """Seconds are steps: the clock is asked twice in each."""
    count = itertools.count(step=0.5)
    return Pipeline(
        out,
        SmallData(),
        plain,
        torch.device("cpu"),
        lines.append,
        SPEC,
        seconds,
        RUNS,
        intervals=Intervals(10, 1000),
        now=lambda: next(count),
    )


def figures(lines: list[str], stage: str, name: str) -> list[float]:
    """One figure's values over time."""
    mine = (re.search(rf" {name} ([\d.e+-]+)", line) for line in lines if line.startswith(stage))
    return [float(found[1]) for found in mine if found]


def learn(out: Path, codec: int, lm: int) -> tuple[list[str], Evaluation]:
    torch.set_num_threads(1)
    lines: list[str] = []
    running = pipeline(out, lines, Seconds(codec=codec, lm=lm))
    for stage in ("codec", "lm", "export"):
        assert running.run(stage)
    model = Model.load(exported(out).path, torch.device("cpu"))
    return lines, Evaluation(
        model, SmallData(), rows=3, reply_frames=16, silence_frames=20, report=lines.append
    )


def test_three_questions_are_learned_and_answered(tmp_path: Path) -> None:
    lines, evaluation = learn(tmp_path, codec=24, lm=300)
    heard = figures(lines, "codec", "mel_agent")
    assert heard[-1] < 0.6 * heard[0]
    in_use = re.findall(r"perplexity ([\d./]+)", "\n".join(lines))[-1]
    assert min(float(n) for n in in_use.split("/")) > 8
    assert figures(lines, "lm", "reply_right")[-1] == 1
    got = evaluation.run(SmallData().evaluation())
    (asked,) = got["sets"]
    assert asked["right"] == [3, 3], asked["mistakes"]
    assert asked["greetings"] == 3 and asked["false_starts"] == 0
    # Taught: the fifth frame after the question; a codec so young is slow to become loud.
    assert 0.3 <= asked["delay_s"]["p50"] <= 0.9
    assert "3/3 = 100.0 %" in table(got)
    assert [room["other"] for room in got["silence"]] == [""] * 3


def test_a_stage_waits_for_the_one_before(tmp_path: Path) -> None:
    lines: list[str] = []
    running = pipeline(tmp_path, lines, Seconds(codec=2, decoder=2, lm=2))
    with pytest.raises(CheckpointError, match="codec.state does not exist"):
        running.run("lm")
    count = itertools.count(step=0.5)
    short = replace(running, run_seconds=1.6, now=lambda: next(count))
    assert not short.run("codec")
    with pytest.raises(CheckpointError, match="has trained 1 s of 2"):
        running.run("decoder")
    assert running.run("codec")
    assert running.run("decoder")
    assert any("goes on at step" in line for line in lines)


@pytest.mark.soak
def test_more_training_leaves_no_mistakes(tmp_path: Path) -> None:
    lines, evaluation = learn(tmp_path, codec=300, lm=700)
    assert figures(lines, "lm", "word_errors")[-1] < 0.1
    (asked,) = evaluation.run(SmallData().evaluation())["sets"]
    assert asked["right"] == [len(QUESTIONS)] * 2, asked["mistakes"]
    assert asked["greetings"] == len(QUESTIONS) and not asked["false_starts"]
