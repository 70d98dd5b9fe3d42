"""For all tests."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from pathlib import Path
from typing import Any

import pytest

LANES = (
    {"client", "deployment", "media", "processes", "telephony"},
    {"cluster", "e2e", "interop", "web"},
)
"""Folders whose tests make calls in real time, and so wait more than they work. With several
workers (`pytest -n 3`) each lane is one worker's, who runs all of it, one test after another; the
others run the rest. Browsers, and the packages that npm installs for them, are of one lane alone.
"""
RETRIES = 2
"""A machine that stands still for a moment breaks such a call through no fault of ours."""


def pytest_configure() -> None:
    # What a shell starts in the background is started deaf to Ctrl-C, and so would be all that the
    # tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # On a shared machine of few cores, threads of small models wait for each other more than they
    # work.
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)


def pytest_itemcollected(item: pytest.Item) -> None:
    if in_real_time(item):
        item.add_marker(pytest.mark.flaky(reruns=RETRIES, reruns_delay=2))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class RealTimeApart(LoadScopeScheduling):
        """A lane is one piece of work, and larger than others, so that it is begun first."""

        def _split_scope(self, nodeid: str) -> str:
            path, _, _ = nodeid.partition("::")
            lane = lane_of(Path(path))
            return nodeid if lane is None else f"lane {lane}"

    return RealTimeApart(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and not in_real_time(item):
        make_way()


@functools.cache
def make_way() -> None:
    """Leave the processor to the workers whose calls are in real time."""
    os.nice(10)


def in_real_time(item: pytest.Item) -> bool:
    here = Path(__file__).parent
    return item.path.is_relative_to(here) and lane_of(item.path.relative_to(here)) is not None


def lane_of(path: Path) -> int | None:
    """Which lane a test's file belongs to; none that is not in real time."""
    return next((lane for lane, folders in enumerate(LANES) if folders & set(path.parts)), None)
