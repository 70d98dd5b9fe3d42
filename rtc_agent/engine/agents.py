"""Which stepper answers: the one asked for by name, or the best that this machine can run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rtc_agent.config import Settings
from rtc_agent.engine.echo import EchoStepper
from rtc_agent.engine.stepper import FrameStepper
from rtc_agent.errors import ConfigError, MissingDependency

Report = Callable[[str], None]
"""Told, in a few words, what is being loaded and how far that is."""

_MODEL_PACKAGES = ("torch", "safetensors", "sentencepiece")


@dataclass(frozen=True, slots=True)
class Choice:
    """A stepper, and what a person should know about why it is this one."""

    stepper: FrameStepper
    notice: str = ""


def create_stepper(settings: Settings, report: Report = lambda _: None) -> Choice:
    """The stepper that these settings ask for. Loads weights: seconds to minutes.

    Raises:
        ConfigError, and its kinds: this machine cannot run it; the message says what is missing.
    """
    if settings.agent == "echo":
        return Choice(EchoStepper(settings.sessions))
    if settings.agent == "auto":
        return _best(settings, report)
    _require_packages()
    from rtc_agent.engine import loading

    if settings.agent == "tiny":
        return Choice(
            loading.tiny_stepper(settings),
            "The tiny agent runs the real model code on random weights: sound without meaning.",
        )
    folder = _folder(settings)
    return Choice(*loading.folder_stepper(settings, folder, settings.agent, report))


def _best(settings: Settings, report: Report) -> Choice:
    """PersonaPlex where weights and a GPU are there, else the echo test, and what is missing."""
    missing = _missing_for_personaplex(settings)
    if not missing:
        from rtc_agent.engine import loading

        folder = _folder(settings)
        return Choice(*loading.folder_stepper(settings, folder, "personaplex", report))
    return Choice(
        EchoStepper(settings.sessions),
        "This is the echo test, not PersonaPlex; missing for that: " + "; ".join(missing) + ".",
    )


def _missing_for_personaplex(settings: Settings) -> list[str]:
    missing = []
    if absent := _absent_packages():
        missing.append(f"{', '.join(absent)} (pip install 'rtc-agent[model]')")
    else:
        import torch

        if not torch.cuda.is_available():
            missing.append("a GPU that torch can use")
    folder = settings.model or _default_folder("personaplex")
    if not folder.is_dir():
        missing.append("the model's files (rtc-agent download personaplex)")
    return missing


def _absent_packages() -> list[str]:
    return [name for name in _MODEL_PACKAGES if importlib.util.find_spec(name) is None]


def _require_packages() -> None:
    if absent := _absent_packages():
        raise MissingDependency(
            f"This agent needs {', '.join(absent)}; pip install 'rtc-agent[model]', "
            "or choose --agent echo."
        )


def _folder(settings: Settings) -> Path:
    """The model's folder: the one given, else where `rtc-agent download` puts that agent's."""
    if settings.model is not None:
        return settings.model
    if settings.agent == "demo":
        raise ConfigError("The demo agent's weights are not part of this package; give --model.")
    return _default_folder("moshiko" if settings.agent == "moshi" else "personaplex")


def _default_folder(name: str) -> Path:
    from rtc_agent.model.catalog import MODELS, default_folder

    return default_folder(MODELS[name])
