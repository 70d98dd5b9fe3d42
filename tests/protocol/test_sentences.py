from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.protocol.sentences import Sentences


def cut(*deltas: str) -> tuple[list[str], list[str]]:
    sentences = Sentences()
    return [s for d in deltas for s in sentences.push(d)], sentences.flush()


@pytest.mark.parametrize(
    ("deltas", "done", "rest"),
    [
        ((" Hello", " there", ".", " How"), ["Hello there."], ["How"]),
        ((" It is 3", ".", "5", " now."), [], ["It is 3.5 now."]),
        ((' She said "no!" Then',), ['She said "no!"'], ["Then"]),
        (("A. B? C! ",), ["A.", "B?", "C!"], []),
        (("はい。そうです。",), ["はい。", "そうです。"], []),
        (("   ",), [], []),
    ],
)
def test_cuts(deltas: tuple[str, ...], done: list[str], rest: list[str]) -> None:
    assert cut(*deltas) == (done, rest)


@given(st.lists(st.text(alphabet="ab.!? \n", max_size=5), max_size=30))
def test_loses_no_word_whatever_the_pieces(deltas: list[str]) -> None:
    done, rest = cut(*deltas)
    assert "".join("".join(done + rest).split()) == "".join("".join(deltas).split())
