"""Client secrets: what is signed comes back, and nothing else does."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.errors import InvalidRequest, Unauthorized
from signaling.client_secrets import MAX_CHARS, ClientSecrets

NOW = 1_700_000_000.0
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


def at(now: float, key: bytes = b"signing key") -> ClientSecrets:
    return ClientSecrets(key, lambda: now)


@given(st.dictionaries(st.text(max_size=10), JSON, max_size=4))
def test_any_server_with_the_signing_key_reads_it(session: dict[str, object]) -> None:
    text, expires_at = at(NOW).make("page", 60, session)
    assert text.startswith("ek_") and text.isascii()
    assert expires_at == NOW + 60
    read = at(NOW + 59).read(text)
    assert (read.key, read.session) == ("page", session)


def test_it_expires() -> None:
    text, _ = at(NOW).make("", 60, {})
    with pytest.raises(Unauthorized):
        at(NOW + 60).read(text)


def test_another_signing_key_does_not_do() -> None:
    text, _ = at(NOW).make("", 60, {})
    with pytest.raises(Unauthorized):
        at(NOW, b"another").read(text)


@given(st.data())
def test_no_change_of_it_passes(data: st.DataObject) -> None:
    text, _ = at(NOW).make("page", 60, {"voice": "a"})
    index = data.draw(st.integers(3, len(text) - 2))
    other = data.draw(st.sampled_from("ABCxyz019-_").filter(lambda c: c != text[index]))
    with pytest.raises(Unauthorized):
        at(NOW).read(text[:index] + other + text[index + 1 :])


@given(st.text(max_size=200))
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(Unauthorized):
        at(NOW).read("ek_" + text)


def test_a_session_that_no_header_can_carry_is_refused() -> None:
    long = Random(1).randbytes(MAX_CHARS).hex()
    with pytest.raises(InvalidRequest, match="too long"):
        at(NOW).make("", 60, {"instructions": long})
    with pytest.raises(InvalidRequest, match="too long"):
        at(NOW).make("", 60, {"instructions": "a" * 300_000})
