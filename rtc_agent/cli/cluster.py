"""`rtc-agent cluster`: replicas and fronts on Ray."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rtc_agent.cli.output import json_refusal, print_json

Name = Annotated[str, typer.Option(help="The cluster's name, if several share a Ray.")]
Address = Annotated[
    str | None,
    typer.Option(
        help="Its Ray: HOST:PORT, or auto for the one that `ray start` started here.",
        show_default="the one that `up` started here",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
Config = Annotated[Path, typer.Option(help="TOML file of the cluster; docs/cluster.md has it all.")]
DEFAULT_NAME = "rtc-agent"
START_S = 1_800.0
"""How long `up` waits for the first replicas: weights may have to come a long way."""
TELL_EVERY_S = 15.0
DOWN_S = 60.0


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Replicas and fronts on Ray, on many GPUs and hosts.", no_args_is_help=True
    )
    for command in (up, status, drain, upgrade, scale, down):
        group.command()(command)
    app.add_typer(group, name="cluster")


def up(config: Config, address: Address = None) -> None:
    """Start a cluster. Prints `ready` and a URL for every front once all is up.

    With --address, on a Ray that runs already, and returns. Without, on a Ray of its own on this
    machine, which it stays for: Ctrl-C, SIGTERM or `rtc-agent cluster down` ends both.
    """
    from rtc_agent import logs
    from rtc_agent.cluster import instance, settings

    cluster, server = settings.load(config)
    logs.setup(server.log_level, server.log_format)
    if address is not None:
        with instance.joined(cluster.name, address):
            _start(cluster, server)
        return
    with instance.own_ray(cluster.name, cluster.ray_port), _stop_signals() as stopped:
        from rtc_agent.cluster import commands

        commands.require_room(cluster, server)
        try:
            _start(cluster, server, stopped)
            while not stopped.wait(1.0) and commands.is_up():
                pass
        finally:
            if commands.is_up():
                commands.down(server.drain_s + DOWN_S)


def _start(cluster: Any, server: Any, stopped: threading.Event | None = None) -> None:
    from rtc_agent.cluster import commands
    from rtc_agent.errors import ConfigError

    commands.up(cluster, server)
    found: dict[str, Any] = {}
    told_s = time.monotonic()

    def settled() -> bool:
        nonlocal told_s
        found.update(commands.status())
        if time.monotonic() - told_s > TELL_EVERY_S and (words := commands.waiting(found)):
            told_s = time.monotonic()
            typer.echo(f"rtc-agent: {words}", err=True)
        over = stopped is not None and stopped.is_set()
        return bool(found["ready"] or found["failure"] or over)

    commands.wait_until(settled, START_S)
    if found["failure"]:
        commands.down(DOWN_S)
        raise ConfigError(found["failure"])
    if found["ready"]:
        for front in found["fronts"]:
            typer.echo(f"ready {front['url']}")


def status(name: Name = DEFAULT_NAME, address: Address = None, as_json: AsJson = False) -> None:
    """What there is: replicas with their calls, fronts with their addresses."""
    from rtc_agent.cluster import instance
    from rtc_agent.cluster.words import lines

    with json_refusal(as_json), instance.joined(name, address):
        from rtc_agent.cluster import commands

        found = commands.status()
    if as_json:
        print_json(found)
        return
    for line in lines(found):
        typer.echo(line)


def drain(
    replica: Annotated[str, typer.Argument(help="Its id, as `status` has it.")],
    fewer: Annotated[bool, typer.Option(help="Start no other in its place.")] = False,
    name: Name = DEFAULT_NAME,
    address: Address = None,
) -> None:
    """Send new calls elsewhere; the replica ends once those it has are over."""
    from rtc_agent.cluster import instance

    with instance.joined(name, address):
        from rtc_agent.cluster import commands

        commands.drain(replica, fewer)


def upgrade(
    config: Config,
    address: Address = None,
    at_once: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=4096,
            help="Replicas to replace at the same time.",
            show_default="as the file says, or one of ten",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Return only once nothing old is left.")] = True,
) -> None:
    """Replace every part, some at a time, by one of these settings and of the code that is
    installed now. No call is lost: an old replica ends once its calls have. A new one that cannot
    run stops the upgrade, and the old ones that are left stay."""
    from rtc_agent.cluster import instance, settings

    cluster, server = settings.load(config)
    if at_once is not None:
        cluster = cluster.model_copy(update={"at_once": at_once})
    with instance.joined(cluster.name, address):
        from rtc_agent.cluster import commands

        commands.upgrade(cluster, server)
        if wait:
            commands.wait_until(_is_rolled, float("inf"))


def _is_rolled() -> bool:
    from rtc_agent.cluster import commands
    from rtc_agent.errors import ConfigError

    found = commands.status()
    if found["failure"]:
        old = sum(part["generation"] != found["generation"] for part in found["replicas"])
        raise ConfigError(
            f"The upgrade has stopped: {found['failure']} {old} old replicas take calls as before. "
            "Another `upgrade` goes on from here: with the settings of before, or better ones."
        )
    parts = [*found["replicas"], *found["fronts"]]
    return bool(found["ready"]) and all(part["generation"] == found["generation"] for part in parts)


def scale(
    replicas: Annotated[int, typer.Argument(min=0, help="How many there are to be.")],
    name: Name = DEFAULT_NAME,
    address: Address = None,
) -> None:
    """Have so many replicas; those that are too many are drained."""
    from rtc_agent.cluster import instance

    with instance.joined(name, address):
        from rtc_agent.cluster import commands

        commands.scale(replicas)


def down(name: Name = DEFAULT_NAME, address: Address = None) -> None:
    """End the cluster; callers are told."""
    from rtc_agent.cluster import instance

    with instance.joined(name, address):
        from rtc_agent.cluster import commands

        commands.down(DOWN_S)


@contextlib.contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """SIGINT and SIGTERM set it."""
    stopped = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
