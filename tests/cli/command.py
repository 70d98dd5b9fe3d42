"""Running `rtc-agent` in this process, as a shell would see it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from rtc_agent.cli import main


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The JSON object on the last line of stdout."""
        value = json.loads(self.out.splitlines()[-1])
        assert isinstance(value, dict)
        return value

    @property
    def refusal(self) -> str:
        """The one line of a clear refusal."""
        assert self.status == 2, self
        lines = [line for line in self.err.splitlines() if line.startswith("rtc-agent: ")]
        assert len(lines) == 1 and "Traceback" not in self.err, self
        return lines[0]


Run = Callable[..., Outcome]


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that takes the command's arguments."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["rtc-agent", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run
