"""Whatever happens in whichever order, upgrades end, and never leave too few replicas."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.cluster.parts import Kind, Part
from rtc_agent.cluster.plan import Phase, ReplicaSight
from rtc_agent.cluster.rolling import next_step


class World:
    """Hosts with room for so many replicas; replicas start and end when they are let."""

    def __init__(self, room: int, surge: bool, at_once: int = 1) -> None:
        self.room = room
        self.surge = surge
        self.at_once = at_once
        self.halted = False
        self.parts: list[Part] = []
        self.now_s = 0.0
        self.freed_s = -1_000.0
        self._made = 0

    def step(self, wanted: int, generation: int) -> None:
        step = next_step(
            self.parts,
            wanted=wanted,
            generation=generation,
            surge=self.surge,
            surge_wait_s=60,
            now_s=self.now_s,
            freed_s=self.freed_s,
            at_once=self.at_once,
            halted=self.halted,
        )
        for _ in range(step.start):
            self._made += 1
            name = f"replica:{self._made}"
            self.parts.append(Part(name, Kind.REPLICA, generation, self.now_s))
        for part in step.drain:
            assert not part.drained
            part.drained = True

    def place(self) -> None:
        """What waits for a place gets one, if there is one."""
        for part in self.parts:
            if part.sight is None and sum(p.sight is not None for p in self.parts) < self.room:
                self._be(part, Phase.STARTING)

    def finish(self, index: int) -> None:
        """One goes on to what comes next for it."""
        if not self.parts:
            return
        part = self.parts[index % len(self.parts)]
        if part.drained:
            self.parts.remove(part)
            self.freed_s = self.now_s
        elif part.phase is Phase.STARTING:
            self._be(part, Phase.SERVING)

    def _be(self, part: Part, phase: Phase, calls: int = 0) -> None:
        sight = ReplicaSight(part.name, part.generation, phase, "", "host", 1, 0.0, calls=calls)
        part.sight = sight

    @property
    def serving(self) -> list[Part]:
        return [part for part in self.parts if part.serving and not part.drained]

    def settle(self, wanted: int, generation: int, order: list[int]) -> None:
        for index in [*order, *range(200)]:
            self.step(wanted, generation)
            self.place()
            self.finish(index)
            self.now_s += 5


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 7),
    st.integers(0, 3),
    st.booleans(),
    st.integers(1, 4),
    st.lists(st.integers(0, 9)),
)
def test_an_upgrade_replaces_all_and_keeps_as_many_as_it_may(
    wanted: int, spare: int, surge: bool, at_once: int, order: list[int]
) -> None:
    world = World(wanted + spare, surge, at_once)
    world.settle(wanted, 1, order)
    assert len(world.serving) == wanted == len(world.parts)
    away = min(at_once, max(1, wanted - 1))
    fewest = wanted - (0 if surge and spare else away)
    for index in [*order, *range(300)]:
        world.step(wanted, 2)
        assert len(world.serving) >= fewest
        world.place()
        world.finish(index)
        world.now_s += 5
    assert [part.generation for part in world.parts] == [2] * wanted
    assert len(world.serving) == wanted


def rounds(wanted: int, room: int, surge: bool, at_once: int) -> int:
    """How often old ones are drained in an upgrade in which each step takes as long."""
    world = World(room, surge, at_once)
    world.settle(wanted, 1, [])
    drains = 0
    for _ in range(1_000):
        before = sum(part.drained for part in world.parts)
        world.step(wanted, 2)
        drains += sum(part.drained for part in world.parts) > before
        world.place()
        for part in list(world.parts):
            world.finish(world.parts.index(part))
        world.now_s += 5
        if [part.generation for part in world.serving] == [2] * wanted:
            return drains
    raise AssertionError("the upgrade does not end")


def test_several_are_replaced_at_once() -> None:
    assert rounds(16, room=18, surge=True, at_once=2) == 8
    assert rounds(16, room=20, surge=True, at_once=4) == 4
    assert rounds(16, room=16, surge=False, at_once=4) == 4
    assert rounds(16, room=16, surge=True, at_once=8) == 2, "where there is no room beside them"
    assert rounds(2, room=2, surge=False, at_once=9) == 2, "never all"


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.booleans(), st.integers(1, 3), st.lists(st.integers(0, 9)))
def test_a_halted_upgrade_drains_nothing_old_and_makes_good_what_is_lost(
    wanted: int, surge: bool, at_once: int, order: list[int]
) -> None:
    world = World(wanted + at_once, surge, at_once)
    world.settle(wanted, 1, [])
    for index in order:
        world.step(wanted, 2)
        world.place()
        world.finish(index)
    world.halted = True
    old = [part for part in world.parts if part.generation == 1 and not part.drained]
    world.settle(wanted, 2, order)
    assert [p for p in world.parts if p.generation == 1] == old
    assert len(world.serving) == wanted == len(world.parts)
    if old:
        world.parts.remove(old[0])
        world.settle(wanted, 2, order)
        assert len(world.serving) == wanted


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5), st.integers(0, 5), st.lists(st.integers(0, 9)))
def test_scaling_gets_there_and_stays(before: int, after: int, order: list[int]) -> None:
    world = World(10, surge=True)
    world.settle(before, 1, order)
    world.settle(after, 1, order)
    assert len(world.serving) == after == len(world.parts)


def test_the_one_with_the_fewest_calls_is_the_one_that_goes() -> None:
    world = World(3, surge=True)
    world.settle(3, 1, [])
    for part, calls in zip(world.parts, (2, 1, 3), strict=True):
        world._be(part, Phase.SERVING, calls)
    world.step(2, 1)
    assert [part.drained for part in world.parts] == [False, True, False]
