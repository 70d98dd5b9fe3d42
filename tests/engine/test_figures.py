"""Figures are asked for while they are made."""

from __future__ import annotations

import sys
import threading

from rtc_agent.engine.figures import EngineFigures, status_of


def test_any_thread_may_ask() -> None:
    """The loop's watch does, in the middle of a step's being noted."""
    figures = EngineFigures()
    over = threading.Event()

    def note() -> None:
        while not over.is_set():
            figures.note_step(0.02)

    noting = threading.Thread(target=note)
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        noting.start()
        while len(figures.step_s) < 500:
            pass
        for _ in range(100):
            status = status_of([figures], "", 1, 1)
            assert status.step_ms_p50 == status.step_ms_p99 == 20.0
    finally:
        sys.setswitchinterval(usual_s)
        over.set()
        noting.join()
