"""`rtc-agent doctor`: what this machine can do, and what to change where it cannot."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check this machine. Exit status 1 when calls could not work here."""
    from rtc_agent.doctor import Level, examine

    findings = examine()
    broken = any(finding.level is Level.BROKEN for finding in findings)
    if as_json:
        rows = [
            {"check": f.check, "level": f.level.value, "detail": f.detail, "advice": f.advice}
            for f in findings
        ]
        typer.echo(json.dumps({"ok": not broken, "checks": rows}))
    else:
        for finding in findings:
            typer.echo(f"{finding.level.value:8} {finding.check}: {finding.detail}")
            if finding.advice:
                typer.echo(f"         → {finding.advice}")
    raise typer.Exit(1 if broken else 0)
