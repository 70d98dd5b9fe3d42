"""The rings between the stages: a frame is found whole, by its own session, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.engine.stages.memory import Layout, StageMemory, create
from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.engine.stepper import FRAME_SAMPLES

LAYOUT = Layout(slots=2, codes=5, sounds=3)


@pytest.fixture
def ends() -> Iterator[tuple[StageMemory, StageMemory]]:
    fd = create(LAYOUT)
    talker, code2wav = StageMemory(fd, LAYOUT), StageMemory(fd, LAYOUT)
    os.close(fd)
    yield talker, code2wav
    talker.close()
    code2wav.close()


def _codes(value: int) -> np.ndarray:
    return np.full(8, value, np.int32)


def test_what_one_end_puts_the_other_finds(ends: tuple[StageMemory, StageMemory]) -> None:
    talker, code2wav = ends
    assert code2wav.codes(1, 7, 0) == (False, None)
    talker.put_codes(1, 7, 0, _codes(3))
    talker.put_codes(1, 7, 1, None)
    there, codes = code2wav.codes(1, 7, 0)
    assert there and codes is not None and codes.tolist() == [3] * 8
    assert code2wav.codes(1, 7, 1) == (True, None)
    assert code2wav.codes(0, 7, 0) == (False, None)
    pcm = np.linspace(-1, 1, FRAME_SAMPLES).astype(np.float32)
    code2wav.put_sound(1, 7, 0, pcm, False)
    assert talker.has_sound(1, 7, 0)
    sound = talker.sound(1, 7, 0)
    assert sound is not None and not sound.finite
    assert np.array_equal(sound.pcm, pcm)
    talker.clear(1)
    assert code2wav.codes(1, 7, 1) == (False, None)
    assert talker.sound(1, 7, 0) is None


@settings(max_examples=60, deadline=None)
@given(
    puts=st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 12)), min_size=1, max_size=40
    )
)
def test_only_the_newest_of_an_entry_is_found(puts: list[tuple[int, int, int]]) -> None:
    fd = create(LAYOUT)
    memory = StageMemory(fd, LAYOUT)
    os.close(fd)
    newest: dict[tuple[int, int], tuple[int, int, int]] = {}
    for number, (slot, generation, frame) in enumerate(puts):
        memory.put_codes(slot, generation, frame, _codes(number))
        newest[slot, frame % LAYOUT.codes] = (generation, frame, number)
    for slot, generation, frame in puts:
        there, codes = memory.codes(slot, generation, frame)
        entry = newest[slot, frame % LAYOUT.codes]
        assert there == (entry[:2] == (generation, frame))
        if there:
            assert codes is not None and codes.tolist() == [entry[2]] * 8
    memory.close()


def test_the_ring_of_codes_holds_the_left_context_and_the_chunk_under_way() -> None:
    stages = StageSettings(codec_chunk_frames=5, codec_left_context_frames=100)
    layout = Layout.of(4, stages)
    assert layout.codes > 100 + 2 * 5
    assert layout.sounds > 2 * 5
    assert layout.nbytes < 4 << 20
