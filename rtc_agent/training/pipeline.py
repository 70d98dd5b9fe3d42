"""The stages of the demo agent's training, each a command of its own that can be run in parts."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from rtc_agent.errors import CheckpointError
from rtc_agent.model.folder import Domain, ModelFolder
from rtc_agent.model.mimi_weights import MimiWeights, assemble_mimi
from rtc_agent.model.precision import use_exact_float32
from rtc_agent.model.spec import ModelSpec
from rtc_agent.training.budget import Budget
from rtc_agent.training.codec_net import OfflineCodec
from rtc_agent.training.codec_training import CodecRun, CodecTrainer
from rtc_agent.training.conversations import Encoder, reference_codes
from rtc_agent.training.data.batch import Augment, TrainingData
from rtc_agent.training.decoder_training import DecoderRun, DecoderTrainer
from rtc_agent.training.demo_spec import DEMO_SPEC
from rtc_agent.training.eight_bit import rounded
from rtc_agent.training.keyed import keyed_state
from rtc_agent.training.lm_training import LmRun, LmTrainer
from rtc_agent.training.model_folder import ModelContents, write_model
from rtc_agent.training.stage import Intervals, Report, Trainer, has_state, read_state, run_stage
from rtc_agent.training.tokenizer import TOKENIZER, train_tokenizer

Stage = Literal["codec", "decoder", "lm", "export"]
STAGES: tuple[Stage, ...] = ("codec", "decoder", "lm", "export")
"""In the order of their needs; `decoder` and `lm` need `codec` alone and may run side by side."""

MODEL_FOLDER = "model"


@dataclass(frozen=True, slots=True)
class Seconds:
    """Training time of each stage."""

    codec: float = 300
    decoder: float = 150
    lm: float = 900


@dataclass(frozen=True, slots=True)
class Runs:
    """Sizes of the stages' training."""

    codec: CodecRun = CodecRun()
    decoder: DecoderRun = DecoderRun()
    lm: LmRun = LmRun()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One model's training, kept in one folder.

    Args:
        out: where checkpoints go, and in the end the model.
        run_seconds: after which a run stops, to be gone on with in another.
    """

    out: Path
    data: TrainingData
    augment: Augment
    device: torch.device
    report: Report
    spec: ModelSpec = DEMO_SPEC
    seconds: Seconds = Seconds()
    runs: Runs = Runs()
    run_seconds: float = math.inf
    intervals: Intervals = Intervals()
    now: Callable[[], float] = time.monotonic
    """The clock that training time is counted by, in seconds."""

    def run(self, stage: Stage) -> bool:
        """One stage; whether it is done.

        Raises:
            CheckpointError: a stage that this one needs is not done.
            TrainingFailed: it learns nothing.
        """
        stages: dict[Stage, Callable[[], bool]] = {
            "codec": self._codec,
            "decoder": self._decoder,
            "lm": self._lm,
            "export": self._export,
        }
        self.out.mkdir(parents=True, exist_ok=True)
        return stages[stage]()

    def _codec(self) -> bool:
        _use_fast_float32()
        trainer = CodecTrainer(
            self.spec.mimi,
            self.data.book,
            self.data.pool(),
            self.augment,
            self.device,
            self.runs.codec,
        )
        return self._train(trainer, self.seconds.codec)

    def _decoder(self) -> bool:
        _use_fast_float32()
        trainer = DecoderTrainer(
            self.spec.mimi,
            self._tensors("codec", self.seconds.codec),
            self.data.book,
            self.device,
            self.runs.decoder,
        )
        return self._train(trainer, self.seconds.decoder)

    def lm_trainer(self) -> LmTrainer:
        """What the stage `lm` runs.

        Raises:
            CheckpointError: the stage `codec` is not done.
        """
        codec = self._codec_weights(self._tensors("codec", self.seconds.codec))
        # The codes of silence and of the tone, which fill prompts, are those of a call: exact.
        use_exact_float32()
        encoder = Encoder(
            self.spec, OfflineCodec(self.spec.mimi, codec), self.data.book, self.augment
        )
        # Encoding new conversations in exact float32 took more time than all learning from them.
        _use_fast_float32()
        tokenizer = ModelText(self._tokenizer())
        source = self.data.source(tokenizer, self.data.pool())
        replies = self.data.book.replies
        return LmTrainer(self.spec.lm, encoder, source, replies, self.device, self.runs.lm)

    def _lm(self) -> bool:
        trainer = self.lm_trainer()
        try:
            return self._train(trainer, self.seconds.lm)
        finally:
            trainer.close()

    def _export(self) -> bool:
        use_exact_float32()
        codec = (
            self._tensors("decoder", self.seconds.decoder)
            if has_state(self._state("decoder"))
            else self._tensors("codec", self.seconds.codec)
        )
        lm = self._tensors("lm", self.seconds.lm)
        weights = self._codec_weights(codec)
        silence, sine = reference_codes(OfflineCodec(self.spec.mimi, weights))
        spec = replace(
            self.spec,
            silence_codes=tuple(silence.tolist()),
            sine_codes=tuple(sine.tolist()),
        )
        data = self.data
        domain = Domain(data.kinds, tuple(data.examples), tuple(data.persona_names))
        contents = ModelContents(spec, lm, codec, self._tokenizer(), domain)
        folder = write_model(self.out / MODEL_FOLDER, contents)
        size = folder.lm.stat().st_size + folder.codec.stat().st_size
        self.report(f"export: {folder.path}, {size / 1e6:.2f} MB of weights")
        return True

    def _train(self, trainer: Trainer, seconds: float) -> bool:
        budget = Budget(seconds, self.run_seconds, self.now)
        done = run_stage(trainer, budget, self._state(trainer.name), self.report, self.intervals)
        state = "done" if done else "to be gone on with"
        self.report(f"{trainer.name}: {budget.spent:.0f} s of {seconds:.0f}, {state}")
        return done

    def _state(self, name: str) -> Path:
        return self.out / f"{name}.state"

    def _tensors(self, name: str, seconds: float) -> dict[str, Tensor]:
        """What a stage that is done has learned, by checkpoint keys."""
        state: Mapping[str, Any] = read_state(self._state(name))
        if state["spent"] < seconds:
            raise CheckpointError(
                f"The stage {name} has trained {state['spent']:.0f} s of {seconds:.0f}; "
                f"run it to its end first, or ask less of it by --seconds-{name}."
            )
        return keyed_state(state["trainer"]["tensors"])

    def _codec_weights(self, tensors: Mapping[str, Tensor]) -> MimiWeights:
        """The codec as it will be read from its file of eight bits."""
        narrow = {key: t.to(self.device) for key, t in rounded(tensors).items()}
        return assemble_mimi(self.spec.mimi, lambda key, _: narrow[key])

    def _tokenizer(self) -> Path:
        """The tokenizer's file: what is there already, or came with the data, or is made now.

        Raises:
            CheckpointError: it has more pieces than the model.
        """
        path = self.out / TOKENIZER
        if not path.exists():
            made = self.data.tokenizer
            if made is None:
                train_tokenizer(self.data.texts, path, self.spec.lm)
            else:
                shutil.copyfile(made, path)
        pieces = ModelText(path).pieces
        if pieces > self.spec.lm.text_card:
            raise CheckpointError(
                f"{path} has {pieces} pieces, the model {self.spec.lm.text_card}."
            )
        return path


class ModelText:
    """`Tokenizer` of a SentencePiece file; can be given to other processes."""

    def __init__(self, path: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        self._processor = SentencePieceProcessor(model_file=str(path))

    @property
    def pieces(self) -> int:
        """How many it knows."""
        return int(self._processor.vocab_size())

    def encode(self, text: str, /) -> list[int]:
        ids: list[int] = self._processor.encode(text)
        return ids


def exported(out: Path) -> ModelFolder:
    """The model that a finished training left."""
    return ModelFolder.open(out / MODEL_FOLDER)


def _use_fast_float32() -> None:
    """Let a GPU round float32 products to TF32, which a codec in training does not mind."""
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
