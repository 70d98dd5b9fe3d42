"""`rtc-agent config`: every setting, its meaning and its value here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rtc_agent.cli.output import json_refusal, print_json


def register(app: typer.Typer) -> None:
    app.command("config")(show)


def show(
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Print every setting as TOML that `serve --config` takes, with its meaning.

    Values are those in force here: file < environment (RTC_AGENT_…) < flags of a command.
    """
    from pydantic import SecretStr

    from rtc_agent.config import Settings, load

    with json_refusal(as_json):
        settings = load(config)
    values = settings.model_dump(mode="json", exclude_none=False)
    if as_json:
        print_json(values)
        return
    typer.echo("# A file < the environment < flags. Pass this file with --config.")
    for name, field in Settings.model_fields.items():
        typer.echo(f"\n# {field.description}\n# environment: RTC_AGENT_{name.upper()}")
        value = values[name]
        if isinstance(getattr(settings, name), SecretStr) and value:
            typer.echo(f"# {name} is set, and not shown")
        else:
            typer.echo(f"# {name} =" if value is None else f"{name} = {_toml(value)}")


def _toml(value: object) -> str:
    """A value as TOML writes it; JSON does for all but tables."""
    if isinstance(value, dict):
        inner = (f"{key} = {_toml(item)}" for key, item in value.items() if item is not None)
        return f"{{ {', '.join(inner)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
