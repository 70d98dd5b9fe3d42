"""Audio over a reliable stream, cut into frames: exact while in time, bounded when late."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm
from rtc_agent.media.opus import CodecError
from rtc_agent.media.stream_source import LOOK_BACK_FRAMES, MAX_BACKLOG, SPARE, StreamSource

PACKET = 480


class Counting:
    """A decoder whose packet n decodes to samples that all hold n; concealment is -1."""

    def decode(self, payload: bytes) -> Pcm:
        if not payload:
            raise CodecError("empty")
        return np.full(PACKET, int.from_bytes(payload, "big"), np.float32)

    def conceal(self, samples: int) -> Pcm:
        return np.full(samples, -1, np.float32)

    def recover(self, next_payload: bytes, samples: int) -> Pcm | None:
        return None


def source(*packets: int) -> StreamSource:
    made = StreamSource(Counting())
    for number in packets:
        made.push(bytes([number]))
    return made


def take(it: StreamSource) -> list[int]:
    """A frame's packets, by number."""
    frame = it.reserve()
    it.commit()
    assert len(frame) == FRAME_SAMPLES
    return [int(value) for value in frame[::PACKET]]


def test_frames_are_exactly_what_came_however_it_was_cut() -> None:
    it = source(1, 2, 3, 4, 5, 6)
    assert take(it) == [1, 2, 3, 4]
    it.push(b"\x07")
    it.push(b"\x08")
    assert take(it) == [5, 6, 7, 8]
    assert (it.concealed, it.dropped) == (0, 0)


def test_before_a_first_whole_frame_there_is_silence_and_nothing_is_lost() -> None:
    it = source(1, 2)
    assert take(it) == [0, 0, 0, 0]
    it.push(b"\x03")
    it.push(b"\x04")
    assert take(it) == [1, 2, 3, 4]
    assert it.concealed == 0


def test_a_late_end_is_concealed_and_becomes_the_cushion() -> None:
    it = source(1, 2, 3, 4, 5, 6)
    take(it)
    assert take(it) == [5, 6, -1, -1]
    for number in range(7, 11):
        it.push(bytes([number]))
    assert take(it) == [7, 8, 9, 10]
    assert it.concealed == 2 * PACKET


def test_a_pause_turns_to_silence_and_ends_with_a_whole_frame() -> None:
    it = source(1, 2, 3, 4)
    take(it)
    assert take(it) == [-1] * 4
    assert take(it)[-1] == -1
    assert take(it) == [0] * 4
    it.push(b"\x09")
    assert take(it) == [0] * 4
    for number in (10, 11, 12):
        it.push(bytes([number]))
    assert take(it) == [9, 10, 11, 12]


def test_a_frame_of_a_failed_step_is_given_again() -> None:
    it = source(*range(1, 9))
    first = it.reserve()
    it.rollback()
    assert it.reserve() is first
    it.commit()
    assert take(it) == [5, 6, 7, 8]


def test_a_skipped_tick_lets_its_time_pass() -> None:
    it = source(*range(1, 13))
    take(it)
    it.skip()
    assert take(it) == [9, 10, 11, 12]
    assert it.dropped == FRAME_SAMPLES
    it.push(b"\x01")
    it.skip()
    assert it.waiting == 0


def test_a_skip_of_a_frame_put_back_skips_that_frame() -> None:
    it = source(*range(1, 9))
    it.reserve()
    it.rollback()
    it.skip()
    assert take(it) == [5, 6, 7, 8]


def test_cushion_that_is_never_needed_is_given_up() -> None:
    it = source(*range(1, 13))
    for _ in range(LOOK_BACK_FRAMES + 1):
        take(it)
        for number in range(4):
            it.push(bytes([number + 1]))
    assert it.waiting - FRAME_SAMPLES <= SPARE
    assert it.concealed == 0


def test_what_cannot_be_decoded_is_counted_and_left_out() -> None:
    it = source(1, 2)
    it.push(b"")
    it.push(b"\x03")
    it.push(b"\x04")
    assert take(it) == [1, 2, 3, 4]
    assert it.undecodable == 1


@given(st.lists(st.integers(0, 12), max_size=80))
def test_order_is_kept_and_what_waits_is_bounded(arrivals: list[int]) -> None:
    """Packets come in any rhythm, one list entry a tick."""
    it, number, heard = StreamSource(Counting()), 0, []
    for count in arrivals:
        for _ in range(count):
            number += 1
            it.push(number.to_bytes(2, "big"))
        heard += [value for value in take(it) if value > 0]
        assert it.waiting <= MAX_BACKLOG
    assert heard == sorted(set(heard))
    assert it.packets == number
