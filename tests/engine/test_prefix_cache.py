"""Kept prompts: by use, within their bytes."""

from __future__ import annotations

import torch

from rtc_agent.engine.prefix_cache import PrefixCache
from rtc_agent.model.opening import Opening
from rtc_agent.model.temporal import Prefix


def _opening(length: int) -> Opening:
    keys = torch.zeros(1, 1, length, 4)
    return Opening(Prefix(keys, keys, length, torch.zeros(4)), torch.zeros(17))


SIZE = _opening(10).prefix.nbytes


def test_the_least_recently_used_goes_first() -> None:
    cache = PrefixCache(3 * SIZE)
    for name in "abc":
        cache.put((name, ()), _opening(10))
    assert cache.get(("a", ())) is not None
    cache.put(("d", ()), _opening(10))
    assert cache.get(("b", ())) is None
    assert all(cache.get((name, ())) for name in "acd")
    assert (len(cache), cache.nbytes) == (3, 3 * SIZE)


def test_bytes_count_once_for_a_key() -> None:
    cache = PrefixCache(3 * SIZE)
    for _ in range(5):
        cache.put((None, (1, 2)), _opening(10))
    assert (len(cache), cache.nbytes) == (1, SIZE)
    cache.drop((None, (1, 2)))
    cache.drop((None, (1, 2)))
    assert (len(cache), cache.nbytes) == (0, 0)


def test_what_is_larger_than_the_cache_is_not_held() -> None:
    cache = PrefixCache(3 * SIZE)
    cache.put(("small", ()), _opening(10))
    cache.put(("large", ()), _opening(100))
    assert cache.get(("large", ())) is None
    assert cache.get(("small", ())) is not None
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


def test_room_is_made_before_a_prompt_is_run() -> None:
    cache = PrefixCache(3 * SIZE)
    for name in "abc":
        cache.put((name, ()), _opening(10))
    cache.make_room(2 * SIZE)
    assert (len(cache), cache.nbytes) == (1, SIZE)
    assert cache.get(("c", ())) is not None
    cache.make_room(100 * SIZE)
    assert len(cache) == 0
