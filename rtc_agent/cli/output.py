"""What commands print: one JSON object as the last line of stdout, when asked for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from rtc_agent.errors import RtcAgentError


def print_json(fields: Mapping[str, object]) -> None:
    """The result line of a command run with `--json`."""
    typer.echo(json.dumps(fields, ensure_ascii=False))


def print_fields(fields: Mapping[str, object]) -> None:
    """The same fields for a person, one a line."""
    for name, value in fields.items():
        typer.echo(f"{name:26}{_words(value)}")


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return "  ".join(f"{name} {_words(part)}" for name, part in value.items()) or "–"
    return "–" if value is None else str(value)


@contextmanager
def json_refusal(as_json: bool) -> Iterator[None]:
    """Give a refusal's code and sentence as the result line too; the refusal itself goes on."""
    try:
        yield
    except RtcAgentError as error:
        if as_json:
            print_json({"ok": False, "error": {"code": error.code, "message": error.message}})
        raise
