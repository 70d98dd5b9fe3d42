"""A process that Ray has made way for others stops doing so where it may, and says so where not."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import logging, os
logging.basicConfig()
os.setpriority(os.PRIO_PROCESS, 0, 15)
{refuse}
from rtc_agent.cluster.niceness import come_first
come_first()
print(os.getpriority(os.PRIO_PROCESS, 0))
"""
REFUSE = """
def refuse(*_):
    raise PermissionError
os.setpriority = refuse
"""


def _run(refuse: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(refuse=refuse)], capture_output=True, text=True
    )
    return int(done.stdout), done.stderr


def test_where_it_may() -> None:
    niceness, said = _run("")
    if niceness:
        assert "RAY_worker_niceness=0" in said, "only root may"
        pytest.skip("this user may not")
    assert not said


def test_where_it_may_not() -> None:
    niceness, said = _run(REFUSE)
    assert niceness == 15
    assert "RAY_worker_niceness=0" in said
