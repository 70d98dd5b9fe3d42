"""The tick's deadlines: absolute, skipped when a whole frame late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.engine.stepper import FRAME_S
from rtc_agent.engine.tick import Tick, TickClock
from tests.virtual_clock import VirtualClock


class JumpingClock(VirtualClock):
    """Sleeping takes no longer than it must."""

    async def sleep_until(self, when_s: float) -> None:
        self.advance(max(0.0, when_s - self.now()))


async def ticks(busy_s: list[float]) -> list[tuple[Tick, float]]:
    """Ticks of a loop whose steps take these times, each with the moment it began."""
    clock = JumpingClock(0.0)
    tick_clock = TickClock(clock)
    seen = []
    for step_s in busy_s:
        tick = await tick_clock.wait()
        seen.append((tick, clock.now()))
        clock.advance(step_s)
    return seen


async def test_quick_steps_tick_on_the_dot() -> None:
    seen = await ticks([0.01] * 50)
    assert [tick.index for tick, _ in seen] == list(range(50))
    assert all(tick.skipped == 0 and tick.late_s < 1e-9 for tick, _ in seen)


async def test_one_long_step_is_caught_up_without_skipping() -> None:
    seen = await ticks([0.01, 0.15, 0.01, 0.01])
    assert [tick.index for tick, _ in seen] == [0, 1, 2, 3]
    assert seen[2][0].late_s > 0.06
    assert seen[3][0].late_s < 1e-9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_no_tick_is_ever_a_frame_late_and_none_goes_uncounted(busy_s: list[float]) -> None:
    import asyncio

    seen = asyncio.run(ticks(busy_s))
    indices = [tick.index for tick, _ in seen]
    assert all(0 <= tick.late_s < FRAME_S + 1e-9 for tick, _ in seen)
    assert sum(tick.skipped + 1 for tick, _ in seen) == indices[-1] + 1
    for tick, began in seen:
        assert abs(began - (tick.index + 1) * FRAME_S - tick.late_s) < 1e-6
