"""The `rtc-agent` command. Commands import what they need when they run, so that each starts
quickly and the echo agent works without the model's packages."""

from __future__ import annotations

import sys

from rtc_agent.cli import interrupts

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C ended, as shells give it."""


def main() -> None:
    """Run the command line. A refusal is one line on stderr and exit status 2, never a trace."""
    with interrupts.end_at_once():
        from rtc_agent.cli.app import app
        from rtc_agent.errors import RtcAgentError
        from rtc_agent.threads import end_process

        try:
            try:
                app()
            except RtcAgentError as error:
                sys.stderr.write(f"rtc-agent: {error.message}\n")
                sys.exit(2)
            except KeyboardInterrupt:
                sys.exit(INTERRUPTED)
        except SystemExit as end:
            end_process(end.code if isinstance(end.code, int) else int(end.code is not None))
            raise
