"""Training on a GPU: every stage learns there, and goes on where it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rtc_agent.training.pipeline import Pipeline, Runs, Seconds, exported
from rtc_agent.training.stage import Intervals
from tests.training.small_data import SmallData, plain
from tests.training.test_pipeline import RUNS, SPEC, figures

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_the_stages_run_in_parts_on_a_gpu(tmp_path: Path) -> None:
    lines: list[str] = []

    def pipeline(run_seconds: float) -> Pipeline:
        return Pipeline(
            tmp_path,
            SmallData(),
            plain,
            torch.device("cuda:0"),
            lines.append,
            SPEC,
            Seconds(codec=20, decoder=8, lm=40),
            Runs(RUNS.codec, RUNS.decoder, RUNS.lm),
            run_seconds,
            Intervals(2, 1000),
        )

    for stage in ("codec", "decoder", "lm"):
        assert not pipeline(4).run(stage)
        assert pipeline(float("inf")).run(stage)
        assert any(line.startswith(f"{stage}: goes on at step") for line in lines)
    heard = figures(lines, "codec", "mel_agent")
    assert heard[-1] < 0.6 * heard[0]
    assert figures(lines, "lm", "reply_right")[-1] > 0.9
    assert pipeline(4).run("export")
    assert exported(tmp_path).spec.silence_codes != (0,) * 8
