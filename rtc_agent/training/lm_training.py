"""Teaching the language model: conversations of 64 s, new ones added all the while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rtc_agent.model.spec import LmSpec
from rtc_agent.training.ahead import BatchesAhead
from rtc_agent.training.budget import cosine
from rtc_agent.training.conversations import ConversationStore, Encoded, Encoder
from rtc_agent.training.data.batch import ConversationSource
from rtc_agent.training.keyed import decay_groups
from rtc_agent.training.lm_init import is_embedding, new_lm
from rtc_agent.training.lm_loss import LmObjective, Losses
from rtc_agent.training.lm_pass import AuxiliaryHeads
from rtc_agent.training.stage import Findings

_WORDS, _WORDS_LAST = 0.6, 0.15
"""Weight of the words' loss, at first and at the end."""
_WORDS_FALL = 0.6
"""Part of the stage from which on it falls."""
_NO_NEW = 0.93
"""Part of the stage after which no new conversations are made."""
_DEAF = ((3000, 0.15), (8000, 0.45))
"""Steps, however long they take, and the share of replies that is right by then at least, of
callers on a clean line; a third of them can be told without listening."""
_VALIDATION_SEED = 1 << 20


@dataclass(frozen=True, slots=True)
class LmRun:
    """Sizes of the language model's training."""

    batch: int = 32
    peak: float = 1.8e-3
    """Learning rate."""
    warm_up: int = 200
    made_at_once: int = 32
    """Conversations in each batch of new ones."""
    first: int = 32
    """Batches of new ones before training begins."""
    every: int = 14
    """Steps between new ones."""
    eager: int = 5_000
    """Conversations until there are which new ones come twice as often: few are soon known by
    heart."""
    capacity: int = 14_000
    """Conversations kept."""
    validation: int = 32
    """Conversations that are never learned from."""
    workers: int = 0
    """Processes that make conversations ahead; none makes them when they are needed."""
    compiler: str | None = None
    """PyTorch's name of what compiles a step, as `inductor`; None runs it as it is."""


class LmTrainer:
    """`Trainer` of the language model.

    Args:
        replies: the reply classes, as `AgentBook` has them.
    """

    name = "lm"

    def __init__(
        self,
        spec: LmSpec,
        encoder: Encoder,
        source: ConversationSource,
        replies: Sequence[str],
        device: torch.device,
        run: LmRun = LmRun(),
        seed: int = 0,
    ) -> None:
        self._spec, self._encoder, self._source = spec, encoder, source
        self._run, self._seed, self._device = run, seed, device
        self._replies = list(replies)
        self._chance = torch.Generator(device).manual_seed(seed + 21)
        self._drawing = torch.Generator().manual_seed(seed + 22)
        self.tensors = new_lm(spec, seed).to(device)
        self._heads = AuxiliaryHeads(spec, len(replies), seed + 23).to(device)
        self._objective = LmObjective(
            spec,
            self.tensors,
            self._heads,
            spec.num_layers // 2,
            mixed=device.type == "cuda",
            compiler=run.compiler,
        )
        spared = self.tensors.trained(is_embedding)
        self._optimizer = torch.optim.AdamW(
            decay_groups(self.tensors, 0.05, spared) + decay_groups(self._heads, 0.05),
            lr=run.peak,
            betas=(0.9, 0.96),
            fused=device.type == "cuda",
        )
        self._parameters = [*self.tensors.parameters(), *self._heads.parameters()]
        self._store = ConversationStore(run.capacity)
        self._made = 0
        self._ahead: BatchesAhead | None = None
        self._step = 0
        self._began = 0
        self.last: Losses
        """Of the latest step."""
        self._validation: tuple[Encoded, Encoded] | None = None

    def step(self, progress: float) -> None:
        """As `Trainer.step`."""
        run = self._run
        while self._store.added < run.first * run.made_at_once:
            self._add()
        every = run.every if len(self._store) >= min(run.eager, run.capacity) else run.every // 2
        since = self._step - self._began
        if since and since % max(1, every) == 0 and progress < _NO_NEW:
            self._add()
        given = self._store.draw(run.batch, self._drawing)
        factor = cosine(progress, since, warm_up=run.warm_up, last=0.02)
        for group in self._optimizer.param_groups:
            group["lr"] = run.peak * factor
        losses = self._objective.losses(given, _words_weight(progress), self._chance)
        self._optimizer.zero_grad(set_to_none=True)
        losses.total.backward()
        losses.total = losses.total.detach()
        torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        self._step += 1
        self.last = losses

    def findings(self, progress: float) -> Findings:
        """As `Trainer.findings`."""
        if self._validation is None:
            chance = torch.Generator(self._device).manual_seed(self._seed + 24)
            rng = np.random.default_rng((self._seed, _VALIDATION_SEED))
            batch = self._source.batch(self._run.validation, rng)
            self._validation = (
                self._encoder.encode(batch, chance),
                self._encoder.encode(batch, chance, clean=True),
            )
        losses = self.last
        figures: dict[str, float | list[float]] = {
            "text": float(losses.text),
            "codes": losses.codes.tolist(),
            "words": float(losses.words),
            "reply": float(losses.reply),
            "reply_learned": float(losses.reply_right),
            "greeting": float(losses.greeting),
        }
        scores, clean = (self._objective.scores(given) for given in self._validation)
        figures |= {
            "text_right": float(scores.text),
            "code0_right": float(scores.code0),
            "reply_right": float(scores.reply),
            "reply_clean": float(clean.reply),
            "name_right": float(clean.name),
            "word_errors": scores.word_errors,
            "clean_errors": clean.word_errors,
            "conversations": float(self._store.added),
        }
        alarms = [
            "it does not learn to listen"
            for steps, least in _DEAF
            if self._step >= steps and float(clean.reply) < least
        ]
        return Findings(figures, alarms[:1])

    def state(self) -> dict[str, Any]:
        """As `Trainer.state`."""
        return {
            "tensors": self.tensors.state_dict(),
            "heads": self._heads.state_dict(),
            "replies": self._replies,
            "optimizer": self._optimizer.state_dict(),
            "chance": self._chance.get_state(),
            "drawing": self._drawing.get_state(),
            "store": self._store.state(),
            "made": self._made,
            "step": self._step,
            "began": self._began,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """As `Trainer.restore`; of weights alone, or where other reply classes were learned, with a
        new optimiser and new conversations."""
        self.tensors.load_state_dict(state["tensors"])
        before = state.get("replies", self._replies)
        same = before == self._replies and len(before) == len(state["heads"]["reply.bias"])
        self._heads.carry(state["heads"], before, self._replies)
        self._made, self._step = state["made"], state["step"]
        self.close()
        if "optimizer" not in state or not same:
            self._began = self._step
            return
        self._began = state["began"]
        self._optimizer.load_state_dict(state["optimizer"])
        self._chance.set_state(state["chance"])
        self._drawing.set_state(state["drawing"])
        self._store.restore(state["store"], self._device)

    def close(self) -> None:
        """End what makes conversations ahead."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _add(self) -> None:
        """Make a batch of new conversations and keep them."""
        if self._ahead is None:
            run = self._run
            self._ahead = BatchesAhead(
                self._source, run.made_at_once, self._seed, self._made, run.workers
            )
        self._store.add(self._encoder.encode(self._ahead.next(self._device), self._chance))
        self._made += 1


def _words_weight(progress: float) -> float:
    fallen = max(0.0, (progress - _WORDS_FALL) / (1 - _WORDS_FALL))
    return _WORDS + (_WORDS_LAST - _WORDS) * fallen
