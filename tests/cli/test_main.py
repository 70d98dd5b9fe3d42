"""What holds for every command: its version, its refusals, and Ctrl-C at any moment."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE

import pytest

from rtc_agent import __version__
from tests.cli.command import runner
from tests.real_server import command


def test_the_version_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = runner(monkeypatch, capsys)("--version")
    assert (outcome.status, outcome.out) == (0, f"{__version__}\n")


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["serve", "--nonsense"], ["call"]])
def test_what_is_no_command_is_said_on_stderr(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = runner(monkeypatch, capsys)(*arguments)
    assert outcome.status == 2
    assert not outcome.out and "Usage" in outcome.err and "Traceback" not in outcome.err


async def test_ctrl_c_at_any_moment_leaves_no_trace() -> None:
    for delay_s in (0.1, 0.2, 0.4, 0.8, 1.6):
        process = await command("serve", "--agent", "echo", "--port", "0", stdout=PIPE, stderr=PIPE)
        await asyncio.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(10):
            _, err = await process.communicate()
        # Before our own first line, Python itself may be starting, and dies in its own ways.
        for part in (b"rtc_agent/cli/app.py", b"rtc_agent/server.py", b"asyncio"):
            assert part not in err, err.decode()
