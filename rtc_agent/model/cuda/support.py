"""Whether a device and this installation can run the model's kernels."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

import torch

from rtc_agent.errors import KernelsUnavailable

_LEAST_CAPABILITY = (8, 0)
"""Tensor cores that take bfloat16, and asynchronous copies."""


def require_kernels(device: torch.device) -> None:
    """Refuse what could not run the kernels.

    Raises:
        KernelsUnavailable: what is missing, and the option that does without.
    """
    otherwise = "or `--kernels off` for plain torch, which takes several times as long a frame."
    if importlib.util.find_spec("triton") is None:
        raise KernelsUnavailable(
            "The model's GPU kernels need Triton, which is not installed: "
            f"`pip install triton`, {otherwise}"
        )
    compilers = (os.environ.get("CC"), "gcc", "clang")
    if not any(name and shutil.which(name) for name in compilers) or not _python_header().is_file():
        raise KernelsUnavailable(
            "The model's GPU kernels need a C compiler and Python's headers, for Triton compiles a "
            "part of itself on the machine where it runs: "
            f"`apt-get install gcc libc6-dev python3-dev`, {otherwise}"
        )
    capability = torch.cuda.get_device_capability(device)
    if capability < _LEAST_CAPABILITY:
        raise KernelsUnavailable(
            f"The model's GPU kernels need compute capability 8.0 (Ampere) or later, and "
            f"{torch.cuda.get_device_name(device)} has {capability[0]}.{capability[1]}: "
            f"another --device, {otherwise}"
        )


def _python_header() -> Path:
    return Path(sysconfig.get_paths()["include"]) / "Python.h"
