"""How much of a host's time a part of the cluster gets beside other work."""

from __future__ import annotations

import logging
import os

log = logging.getLogger(__name__)


def come_first() -> None:
    """Be as important as any other process of the host, and so those that this one starts.

    Ray's workers make way for all others by default (`RAY_worker_niceness` is 15). A frame of
    speech that waits for other work comes too late.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness <= 0:
        return
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except PermissionError:
        log.warning(
            "this host's Ray runs its workers at niceness %d, so that other work delays speech; "
            "start it with RAY_worker_niceness=0 in its environment",
            niceness,
        )
