"""What the language model is taught, and what it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rtc_agent.model.mimi_weights import assemble_mimi
from rtc_agent.model.spec import AGENT_ROWS, TEXT_ROW, USER_ROWS
from rtc_agent.training.codec_net import OfflineCodec
from rtc_agent.training.conversations import ConversationStore, Encoded, Encoder
from rtc_agent.training.lm_init import new_lm
from rtc_agent.training.lm_loss import LmObjective, Losses, _with_errors
from rtc_agent.training.lm_pass import AuxiliaryHeads, gains
from rtc_agent.training.lm_words import collapsed, edit_distance, utterances
from tests.training.small_data import CLASSES, SmallBook, SmallSource, WordPieces, plain
from tests.training.test_resuming import SPEC, placed_codec

TOKENS = WordPieces()
FRAMES = 59
"""Room for a question, or two, after a prompt as well."""


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    tensors = placed_codec()
    codec = OfflineCodec(SPEC.mimi, assemble_mimi(SPEC.mimi, lambda key, _: tensors[key]))
    return Encoder(SPEC, codec, SmallBook(), plain)


@pytest.fixture(scope="module")
def given(encoder: Encoder) -> Encoded:
    source = SmallSource(TOKENS, prompts=0.5, frames=FRAMES)
    batch = source.batch(4, np.random.default_rng(3))
    batch.voice[0], batch.voice_frames[0] = 1, 6
    assert 0 < int((batch.prompt_frames > 0).sum()) < 4
    return encoder.encode(batch, torch.Generator().manual_seed(0))


def _losses(given: Encoded, mixed: bool = False) -> Losses:
    heads = AuxiliaryHeads(SPEC.lm, len(CLASSES), 0)
    tensors = new_lm(SPEC.lm, 0)
    objective = LmObjective(SPEC.lm, tensors, heads, 0, mixed)
    losses = objective.losses(given, 0.5, torch.Generator().manual_seed(1))
    losses.total.backward()
    for parameter in (*tensors.parameters(), *heads.parameters()):
        assert parameter.grad is not None and parameter.grad.isfinite().all()
    return losses


def test_bfloat16_products_change_little(given: Encoded) -> None:
    wide, mixed = _losses(given), _losses(given, mixed=True)
    for name in ("text", "codes", "words", "reply"):
        torch.testing.assert_close(
            getattr(mixed, name), getattr(wide, name), rtol=0.03, atol=0.03, check_dtype=False
        )


def test_prompts_are_laid_out_as_at_run_time(encoder: Encoder, given: Encoded) -> None:
    row = int((given.prompt_frames > 0).nonzero()[0])
    prompt = int(given.prompt_frames[row])
    frames = given.frames.long()
    assert (frames[row, USER_ROWS, :prompt] == encoder.sine[:, None]).all()
    first = 6 if row == 0 else 0
    assert (frames[row, AGENT_ROWS, first:prompt] == encoder.silence[:, None]).all()
    clip = encoder.encode(
        _only_agent(SmallBook().sentences[1].samples), torch.Generator().manual_seed(0)
    )
    assert torch.equal(given.frames[0, AGENT_ROWS, :6], clip.frames[0, AGENT_ROWS, :6])


def test_nothing_is_learned_from_what_is_forced(given: Encoded) -> None:
    before = _losses(given)
    frames = given.frames.clone()
    for row, prompt in enumerate(given.prompt_frames.tolist()):
        # The last prompt frame's acoustic codes are still to come when the call begins.
        frames[row, TEXT_ROW, :prompt] = (frames[row, TEXT_ROW, :prompt] + 1) % SPEC.lm.text_card
    prompted = replace(given, frames=frames, text_weight=given.text_weight * 1)
    changed = _losses(prompted)
    # Another prompt is another context, but no more of a target.
    assert abs(float(changed.text - before.text)) < 0.1
    heavy = given.text_weight.clone()
    for row, prompt in enumerate(given.prompt_frames.tolist()):
        heavy[row, :prompt] = 50
    assert torch.equal(_losses(replace(given, text_weight=heavy)).text, before.text)


def test_a_name_weighs_what_it_is_given(given: Encoded) -> None:
    before = _losses(given).text
    weight = given.text_weight.clone()
    row, frame = 1, int(given.prompt_frames[1]) + 3
    weight[row, frame] = 20
    assert not torch.equal(_losses(replace(given, text_weight=weight)).text, before)


def test_whose_greeting_is_due_is_a_loss_of_its_own(given: Encoded) -> None:
    before = _losses(given)
    assert float(before.greeting) == 0
    reply = given.reply.clone()
    for row, prompt in enumerate(given.prompt_frames.tolist()):
        reply[row, max(0, prompt - 6) : prompt + 2] = 2
    named = replace(given, reply=reply)
    after = _losses(named)
    assert float(after.greeting) > 0.5 and torch.equal(after.reply, before.reply)
    assert torch.allclose(after.total - before.total, 0.25 * after.greeting, rtol=1e-3)
    # Known or not is told from the prompt's last position alone.
    heads, tensors = AuxiliaryHeads(SPEC.lm, len(CLASSES), 0), new_lm(SPEC.lm, 0)
    objective = LmObjective(SPEC.lm, tensors, heads, 0, mixed=False)
    with torch.no_grad():
        heads.reply.bias[2] = 1e6
    scores = objective.scores(named)
    assert float(scores.name) == 1
    assert torch.equal(scores.reply, objective.scores(given).reply)
    for row, prompt in enumerate(given.prompt_frames.tolist()):
        named.reply[row, max(0, prompt - 1)] = 1
    assert float(objective.scores(named).name) == 0


def test_every_utterance_is_read_in_its_own_frames(given: Encoded) -> None:
    said = utterances(given, FRAMES - 1)
    lengths, ids, counts = said.lengths, said.ids, said.counts
    rows, places = said.places // (FRAMES - 1), said.places % (FRAMES - 1)
    assert len(lengths) == int((given.span_words > 0).sum()) > 3
    seen = 0
    for row in range(len(given)):
        offset = 0
        for span, count in zip(given.spans[row], given.span_words[row].tolist(), strict=True):
            if not count:
                continue
            assert int(rows[seen, 0]) == row and int(places[seen, 0]) == int(span[0])
            wanted = given.words[row, offset : offset + count].long()
            assert torch.equal(ids[seen, :count], wanted) and int(counts[seen]) == count
            assert int(lengths[seen]) == min(int(span[1]) + 4, FRAMES - 1) - int(span[0])
            offset += count
            seen += 1


def test_words_are_compared_by_edits() -> None:
    assert edit_distance([1, 2, 3], [1, 3]) == 1
    assert edit_distance([], [1, 3]) == 2
    assert edit_distance([1, 2], [2, 1]) == 2
    assert collapsed([3, 5, 5, 3, 5, 6, 3], 3) == [5, 5, 6]


def test_a_store_keeps_the_latest(encoder: Encoder) -> None:
    store = ConversationStore(5)
    source, chance = SmallSource(TOKENS), torch.Generator().manual_seed(0)
    added = []
    for seed in range(3):
        batch = source.batch(3, np.random.default_rng(seed))
        # One batch has more words than another.
        batch.words = torch.nn.functional.pad(batch.words, (0, seed), value=-1)
        added += list(encoder.encode(batch, chance).frames)
        store.add(encoder.encode(batch, torch.Generator().manual_seed(seed)))
    assert len(store) == 5 and store.added == 9
    drawn = store.draw(64, torch.Generator().manual_seed(1))
    assert {_key(f) for f in drawn.frames} <= {_key(f) for f in store._held["frames"]}
    texts = {tuple(f[TEXT_ROW].tolist()) for f in added[-5:]}
    assert {tuple(f[TEXT_ROW].tolist()) for f in drawn.frames} == texts


def _key(frames: torch.Tensor) -> bytes:
    return frames.numpy().tobytes()


def _only_agent(samples: np.ndarray) -> object:
    batch = SmallSource(TOKENS, prompts=0, frames=FRAMES).batch(1, np.random.default_rng(0))
    batch.agent.zero_()
    batch.agent[0, : len(samples)] = torch.from_numpy(samples)
    return batch


def test_a_compiled_step_is_traced_whole_and_teaches_the_same(given: Encoded) -> None:
    plain, compiled = (_gradients(given, compiler) for compiler in (None, "aot_eager"))
    for name, gradient in plain.items():
        torch.testing.assert_close(compiled[name], gradient, rtol=1e-4, atol=1e-6, msg=name)


def _gradients(given: Encoded, compiler: str | None) -> dict[str, torch.Tensor]:
    """By parameter, after a first batch and a second; and the losses."""
    heads, tensors = AuxiliaryHeads(SPEC.lm, len(CLASSES), 0), new_lm(SPEC.lm, 0)
    objective = LmObjective(SPEC.lm, tensors, heads, 0, mixed=False, compiler=compiler)
    chance = torch.Generator().manual_seed(1)
    for _ in range(2):
        losses = objective.losses(given, 0.5, chance)
        losses.total.backward()
    found = {name: getattr(losses, name).detach() for name in Losses.__slots__}
    named = (*tensors.named_parameters(), *heads.named_parameters())
    return found | {name: p.grad for name, p in named if p.grad is not None}


def test_what_is_compiled_takes_the_norms_gains_as_vectors(given: Encoded) -> None:
    """A compiler was seen to give a parameter of [1, 1, dim] a gradient of [dim]."""
    shapes: list[torch.Size] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        shapes.extend(given.shape for given in inputs)
        return graph.forward

    heads, tensors = AuxiliaryHeads(SPEC.lm, len(CLASSES), 0), new_lm(SPEC.lm, 0)
    objective = LmObjective(SPEC.lm, tensors, heads, 0, mixed=False, compiler=backend)
    objective.losses(given, 0.5, torch.Generator().manual_seed(1)).total.backward()
    norms = [key for key in tensors.keys if key.endswith("alpha")]
    assert shapes and not [s for s in shapes if s[:2] == (1, 1)]
    assert sum(s == (SPEC.lm.dim,) for s in shapes) >= 2 * SPEC.lm.num_layers + 1
    for key in norms:
        gradient = tensors.fetch(key).grad
        assert gradient is not None and gradient.shape == tensors.fetch(key).shape


class _Waits(TorchDispatchMode):
    """Notes what has to wait for a device to say how much there is of something."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        by_mask = name in ("aten::index.Tensor", "aten::index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if by_mask or name in ("aten::_local_scalar_dense", "aten::nonzero"):
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def test_a_step_waits_for_nothing(given: Encoded) -> None:
    heads, tensors = AuxiliaryHeads(SPEC.lm, len(CLASSES), 0), new_lm(SPEC.lm, 0)
    objective = LmObjective(SPEC.lm, tensors, heads, 0, mixed=False)
    targets, chance = objective._targets(given), torch.Generator().manual_seed(1)
    order = torch.rand(targets.live.shape, generator=chance)
    with _Waits() as waits:
        heard = _with_errors(SPEC.lm, targets.heard, chance)
        fixed = (targets.coming, targets.live, targets.speaking, targets.weight)
        fixed = (*fixed, targets.reply, targets.greeting)
        losses = objective._forward(heard, *fixed, order, gains(tensors))
        (losses.text + losses.codes.sum() + losses.reply + losses.tapped.mean()).backward()
    assert not waits.seen
    with _Waits() as waits:
        objective.scores(given)
    assert waits.seen
