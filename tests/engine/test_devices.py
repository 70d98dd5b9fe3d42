"""Choosing a device, and refusing one that could not run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from rtc_agent.engine.devices import choose_device, runs_on
from rtc_agent.errors import ConfigError, KernelsUnavailable
from rtc_agent.model.cuda import support

TORCH = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


@pytest.mark.parametrize(
    ("capability", "runs"),
    [
        ((8, 9), True),
        ((9, 0), True),
        ((12, 1), True),
        ((8, 7), True),
        ((7, 0), False),
        ((11, 0), False),
    ],
)
def test_coderuns_on_later_chips_of_its_generation(capability: tuple[int, int], runs: bool) -> None:
    assert runs_on(TORCH, *capability) is runs


def test_kept_intermediate_coderuns_on_anything_later() -> None:
    assert runs_on(["sm_80", "compute_90"], 12, 0)
    assert not runs_on(["sm_80", "compute_120"], 9, 0)
    assert not runs_on(["sm_90a"], 9, 1)
    assert runs_on(["sm_90a"], 9, 0)


class Card:
    """A GPU that torch says is there."""

    def __init__(self, patch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 1)
        patch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
        patch.setattr(torch.cuda, "get_device_name", lambda device=None: "A Card")
        patch.setattr(torch.cuda, "get_arch_list", lambda: TORCH)


def test_a_card_this_torch_has_code_for_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    Card(monkeypatch, (8, 9))
    assert choose_device("auto") == choose_device("cuda:0") == torch.device("cuda:0")
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ConfigError, match="no cuda:1 here"):
        choose_device("cuda:1")


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:0"])
def test_a_card_too_new_for_this_torch_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    Card(monkeypatch, (13, 0))
    with pytest.raises(ConfigError, match="no code for A Card .sm_130."):
        choose_device(name)


def test_kernels_are_refused_where_they_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "_python_header", lambda: Path(__file__))
    monkeypatch.setenv("CC", sys.executable)
    Card(monkeypatch, (7, 5))
    with pytest.raises(KernelsUnavailable, match="8.0 .* has 7.5.*--kernels off"):
        support.require_kernels(torch.device("cuda:0"))
    Card(monkeypatch, (8, 0))
    support.require_kernels(torch.device("cuda:0"))
    monkeypatch.setattr(support.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(KernelsUnavailable, match="Triton.*--kernels off"):
        support.require_kernels(torch.device("cuda:0"))


def test_a_missing_compiler_is_named_before_a_kernel_wants_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Card(monkeypatch, (8, 0))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(KernelsUnavailable, match="C compiler.*gcc.*--kernels off"):
        support.require_kernels(torch.device("cuda:0"))
    compiler = tmp_path / "clang"
    compiler.touch(mode=0o755)
    monkeypatch.setattr(support, "_python_header", lambda: compiler)
    support.require_kernels(torch.device("cuda:0"))
    monkeypatch.setattr(support, "_python_header", lambda: tmp_path / "Python.h")
    with pytest.raises(KernelsUnavailable, match="headers"):
        support.require_kernels(torch.device("cuda:0"))
