"""For all tests."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

IN_REAL_TIME = {"client", "cluster", "e2e", "interop", "media", "processes", "telephony", "web"}
"""Folders whose tests make calls in real time."""
RETRIES = 2
"""A machine that stands still for a moment breaks such a call through no fault of ours."""


def pytest_configure() -> None:
    # On a shared machine of few cores, threads of small models wait for each other more than they
    # work.
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and IN_REAL_TIME & set(item.path.relative_to(here).parts):
            item.add_marker(pytest.mark.flaky(reruns=RETRIES, reruns_delay=2))
