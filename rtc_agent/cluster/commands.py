"""What an operator does with a cluster, from a process that has joined its Ray."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import ray
from pydantic import SecretStr
from ray.exceptions import RayError

from rtc_agent.cluster.actors import ControllerActor
from rtc_agent.cluster.plan import Plan, Values
from rtc_agent.cluster.ray_fleet import CONTROLLER, bundle_of
from rtc_agent.cluster.settings import ClusterSettings
from rtc_agent.config import Settings
from rtc_agent.errors import ConfigError

ANSWER_S = 20.0
LOOK_EVERY_S = 0.25


def up(cluster: ClusterSettings, server: Settings) -> None:
    """Start a controller, which starts the rest.

    Raises:
        ConfigError: there is one already.
    """
    if _find_controller() is not None:
        raise ConfigError(
            f"A cluster {cluster.name!r} runs there already: `upgrade` changes it, `down` ends it."
        )
    if not server.token_secret.get_secret_value():
        # Made here, so that every replica and front takes the client secrets of every other.
        made = SecretStr(secrets.token_urlsafe(32))
        server = server.model_copy(update={"token_secret": made})
    _start_controller(Plan.of(cluster, server, secrets.token_urlsafe(32)))


def require_room(cluster: ClusterSettings, server: Settings) -> None:
    """Every replica finds room on the hosts that there are, where no others will come.

    Raises:
        ConfigError: there is too little of something.
    """
    there = ray.cluster_resources()
    plan = Plan.of(cluster, server, "")
    for resource, amount in bundle_of(plan).items():
        wanted = amount * plan.replicas
        if wanted > there.get(resource, 0):
            raise ConfigError(
                f"{plan.replicas} replicas need {wanted:g} {resource}, and this machine has "
                f"{there.get(resource, 0):g}. `replicas`, `gpus` and `cpus` say what is needed; "
                "with --address, other hosts help."
            )


def waiting(found: Values) -> str:
    """What is still waited for, in words; empty if nothing is."""
    words = []
    for kind in ("replicas", "fronts"):
        serving = sum(part["phase"] == "serving" for part in found[kind])
        pending = sum(part["phase"] == "pending" for part in found[kind])
        if serving < found["wanted"][kind]:
            room = f", {pending} without a host that has room" if pending else ""
            words.append(f"{serving} of {found['wanted'][kind]} {kind} serve{room}")
    details = {part["detail"] for part in found["replicas"] if part.get("detail")}
    return "; ".join([*words, *sorted(details)])


def status() -> Values:
    """How the cluster is doing: see `Controller.status`.

    Raises:
        ConfigError: there is none.
    """
    found: Values = _ask("status")
    return found


def scale(replicas: int) -> None:
    """Raises ConfigError if the plan does not allow it."""
    _obey("scale", replicas)


def drain(replica_id: str, fewer: bool = False) -> None:
    """Raises ConfigError if there is no such replica."""
    _obey("drain", replica_id, fewer)


def upgrade(cluster: ClusterSettings, server: Settings) -> None:
    """Replace every part, some at a time, by one of these settings and of the code that is
    installed now; the controller first, so that the new code does it."""
    old = Plan.from_values(_ask("plan"))
    if not server.token_secret.get_secret_value():
        # Client secrets that are out stay good.
        kept = old.server_anywhere().token_secret
        server = server.model_copy(update={"token_secret": kept})
    controller = _find_controller()
    ray.kill(controller, no_restart=True)
    wait_until(lambda: _find_controller() is None, ANSWER_S)
    _start_controller(old.upgraded(cluster, server))


def down(timeout_s: float) -> None:
    """End every part, callers told, and the controller last.

    Raises:
        ConfigError: there is no cluster.
    """
    _ask("down")
    wait_until(lambda: _ask("parts_left") == 0, timeout_s)
    for name in ray.util.list_named_actors():
        # Parts that did not end in time.
        if name != CONTROLLER:
            ray.kill(ray.get_actor(name), no_restart=True)
    ray.kill(_find_controller(), no_restart=True)


def is_up() -> bool:
    """Whether there is a controller."""
    return _find_controller() is not None


def wait_until(condition: Callable[[], object], timeout_s: float) -> bool:
    """Whether that comes true in time."""
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until_s:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _start_controller(plan: Plan) -> None:
    actor = ray.remote(ControllerActor).options(
        name=CONTROLLER,
        lifetime="detached",
        max_restarts=-1,
        max_concurrency=1000,
        num_cpus=0,
    )
    try:
        ray.get(actor.remote(plan.to_values()).status.remote(), timeout=ANSWER_S * 3)
    except RayError as error:
        raise ConfigError(f"The controller does not start: {error}") from error


def _find_controller() -> Any:
    try:
        return ray.get_actor(CONTROLLER)
    except ValueError:
        return None


def _ask(method: str, *arguments: object) -> Any:
    controller = _find_controller()
    if controller is None:
        raise ConfigError("There is no cluster of that name; `rtc-agent cluster up` starts one.")
    try:
        return ray.get(getattr(controller, method).remote(*arguments), timeout=ANSWER_S)
    except RayError as error:
        raise ConfigError(
            "The cluster's controller does not answer; Ray starts it again. Try once more."
        ) from error


def _obey(method: str, *arguments: object) -> None:
    if refusal := _ask(method, *arguments):
        raise ConfigError(refusal)
