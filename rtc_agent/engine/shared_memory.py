"""Memory that processes share and nobody has to clear away."""

from __future__ import annotations

import os
import tempfile


def create_unnamed(name: str, size: int) -> int:
    """A file descriptor of `size` zero bytes. They have no name in any file system, so nothing is
    left behind when the last process that holds them is gone, however it went.

    Args:
        name: how the system's tools show it.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(name)
    else:
        # Only Linux has memfd; elsewhere a file that is unlinked at once does the same.
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd
