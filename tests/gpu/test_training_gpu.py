"""Training on a GPU: every stage learns there, and goes on where it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rtc_agent.model.mimi_weights import assemble_mimi
from rtc_agent.training.codec_net import OfflineCodec
from rtc_agent.training.conversations import Encoder
from rtc_agent.training.lm_init import new_lm
from rtc_agent.training.lm_loss import LmObjective, Losses
from rtc_agent.training.lm_pass import AuxiliaryHeads
from rtc_agent.training.pipeline import Pipeline, Runs, Seconds, exported
from rtc_agent.training.stage import Intervals
from tests.training.small_data import (
    CLASSES,
    SmallBook,
    SmallData,
    SmallSource,
    WordPieces,
    plain,
)
from tests.training.test_pipeline import RUNS, SPEC, figures
from tests.training.test_resuming import SPEC as SMALL
from tests.training.test_resuming import placed_codec

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


def test_a_compiled_step_finds_what_an_eager_one_does() -> None:
    device = torch.device("cuda:0")
    tensors = {key: tensor.to(device) for key, tensor in placed_codec().items()}
    weights = assemble_mimi(SMALL.mimi, lambda key, _: tensors[key])
    encoder = Encoder(SMALL, OfflineCodec(SMALL.mimi, weights), SmallBook(), plain)
    batch = SmallSource(WordPieces()).batch(4, np.random.default_rng(3))
    given = encoder.encode(batch, torch.Generator(device).manual_seed(0))

    def losses(compiler: str | None) -> Losses:
        lm, heads = new_lm(SMALL.lm, 0).to(device), AuxiliaryHeads(SMALL.lm, len(CLASSES), 0)
        objective = LmObjective(SMALL.lm, lm, heads.to(device), 0, True, compiler)
        found = objective.losses(given, 0.5, torch.Generator(device).manual_seed(1))
        found.total.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in lm.parameters())
        return found

    plain_losses, compiled = losses(None), losses("inductor")
    for name in ("text", "codes", "words", "reply"):
        torch.testing.assert_close(
            getattr(compiled, name), getattr(plain_losses, name), rtol=0.03, atol=0.03
        )
