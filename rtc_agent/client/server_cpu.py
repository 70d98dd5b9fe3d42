"""Processor time of a server on this machine, read from Linux's /proc."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_PROC = Path("/proc")
_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server's process and all that descend from it."""

    pid: int

    def cpu_s(self) -> float:
        """User and system seconds used so far by every process of the server that still runs."""
        ticks = sum(_cpu_ticks(pid) for pid in _family(self.pid))
        return ticks / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        """Resident memory of all of them; shared pages count for each."""
        pages = 0
        for pid in _family(self.pid):
            try:
                pages += int((_PROC / str(pid) / "statm").read_text().split()[1])
            except (OSError, IndexError):
                continue
        return pages * os.sysconf("SC_PAGE_SIZE")


def find_server(url: str) -> LocalServer | None:
    """The process that listens at a loopback URL; None where it is not on this machine, belongs
    to another user, or this is no Linux."""
    parts = urlsplit(url)
    if not _is_loopback(parts.hostname or ""):
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    inodes = {f"socket:[{inode}]" for inode in _listening(port)}
    if not inodes:
        return None
    for process in _PROC.glob("[0-9]*"):
        if inodes & _open_files(process):
            return LocalServer(int(process.name))
    return None


def _open_files(process: Path) -> set[str]:
    """What a process's descriptors point to; empty for one that is not to be looked into."""
    found: set[str] = set()
    try:
        links = list((process / "fd").iterdir())
    except OSError:
        return found
    for link in links:
        # A descriptor may be closed meanwhile: this very listing's own is, in our own process.
        with contextlib.suppress(OSError):
            found.add(os.readlink(link))
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(port: int) -> set[str]:
    """Inodes of the TCP sockets that listen on a port."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on; the name before them may hold anything."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _cpu_ticks(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for process in _PROC.glob("[0-9]*"):
        fields = _stat(int(process.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(process.name))
    family = [pid]
    for member in family:
        family.extend(children.get(member, ()))
    return family
