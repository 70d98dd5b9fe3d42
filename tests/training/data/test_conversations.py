from __future__ import annotations

import numpy as np
import torch

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.model.persona import wrap_persona
from rtc_agent.model.prompts import VoiceCodes, plan_prompt
from rtc_agent.model.spec import TEXT_ROW
from rtc_agent.model.tiny import TINY_SPEC
from rtc_agent.training.data.batch import FRAMES, IGNORE, ConversationBatch
from rtc_agent.training.data.conversations import Conversations, compose
from rtc_agent.training.data.opening import Opening
from rtc_agent.training.data.script import GREETING_FRAME, Clip, Said, Script
from rtc_agent.training.data.texts.names import DEFAULT_NAME
from tests.training.data.toys import ToyPool, WordTokenizer, toy_book


def _batch(n: int, seed: int) -> tuple[ConversationBatch, WordTokenizer]:
    tokenizer = WordTokenizer()
    source = Conversations(toy_book(), ToyPool(), tokenizer)
    return source.batch(n, np.random.default_rng(seed)), tokenizer


def test_a_batch_has_its_shapes_and_is_the_same_for_the_same_chance() -> None:
    batch, _ = _batch(2, seed=4)
    assert batch.agent.shape == batch.caller.shape == (2, FRAMES * FRAME_SAMPLES)
    assert batch.text.shape == batch.reply.shape == batch.text_weight.shape == (2, FRAMES)
    assert batch.agent.dtype == torch.float32 and batch.text.dtype == torch.int64
    again, _ = _batch(2, seed=4)
    for name in ConversationBatch.__slots__:
        assert torch.equal(getattr(batch, name), getattr(again, name)), name


def test_no_loss_is_taken_in_the_prompt_and_words_lie_behind_it() -> None:
    batch, tokenizer = _batch(4, seed=1)
    for row in range(4):
        prompt = int(batch.prompt_frames[row])
        assert (batch.text_weight[row, :prompt] == 0).all()
        assert (batch.text_weight[row, prompt:] >= 1).all()
        assert not batch.speaking[row, :prompt].any()
        assert (batch.reply[row, : max(0, prompt - 6)] == IGNORE).all()
        spans = batch.spans[row][batch.span_words[row] > 0]
        assert (spans[:, 0] >= prompt).all() and (spans[:, 1] > spans[:, 0]).all()
        count = int(batch.words_count[row])
        assert int(batch.span_words[row].sum()) == count
        assert (batch.words[row, :count] != IGNORE).all()
        assert (batch.words[row, count:] == IGNORE).all()
    assert tokenizer.words


def test_whose_greeting_is_due_is_told_from_the_prompts_end_to_the_greeting() -> None:
    book = toy_book()
    names: set[str] = set()
    source = Conversations(book, ToyPool(), WordTokenizer())
    for seed in range(30):
        script = source.script(np.random.default_rng(seed))
        reply, live = compose([script], book).reply[0], script.opening.frames
        due = book.replies.index(f"greeting:{script.opening.name}")
        assert (reply[max(0, live - 6) : live] == due).all()
        if (
            script.lines[0].frame <= GREETING_FRAME
            and not script.clips[0].onset < FRAME_SAMPLES * 6
        ):
            assert (reply[live : live + script.lines[0].frame] == due).all()
            assert book.sentences[script.lines[0].sentence].reply == book.replies[due]
            names.add(script.opening.name)
        assert not (reply[live + GREETING_FRAME :] == due).all()
    assert len(names) > 5


def test_the_prompt_is_the_run_times() -> None:
    persona = tuple(range(20, 27))
    opening = Opening(voice=5, voice_frames=3, persona=persona, name=DEFAULT_NAME)
    script = Script(opening, FRAMES - opening.frames)
    row = compose([script], toy_book()).text[0]
    codes = VoiceCodes(torch.zeros((3, 8), dtype=torch.int64))
    plan = plan_prompt(TINY_SPEC, codes, persona)
    # Position p holds the frame p; position 0 is start-of-stream.
    assert plan.length == opening.frames
    assert torch.equal(row[1 : plan.length], plan.columns[1:, TEXT_ROW])


def test_a_call_without_voice_and_persona_has_no_prompt() -> None:
    assert Opening(IGNORE, 0, (), DEFAULT_NAME).frames == 0


def test_a_personas_ids_are_those_that_a_call_would_have() -> None:
    batch, tokenizer = _batch(5, seed=7)
    told = {
        tokenizer.decode([int(t) for t in batch.text[row, : int(batch.prompt_frames[row])]])
        for row in range(5)
    } - {""}
    assert told
    assert all(text == wrap_persona(text) for text in told)


def test_clips_lie_where_they_were_put_and_cut_lines_fade() -> None:
    opening = Opening(IGNORE, 0, (), DEFAULT_NAME)
    script = Script(opening, FRAMES)
    loud = np.ones(1_000, np.float32)
    script.clips.append(Clip(loud, 5_000, tempo=2.0, gain=0.5))
    whole = toy_book().sentences[0].samples
    script.lines.append(Said(0, 4, len(whole), cut=4 * FRAME_SAMPLES + 6_000))
    batch = compose([script], toy_book())
    caller, agent = batch.caller[0], batch.agent[0]
    assert torch.equal(caller.nonzero()[:, 0], torch.arange(5_000, 5_500))
    assert caller.max() == 0.5
    begin = 4 * FRAME_SAMPLES
    assert torch.equal(agent[begin : begin + 6_000], torch.from_numpy(whole[:6_000]))
    assert agent[begin + 6_960 :].abs().max() == 0
    faded = agent[begin + 6_000 : begin + 6_960].abs() / np.abs(whole).max()
    assert faded[-50:].max() < 0.06
