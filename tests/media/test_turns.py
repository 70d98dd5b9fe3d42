"""Calls that send one after another."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.engine.stepper import FRAME_S
from rtc_agent.media.codecs import PACKET_S, PCMU
from rtc_agent.media.playout import PlayoutTrack
from rtc_agent.media.turns import STEP_S, TURNS, Turns, wait_s
from tests.media.simulation import noise
from tests.media.test_playout import Listener
from tests.virtual_clock import VirtualClock


@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=60))
def test_the_lowest_turn_that_is_free_goes_first(moves: list[int | None]) -> None:
    turns, held = Turns(), set[int]()
    for gives_back in moves:
        if gives_back is None or not held:
            turn = turns.take()
            assert turn == min(set(range(len(held) + 1)) - held)
            held.add(turn)
        else:
            turn = sorted(held)[gives_back % len(held)]
            held.remove(turn)
            turns.give_back(turn)


def test_nobody_waits_long() -> None:
    assert wait_s(0) == 0
    assert max(wait_s(turn) for turn in range(100)) == (TURNS - 1) * STEP_S < PACKET_S / 4


async def test_packets_of_calls_whose_frames_come_at_once_leave_one_after_another() -> None:
    clock = VirtualClock()
    tracks = [PlayoutTrack(PCMU, clock, turn_s=wait_s(turn)) for turn in range(4)]
    listeners = [Listener(track, clock) for track in tracks]
    arrivals = []
    for _ in range(50):
        arrivals.append(clock.now())
        for track in tracks:
            track.play(noise(FRAME_S))
        await clock.run_for(FRAME_S)
    for listener in listeners:
        await listener.stop()
    frame_s = arrivals[-1]
    phases = [(listener.times()[-8:] - frame_s) % PACKET_S for listener in listeners]
    for turn, phase in enumerate(phases):
        # The same in every packet, and behind the first call's by as many steps as it has turns.
        np.testing.assert_allclose(phase - phases[0], turn * STEP_S, atol=1e-4)
    assert all(track.buffer.underruns == 0 for track in tracks)
