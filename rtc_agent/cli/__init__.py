"""The `rtc-agent` command. Commands import what they need when they run, so that each starts
quickly and the echo agent works without the model's packages."""

from __future__ import annotations

import importlib
import sys

import typer

from rtc_agent.errors import RtcAgentError

COMMANDS = (
    *("serve", "call", "probe", "load", "offline", "verify", "download", "voices"),
    *("doctor", "config"),
)

app = typer.Typer(
    help="PersonaPlex-7B on a real call: full-duplex speech to speech over WebRTC.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name in COMMANDS:
    importlib.import_module(f"rtc_agent.cli.{_name}").register(app)


def main() -> None:
    """Run the command line. A refusal is one line on stderr and exit status 2, never a trace."""
    try:
        app()
    except RtcAgentError as error:
        typer.echo(f"rtc-agent: {error.message}", err=True)
        sys.exit(2)
