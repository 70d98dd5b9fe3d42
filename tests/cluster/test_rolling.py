"""Whatever happens in whichever order, upgrades end, and never leave too few replicas."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_agent.cluster.parts import Kind, Part
from rtc_agent.cluster.plan import Phase, ReplicaSight
from rtc_agent.cluster.rolling import next_step


class World:
    """Hosts with room for so many replicas; replicas start and end when they are let."""

    def __init__(self, room: int, surge: bool) -> None:
        self.room = room
        self.surge = surge
        self.parts: list[Part] = []
        self.now_s = 0.0
        self._made = 0

    def step(self, wanted: int, generation: int) -> None:
        step = next_step(
            self.parts,
            wanted=wanted,
            generation=generation,
            surge=self.surge,
            surge_wait_s=60,
            now_s=self.now_s,
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
@given(st.integers(1, 5), st.integers(0, 2), st.booleans(), st.lists(st.integers(0, 9)))
def test_an_upgrade_replaces_all_and_keeps_as_many_as_it_may(
    wanted: int, spare: int, surge: bool, order: list[int]
) -> None:
    world = World(wanted + spare, surge)
    world.settle(wanted, 1, order)
    assert len(world.serving) == wanted == len(world.parts)
    fewest = wanted - (0 if surge and spare else 1)
    for index in [*order, *range(300)]:
        world.step(wanted, 2)
        assert len(world.serving) >= fewest
        world.place()
        world.finish(index)
        world.now_s += 5
    assert [part.generation for part in world.parts] == [2] * wanted
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
