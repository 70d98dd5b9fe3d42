"""`rtc-agent serve`: the server."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from rtc_agent.cli import interrupts
from rtc_agent.cli.options import Agent, Device, Model, Stages


def register(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    agent: Agent = None,
    model: Model = None,
    device: Device = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="auto, float32, bfloat16 or float16.", show_default="auto"),
    ] = None,
    kv_dtype: Annotated[
        str | None,
        typer.Option(help="Of keys and values: auto, model or int8.", show_default="auto"),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Form of the matrices: model, int8 or int4.", show_default="model"),
    ] = None,
    kernels: Annotated[
        str | None, typer.Option(help="auto, or off for plain torch on a GPU.", show_default="auto")
    ] = None,
    stages: Stages = None,
    sessions: Annotated[int | None, typer.Option(help="Calls at once.", show_default="4")] = None,
    banks: Annotated[
        int | None,
        typer.Option(
            help="Equal parts of the sessions, stepped one after another within a frame.",
            show_default="1",
        ),
    ] = None,
    media_workers: Annotated[
        int | None,
        typer.Option(
            help="Processes for calls' media, beside one for the engine.",
            show_default="0: one process does everything",
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 takes a free one.", show_default="8080")
    ] = None,
    ice_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Offer callers only this local address; repeatable, loopback allowed.",
            show_default="every address but loopback",
        ),
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Let pages of this origin use the server; repeatable, * is every one.",
            show_default="only its own page",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate in PEM: speak HTTPS; reloaded when it changes.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key in PEM.")] = None,
    insecure_public: Annotated[
        bool | None,
        typer.Option("--insecure-public", help="Let others than this machine call without a key."),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(help="debug, info, warning or error.", show_default="info"),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
) -> None:
    """Take calls. Prints `ready` and the page's URL on stdout once it can."""
    from rtc_agent import logs
    from rtc_agent.config import load
    from rtc_agent.engine.stages.settings import read_stages

    read = functools.partial(
        load,
        config,
        agent=agent,
        model=model,
        device=device,
        dtype=dtype,
        kv_dtype=kv_dtype,
        weights=weights,
        kernels=kernels,
        stages=None if stages is None else read_stages(stages),
        sessions=sessions,
        banks=banks,
        media_workers=media_workers,
        host=host,
        port=port,
        ice_hosts=ice_host,
        allowed_origins=allowed_origin,
        tls_cert=tls_cert,
        tls_key=tls_key,
        insecure_public=insecure_public,
        log_level=log_level,
    )
    settings = read()
    logs.setup(settings.log_level, settings.log_format)
    if settings.media_workers:
        from rtc_agent.processes.supervisor import run
    else:
        from rtc_agent.server import run
    interrupts.run(run(settings, announce=lambda url: typer.echo(f"ready {url}"), reread=read))
