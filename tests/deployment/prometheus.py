"""Where Prometheus's programs are."""

from __future__ import annotations

import os
import shutil

import pytest


def require_prometheus(program: str) -> str:
    """Path of `prometheus` or `promtool`; without it the test is skipped, and fails in CI."""
    path = shutil.which(program)
    if path is None:
        reason = f"{program} is not installed (Debian package: prometheus)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path
