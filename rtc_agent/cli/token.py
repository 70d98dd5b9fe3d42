"""`rtc-agent token`: a client secret from a server, or a new key for one."""

from __future__ import annotations

from typing import Annotated

import typer

from rtc_agent.cli import interrupts


def register(app: typer.Typer) -> None:
    app.command()(token)


def token(
    url: Annotated[
        str | None, typer.Argument(help="Server that is to make a client secret.")
    ] = None,
    seconds: Annotated[
        int, typer.Option(min=10, max=7200, help="How long the client secret is good for.")
    ] = 600,
    new: Annotated[
        str | None, typer.Option(help="Make a new key of this name instead; asks no server.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="What the new key is for: call, listen, admin.", show_default="call"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Print a short-lived client secret, for a browser or an app; the server's key is read from
    RTC_AGENT_KEY. With --new, print a new key and the line that tells a server of it."""
    import secrets

    from pydantic import ValidationError

    from rtc_agent.cli.output import json_refusal, print_json
    from rtc_agent.errors import ConfigError
    from rtc_agent.key_setting import KeySetting

    with json_refusal(as_json):
        if (url is None) == (new is None):
            raise ConfigError("Give a server's URL for a client secret, or --new NAME for a key.")
        if url is not None:
            made = interrupts.run(_client_secret(url, seconds))
            if as_json:
                print_json({"ok": True, **made})
            else:
                typer.echo(made["value"])
            return
        secret = secrets.token_urlsafe(32)
        try:
            key = KeySetting.model_validate(
                {"name": new, "secret": secret, "scopes": scope or ["call"]}
            )
        except ValidationError as error:
            faults = "; ".join(fault["msg"] for fault in error.errors(include_input=False))
            raise ConfigError(f"No such key can be made: {faults}.") from error
    setting = {"name": key.name, "sha256": key.sha256, "scopes": list(key.scopes)}
    if as_json:
        print_json({"ok": True, "key": secret, "setting": setting})
        return
    scopes = ", ".join(f'"{name}"' for name in key.scopes)
    typer.echo(f"# Keep it; the server has only its hash.\nkey: {secret}\n")
    typer.echo(f'[[keys]]\nname = "{key.name}"\nsha256 = "{key.sha256}"\nscopes = [{scopes}]')


async def _client_secret(url: str, seconds: int) -> dict[str, object]:
    from rtc_agent.client.offer import post_json
    from rtc_agent.errors import CallRefused

    body = {"expires_after": {"anchor": "created_at", "seconds": seconds}}
    made = await post_json(f"{url.rstrip('/')}/v1/realtime/client_secrets", body, timeout_s=10)
    if not isinstance(made.get("value"), str):
        raise CallRefused(f"{url} answered without a client secret.")
    return {"value": made["value"], "expires_at": made.get("expires_at")}
