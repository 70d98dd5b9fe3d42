"""All commands as one application."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from rtc_agent import __version__

COMMANDS = (
    *("serve", "sip", "call", "probe", "load", "offline", "verify", "download", "voices"),
    *("bench", "doctor", "config", "certs", "token", "cluster"),
    *("train_demo", "evaluate_demo"),
)

app = typer.Typer(
    help="PersonaPlex-7B on a real call: full-duplex speech to speech over WebRTC.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print it."),
    ] = False,
) -> None:
    pass


for _name in COMMANDS:
    importlib.import_module(f"rtc_agent.cli.{_name}").register(app)
