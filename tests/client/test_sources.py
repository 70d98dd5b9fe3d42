from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.client.sources import NOT_SENT, EncodedSource, PayloadSource, Silence, blocks
from rtc_agent.media.codecs import encoder_for
from tests.client.audio import speech


@given(st.lists(st.integers(0, 2_000), max_size=8))
def test_blocks_hold_every_sample_once(lengths: list[int]) -> None:
    total = sum(lengths)
    samples = np.arange(1, total + 1, dtype=np.float32)
    pieces = np.split(samples, np.cumsum(lengths)[:-1]) if lengths else []
    made = list(blocks(pieces))
    assert all(len(block) == 480 for block in made)
    assert len(made) == -(-total // 480)
    whole = np.concatenate([np.zeros(0, np.float32), *made])
    np.testing.assert_array_equal(whole[:total], samples)
    assert not whole[total:].any()


def drain(source: EncodedSource) -> list[bytes]:
    return list(iter(source.next, None))


def test_encoded_source_ends_and_stays_ended() -> None:
    source = EncodedSource([speech(0.1)], encoder_for("opus"))
    assert len(drain(source)) == 5
    assert source.next() is None


def test_dtx_sends_one_packet_in_twenty_once_it_is_silent() -> None:
    quiet = np.zeros(24_000 * 10, np.float32)
    spoken = speech(0.6)[: 480 * 20] + 0.01
    sent = drain(EncodedSource([spoken, quiet, spoken], encoder_for("opus"), dtx=True))
    assert len(sent) == 20 + 500 + 20
    assert all(p != NOT_SENT for p in sent[:30]) and all(p != NOT_SENT for p in sent[520:])
    assert sum(p != NOT_SENT for p in sent[30:520]) == 24
    assert all(p != NOT_SENT for p in drain(EncodedSource([quiet], encoder_for("opus"))))


def test_ready_made_payloads() -> None:
    source = PayloadSource([b"a", b"b"])
    assert [source.next() for _ in range(4)] == [b"a", b"b", None, None]


def test_silence_never_ends() -> None:
    silence = Silence(encoder_for("PCMU"))
    assert all(len(silence.next()) == 160 for _ in range(10))
