from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.errors import InvalidPersona
from rtc_agent.model.persona import (
    MAX_CHARS,
    clean_persona,
    fitting_chars,
    followed_persona,
    persona_ids,
    wrap_persona,
)
from rtc_agent.model.tiny import LetterTokenizer


class Characters:
    """One id a character: enough to count."""

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]


def test_wraps_as_the_model_was_trained() -> None:
    assert wrap_persona("  You are Ana. ") == "<system> You are Ana. <system>"
    tagged = "<system> You are Ana. <system>"
    assert wrap_persona(tagged) == tagged
    assert wrap_persona("<system> half") == "<system> <system> half <system>"


@given(st.text())
def test_wrapping_is_idempotent(text: str) -> None:
    assert wrap_persona(wrap_persona(text)) == wrap_persona(text)


@pytest.mark.parametrize("nothing", [None, "", "  \n\t"])
def test_nothing_is_no_persona(nothing: str | None) -> None:
    assert clean_persona(nothing) is None
    assert persona_ids(Characters(), nothing, 10) == []


def test_too_long_is_refused_with_both_numbers() -> None:
    clean_persona("x" * MAX_CHARS)
    with pytest.raises(InvalidPersona, match=f"{MAX_CHARS + 1} characters.*{MAX_CHARS}"):
        clean_persona("x" * (MAX_CHARS + 1))
    with pytest.raises(InvalidPersona, match="takes 28 tokens.*takes 27 at most"):
        persona_ids(Characters(), "0123456789", 27)
    assert len(persona_ids(Characters(), "0123456789", 28)) == 28


@pytest.mark.parametrize("encoder", [Characters(), LetterTokenizer()])
def test_what_is_said_to_fit_fits_and_one_more_does_not(encoder: Characters) -> None:
    fitting = fitting_chars(encoder, 133)
    assert len(persona_ids(encoder, "a" * fitting, 133)) == 133
    with pytest.raises(InvalidPersona, match="134 tokens"):
        persona_ids(encoder, "a" * (fitting + 1), 133)


def test_longer_pieces_let_longer_text_fit() -> None:
    class Words:
        def encode(self, text: str) -> list[int]:
            return [0 for _ in text.split()]

    assert fitting_chars(Words(), 102) == pytest.approx(100 * 5, rel=0.15)
    assert fitting_chars(Words(), 5_000) == MAX_CHARS
    assert fitting_chars(Words(), 1) == 0


@pytest.mark.parametrize("text", ["a\x00b", "a\x1b[0m", "a\ud800"])
def test_control_characters_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(InvalidPersona) as caught:
        clean_persona(text)
    assert text not in caught.value.message
    assert clean_persona("two\nlines\tand a tab") == "two\nlines\tand a tab"


@pytest.mark.parametrize(
    ("text", "followed"),
    [
        ("Your name is Ruby.", "Your name is Ruby."),
        ("you are max, and you sell shoes", "Your name is Max."),
        ("Work for a bank. MAX is your name.\nNever speak of prices.", "Your name is Max."),
        # A name within another word is none.
        ("You are Maxwell, as maximal as can be.", None),
        ("You are a helpful assistant.", None),
        (" ", None),
        (None, None),
        ("You are Max; your friend is Ruby.", "Your name is Max."),
        ("Ruby is your friend. Your name is Max.", "Your name is Max."),
        ("You're not Ruby, you're Max.", "Your name is Max."),
        ("You are Ruby's sister Max.", "Your name is Max."),
        ("Be Max, short for Ruby.", "Your name is Max."),
        ("Max and Ruby run a hotel.", "Your name is Max."),
        ("your name is ruby", "Your name is Ruby."),
        ("you are called max", "Your name is Max."),
        ("you will be called ruby, not max", "Your name is Ruby."),
        ("You're called mary ann.", "Your name is Mary Ann."),
        ("You are Mary-Lou, you know.", "Your name is Mary-Lou."),
        ("You are Mary.", None),
        ("Take the max of two numbers.", None),
        ("Take the max of two numbers and be Ruby.", "Your name is Ruby."),
    ],
)
def test_a_model_that_follows_a_name_alone_is_given_the_name(
    text: str | None, followed: str | None
) -> None:
    assert followed_persona(text, ("Ruby", "Max", "Mary Ann", "Mary-Lou")) == followed


def test_what_cannot_be_read_is_refused_though_nothing_of_it_would_be_followed() -> None:
    with pytest.raises(InvalidPersona):
        followed_persona("a\x00b", ("Ruby",))
    with pytest.raises(InvalidPersona):
        followed_persona("x" * (MAX_CHARS + 1), ("Ruby",))
