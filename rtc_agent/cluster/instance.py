"""The Ray that a cluster runs on: one that is there, or one of its own on this machine.

A Ray of its own lives as long as the command that started it, listens on loopback alone, asks every
client for a token that it made itself, and keeps its files in a folder that goes with it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rtc_agent.errors import ConfigError, MissingDependency

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
CONNECT_S = 5.0
OBJECT_STORE_BYTES = 80 * 2**20
"""Nothing is kept there; less than this Ray does not take."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Ray of our own is, for other commands of this user on this machine."""

    address: str
    token_file: str
    pid: int
    """Of the command that it lives as long as."""


def require_ray() -> None:
    """Ray is installed.

    Raises:
        MissingDependency: it is not.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingDependency("A cluster needs Ray: pip install 'rtc-agent[cluster]'.")


@contextlib.contextmanager
def own_ray(name: str, port: int, cpus: float | None = None) -> Iterator[Place]:
    """A Ray on this machine alone, and this process a driver of it; until the block ends.

    Args:
        name: of the cluster; other commands find it by that.
        port: where Ray is reached, on loopback.
        cpus: how many it takes this machine to have, if not as many as it has.

    Raises:
        ConfigError: another one listens there, or it does not start.
    """
    require_ray()
    if find(name) is not None:
        raise ConfigError(
            f"A cluster {name!r} runs on this machine already: `upgrade` changes it, `down` ends "
            "it, and another `name` makes another."
        )
    # Ray lets everybody write to its folder; nobody else gets into the one around it. The names are
    # short since those of sockets must be.
    folder = Path(tempfile.mkdtemp(prefix="rtc-agent-"))
    token_file = folder / "token"
    token_file.touch(mode=0o600)
    token_file.write_text(secrets.token_hex(32), encoding="ascii")
    place = Place(f"{LOOPBACK}:{port}", str(token_file), os.getpid())
    _prepare(place)
    os.environ["RAY_GCS_SERVER_PORT"] = str(port)
    try:
        _start(name, folder / "r", port, cpus)
        note = _note(name)
        note.touch(mode=0o600)
        note.write_text(json.dumps(_fields(place)), encoding="utf-8")
        try:
            yield place
        finally:
            note.unlink(missing_ok=True)
            _leave()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def joined(name: str, address: str | None = None) -> Iterator[None]:
    """This process is a driver of the Ray at that address, or of the one that a cluster of that
    name on this machine has started for itself; until the block ends.

    Raises:
        ConfigError: there is none.
    """
    require_ray()
    place = None if address else find(name)
    if place is not None:
        _prepare(place)
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    where = place.address if place is not None else (address or os.environ.get("RAY_ADDRESS"))
    if where is None:
        raise ConfigError(
            f"No cluster {name!r} was started on this machine. --address says where its Ray is "
            "(auto: the one that `ray start` has started here), --name what it is called."
        )
    _join(name, where)
    try:
        yield
    finally:
        _leave()


def find(name: str) -> Place | None:
    """The Ray that a running command has started for a cluster of that name."""
    note = _note(name)
    try:
        place = Place(**json.loads(note.read_text(encoding="utf-8")))
        os.kill(place.pid, 0)
        # Another process may have got that number meanwhile.
        _reach(place.address)
    except (OSError, ValueError, TypeError):
        note.unlink(missing_ok=True)
        return None
    return place


def _prepare(place: Place) -> None:
    """Ray reads these when it is imported."""
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN_PATH=place.token_file,
        # On Linux, Ray takes loopback to mean the machine's own address, and then listens on all
        # there are. Where it expects no other machines, it does not. Until it can be told so.
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
        RAY_DEDUP_LOGS="0",
        # Ray's processes make way for all others by default. Speech cannot wait.
        RAY_worker_niceness="0",
    )


def _start(name: str, folder: Path, port: int, cpus: float | None) -> None:
    import ray

    try:
        ray.init(
            address="local",
            namespace=name,
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            logging_level=logging.WARNING,
            _node_ip_address=LOOPBACK,
            _temp_dir=str(folder),
        )
    except Exception as error:
        raise ConfigError(
            f"Ray did not start on {LOOPBACK} port {port} ({_words(error)}). Another may listen "
            "there: `ray_port` chooses another port."
        ) from error


def _join(name: str, address: str) -> None:
    try:
        _reach(address)  # Ray itself would go on trying for minutes.
    except OSError as error:
        raise ConfigError(f"No Ray answers at {address}: {error.strerror or error}.") from error
    import ray

    try:
        ray.init(address=address, namespace=name, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        raise ConfigError(f"No Ray answers at {address}: {_words(error)}.") from error


def _reach(address: str) -> None:
    """Raises OSError if nobody listens at HOST:PORT; what is no such address is Ray's to find."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_S).close()


def _leave() -> None:
    import ray

    ray.shutdown()


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__


def _note(name: str) -> Path:
    return _private_folder() / f"cluster-{name}.json"


def _private_folder() -> Path:
    """A folder that only this user can write to.

    Raises:
        ConfigError: somebody else made it.
    """
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = Path(base) / f"rtc-agent-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode) or about.st_mode & 0o077:
        raise ConfigError(f"{folder} is not this user's alone; remove it.")
    return folder


def _fields(place: Place) -> dict[str, object]:
    return {"address": place.address, "token_file": place.token_file, "pid": place.pid}
