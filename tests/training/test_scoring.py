"""What counts as right, and what is measured of a call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.training.data.batch import EvalCase, EvalSet
from rtc_agent.training.evaluation.calls import Call, Held, lay_out
from rtc_agent.training.evaluation.report import Evaluation, table
from rtc_agent.training.evaluation.scoring import Score, score, silent_after
from tests.training.data.toys import toy_book

GREETING, STILL = "Hello, I am Nova.", "Are you still there?"
BEGINS, ENDS, FRAMES = 20, 30, 60


def _held(
    answer: str,
    at: int = 35,
    expected: tuple[str, ...] = ("It is five.",),
    before: str = GREETING,
    false_start: bool = False,
    sounds: tuple[tuple[int, int], ...] = ((2, 14), (35, 50)),
) -> Held:
    """A call with what is said at frames, and heard in spans of frames."""
    kind = "in-domain" if expected else "sound"
    case = EvalCase(np.ones(10 * FRAME_SAMPLES, np.float32), "five", frozenset(expected), kind)
    call = Call(
        case,
        np.zeros(FRAMES * FRAME_SAMPLES, np.float32),
        BEGINS * FRAME_SAMPLES,
        ENDS * FRAME_SAMPLES,
    )
    text = [""] * FRAMES
    text[3], text[at] = f" {before}", f" {answer}"
    if false_start:
        text[25] = " It"
    pcm = np.zeros(FRAMES * FRAME_SAMPLES, np.float32)
    for first, last in sounds:
        pcm[first * FRAME_SAMPLES : last * FRAME_SAMPLES] = 0.1
    return Held(call, tuple(text), pcm)


def _score(held: Held, cut_in: bool = False) -> Score:
    return score(held, cut_in, (GREETING,), STILL)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("It is five.", True),
        ("It is five. Are you still there?", True),
        ("It is five. Are you st", True),
        ("It is five. It is five.", False),
        ("It is four.", False),
        ("It is", False),
        ("", False),
    ],
)
def test_an_answer_is_right_as_a_whole(answer: str, right: bool) -> None:
    assert _score(_held(answer)).right is right


def test_sounds_are_to_be_ignored() -> None:
    assert _score(_held("", expected=())).right
    assert _score(_held(STILL, expected=())).right
    assert not _score(_held("It is five.", expected=())).right


def test_a_call_is_timed_from_the_callers_end() -> None:
    judged = _score(_held("It is five."))
    assert judged.delay_s == pytest.approx(5 * 0.08)
    assert judged.sound == (35 * FRAME_SAMPLES, 50 * FRAME_SAMPLES)
    assert judged.greeted and not judged.false_start and judged.silent_after_s is None
    assert _score(_held("", sounds=())).delay_s is None


def test_speaking_into_the_caller_is_a_false_start() -> None:
    assert _score(_held("It is five.", false_start=True)).false_start


def test_a_greeting_is_exact_unless_it_was_cut_short() -> None:
    assert not _score(_held("", before="Hello, I am")).greeted
    assert _score(_held("", before="Hello, I am"), cut_in=True).greeted
    assert not _score(_held("", before="Goodbye"), cut_in=True).greeted


def test_the_silence_after_a_cut_in_is_the_end_of_what_was_on() -> None:
    on = ((2, 23), (35, 50))
    assert _score(_held("", sounds=on), cut_in=True).silent_after_s == pytest.approx(0.24)
    already_quiet = ((2, 14), (35, 50))
    assert _score(_held("", sounds=already_quiet), cut_in=True).silent_after_s == 0
    gapped = np.zeros(24_000, np.float32)
    gapped[:2400] = gapped[4800:7200] = 0.1
    # Words have shorter gaps than this one, which is 100 ms.
    assert silent_after(gapped, 0) == pytest.approx(0.3)


def test_calls_are_laid_out_around_the_greeting() -> None:
    cases = tuple(
        EvalCase(np.full(n, 0.2, np.float32), "x", frozenset(), "sound") for n in (3000, 9000)
    )
    for cut_in in (False, True):
        calls = lay_out(EvalSet("set", cases, cut_in=cut_in), 20 * FRAME_SAMPLES)
        assert len({len(call.pcm) for call in calls}) == 1
        greeting_ends = (6 + 20) * FRAME_SAMPLES
        for call in calls:
            assert (call.begins < greeting_ends) is cut_in
            assert call.ends - call.begins == len(call.case.samples)
            assert abs(call.pcm[call.begins : call.ends].mean() - 0.2) < 0.01
            assert 0 < np.abs(call.pcm[: call.begins]).max() < 0.01


def test_the_table_has_every_figure() -> None:
    row = {
        "name": "callers", "calls": 4, "right": [3, 4], "refused": [0, 0], "ignored": [1, 2],
        "false_starts": 1, "greetings": 4, "delay_s": {"p50": 0.45, "p90": None},
        "silent_after_cut_in_s": {"p50": None, "p90": 0.3}, "understood": [2, 3],
    }  # fmt: skip
    quiet = {"room": "a quiet room", "asked_still_there": 1, "other": "Bye."}
    text = table({"sets": [row], "silence": [quiet]})
    assert "| callers | 3/4 = 75.0 % | – | 1/2 = 50.0 % | 1/4 = 25.0 % |" in text
    assert "0.45 s / – | 0.30 s | 2/3 = 66.7 % |" in text
    assert "asked 1 × whether anybody is there, and “Bye.”" in text


@pytest.mark.parametrize(
    ("persona", "greetings"),
    [
        (None, {"Hello, I am Nova. How can I help you?"}),
        ("You are Ruby, a friendly voice.", {"Hello, I am Ruby. How can I help you?"}),
        ("Your name is Max.", {"Hello, I am Max. How can I help you?"}),
    ],
)
def test_a_persona_greets_by_its_own_name(persona: str | None, greetings: set[str]) -> None:
    data = SimpleNamespace(book=toy_book(), greeting="Hello, I am Nova. How can I help you?")
    evaluation = Evaluation(cast(Any, None), cast(Any, data))
    assert set(evaluation._greetings(persona)) == greetings
    # Who is told no name may take any.
    assert len(evaluation._greetings("Be brief and kind.")) == 20
