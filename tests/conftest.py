"""For all tests."""

from __future__ import annotations

import contextlib


def pytest_configure() -> None:
    # On a shared machine of few cores, threads of small models wait for each other more than they
    # work.
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)
