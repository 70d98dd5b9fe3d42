"""For all tests."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import Any

import pytest

IN_REAL_TIME = {
    *("client", "cluster", "deployment", "e2e", "interop", "media", "processes", "telephony"),
    "web",
}
"""Folders whose tests make calls in real time. With several workers (`pytest -n 2`) one runs all
these, one after another, and the others run the rest."""
RETRIES = 2
"""A machine that stands still for a moment breaks such a call through no fault of ours."""


def pytest_configure() -> None:
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
        """All that is in real time is one piece of work, and the largest, so it is begun first."""

        def _split_scope(self, nodeid: str) -> str:
            path, _, _ = nodeid.partition("::")
            return "in real time" if IN_REAL_TIME & set(path.split("/")) else nodeid

    return RealTimeApart(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and not in_real_time(item):
        make_way()


@functools.cache
def make_way() -> None:
    """Leave the processor to the worker whose calls are in real time."""
    os.nice(10)


def in_real_time(item: pytest.Item) -> bool:
    here = Path(__file__).parent
    return item.path.is_relative_to(here) and bool(
        IN_REAL_TIME & set(item.path.relative_to(here).parts)
    )
