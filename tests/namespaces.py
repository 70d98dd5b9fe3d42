"""Networks of their own, as containers have them: Linux network namespaces joined by cables."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Networks:
    """A caller and a server that do not reach each other, and a gateway that reaches both, as the
    host of a bridge network does. The gateway passes no packets on."""

    caller: str
    gateway: str
    server: str

    CALLER_IP = "10.213.1.2"
    GATEWAY_TO_CALLER_IP = "10.213.1.1"
    GATEWAY_TO_SERVER_IP = "10.213.2.1"
    SERVER_IP = "10.213.2.2"

    def within(self, name: str) -> tuple[str, ...]:
        """What runs a command in the namespace of that name."""
        return ("ip", "netns", "exec", name)


@contextlib.contextmanager
def networks() -> Iterator[Networks]:
    """The three, for one test; skipped where this user may not make networks."""
    if shutil.which("ip") is None:
        reason = "the ip command is not installed (Debian package: iproute2)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    made = Networks(*(f"rtc{os.getpid()}{end}" for end in "cgs"))
    names = (made.caller, made.gateway, made.server)
    with contextlib.ExitStack() as undo:
        for name in names:
            added = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
            if added.returncode:
                pytest.skip(f"no network namespace can be made here: {added.stderr.strip()}")
            undo.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
            _ip("-n", name, "link", "set", "lo", "up")
        no_router = "echo 0 > /proc/sys/net/ipv4/ip_forward"
        _ip("netns", "exec", made.gateway, "sh", "-c", no_router)
        _cable(made.gateway, made.GATEWAY_TO_CALLER_IP, made.caller, made.CALLER_IP)
        _cable(made.gateway, made.GATEWAY_TO_SERVER_IP, made.server, made.SERVER_IP)
        yield made


def _cable(near: str, near_ip: str, far: str, far_ip: str) -> None:
    """Join two namespaces; the far one sends through the near one whatever it has no way for."""
    end = f"to{far[-1]}"
    _ip(*f"-n {near} link add {end} type veth peer name up0 netns {far}".split())
    for name, device, address in ((near, end, near_ip), (far, "up0", far_ip)):
        _ip(*f"-n {name} address add {address}/24 dev {device}".split())
        _ip(*f"-n {name} link set {device} up".split())
    _ip(*f"-n {far} route add default via {near_ip}".split())


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)
