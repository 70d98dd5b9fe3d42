"""Which stepper answers: the one asked for by name, or the best that this machine can run."""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rtc_agent.config import Agent, Settings
from rtc_agent.engine.banked import BankedStepper, MeasurableStepper
from rtc_agent.engine.echo import EchoStepper
from rtc_agent.engine.stepper import FRAME_S, FrameStepper
from rtc_agent.errors import CheckpointError, ConfigError, MissingDependency
from rtc_agent.model.catalog import (
    CONFIG_FILE,
    DEMO_FOLDER,
    DEMO_LM_FILE,
    VOICES_FILE,
    VOICES_FOLDER,
)

Report = Callable[[str], None]
"""Told, in a few words, what is being loaded and how far that is."""

MODEL_PACKAGES = ("torch", "safetensors", "sentencepiece", "pyloudnorm")
"""What the `[model]` extra brings, by import name."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A stepper, and what a person should know about why it is this one."""

    stepper: FrameStepper
    notice: str = ""
    too_slow: bool = False
    """The notice says that calls will not be kept up with."""

    def tell(self, log: logging.Logger) -> None:
        """Log the notice, if there is one."""
        if self.notice:
            log.log(logging.WARNING if self.too_slow else logging.INFO, "%s", self.notice)


def create_stepper(
    settings: Settings, report: Report = lambda _: None, *, live: bool = True
) -> Choice:
    """The stepper that these settings ask for. Loads weights: seconds to minutes.

    Args:
        report: told of the progress.
        live: whether it is for calls, so that the notice has to say if it is too slow for them.

    Raises:
        ConfigError, and its kinds: this machine cannot run it; the message says what is missing.
    """
    if settings.agent in ("echo", "mirror") and settings.stages is not None:
        raise ConfigError(
            f"The {settings.agent} agent has no stages to set apart; leave --stages out."
        )
    if settings.agent == "echo":
        return Choice(_echo(settings))
    if settings.agent == "auto" and settings.model is None:
        return _best(settings, report, live)
    _require_packages()
    if settings.agent == "auto":
        settings = settings.model_copy(update={"agent": _agent_of(settings, _folder(settings))})
    from rtc_agent.engine import loading
    from rtc_agent.engine.devices import choose_device

    if settings.agent == "demo":
        return _demo(settings, _folder(settings), report, live)
    if settings.agent == "tiny":
        return Choice(
            loading.tiny_stepper(settings),
            "The tiny agent runs the real model code on random weights: sound without meaning.",
        )
    if settings.agent == "mirror":
        return Choice(*loading.mirror_stepper(settings, report, live))
    folder = _folder(settings)
    stepper, notice = loading.folder_stepper(settings, folder, settings.agent, report, live)
    if live and choose_device(settings.device).type == "cpu":
        return _timed(stepper)
    return Choice(stepper, notice)


def _echo(settings: Settings) -> FrameStepper:
    if settings.banks > 1:
        return BankedStepper(EchoStepper, settings.sessions, settings.banks)
    return EchoStepper(settings.sessions)


def _demo(settings: Settings, folder: Path, report: Report, live: bool) -> Choice:
    """The demo agent: on the processor unless a device is named, for it is made for that."""
    from rtc_agent.engine import loading

    if folder.is_dir() and not (folder / CONFIG_FILE).is_file():
        raise CheckpointError(
            f"{folder} has no {CONFIG_FILE}; the demo agent needs a folder that "
            f"`rtc-agent train-demo` made: {CONFIG_FILE}, and the files it names."
        )
    device = "cpu" if settings.device == "auto" else settings.device
    told = "sessions" in settings.model_fields_set
    settings = settings.model_copy(update={"device": device})
    if device == "cpu" and not told:
        return loading.affordable_stepper(settings, folder, "demo", report)
    stepper, notice = loading.folder_stepper(settings, folder, "demo", report, live)
    if not live or device != "cpu":
        return Choice(stepper, notice)
    return _timed(stepper)


def _timed(stepper: MeasurableStepper) -> Choice:
    """A processor's stepper, and whether it keeps up."""
    slowness = _slowness(stepper.rehearse)
    return Choice(stepper, slowness, too_slow=bool(slowness))


def _slowness(rehearse: Callable[[], None]) -> str:
    """What to say of a step that this machine's processor does not manage in time."""
    began = time.monotonic()
    rehearse()
    took_s = time.monotonic() - began
    if took_s <= FRAME_S:
        return ""
    return (
        f"Not in real time: a step of all calls takes this processor {took_s * 1e3:.0f} ms, and "
        f"{FRAME_S * 1e3:.0f} are there. Choose fewer --sessions, a GPU, or --agent tiny or echo."
    )


def _best(settings: Settings, report: Report, live: bool) -> Choice:
    """PersonaPlex where weights and a GPU are there, else the demo agent where its weights are,
    else the echo test; and what is missing. Only where no model is named."""
    missing = _missing_for_personaplex(settings)
    if not missing:
        from rtc_agent.engine import loading

        folder = _folder(settings)
        return Choice(*loading.folder_stepper(settings, folder, "personaplex", report, live))
    lacking = "not PersonaPlex; missing for that: " + "; ".join(missing) + "."
    if _demo_is_packed():
        if not _absent_packages():
            choice = _demo(settings, DEMO_FOLDER, report, live)
            told = f"This is the demo agent, {lacking}"
            return replace(choice, notice=f"{told} {choice.notice}".rstrip())
        lacking += " With these packages alone the demo agent answers, which talks."
    if settings.stages is not None:
        lacking += " It has no stages to set apart."
    return Choice(_echo(settings), f"This is the echo test, {lacking}")


def _agent_of(settings: Settings, folder: Path) -> Agent:
    """Whose weights a folder holds that was named without an agent.

    Raises:
        CheckpointError: there is no such folder, or no model in it.
        ConfigError: they need a GPU, and there is none that can run them.
    """
    from rtc_agent.model.folder import ModelFolder, read_config
    from rtc_agent.model.spec import MOSHI

    if not (folder / CONFIG_FILE).is_file() and (folder / DEMO_LM_FILE).is_file():
        return "demo"
    config = read_config(folder / CONFIG_FILE)
    # Of releases that do not name themselves, those of PersonaPlex alone have voices.
    told = "family" in config or "model_type" in config or _has_voices(folder)
    found = ModelFolder.open(folder, family=None if told else MOSHI)
    if found.domain is not None:
        return "demo"
    agent: Agent = "moshi" if found.spec.family is MOSHI else "personaplex"
    if fault := _gpu_fault(settings):
        raise ConfigError(
            f"The model in {folder} is for a GPU; missing for that: {fault}. "
            f"--agent {agent} runs it all the same, most likely too slowly for calls."
        )
    return agent


def _has_voices(folder: Path) -> bool:
    return (folder / VOICES_FILE).is_file() or (folder / VOICES_FOLDER).is_dir()


def _missing_for_personaplex(settings: Settings) -> list[str]:
    missing = []
    if absent := _absent_packages():
        missing.append(f"{', '.join(absent)} (pip install 'rtc-agent[model]')")
    else:
        if fault := _gpu_fault(settings):
            missing.append(fault)
    if not _default_folder("personaplex").is_dir():
        missing.append("the model's files (rtc-agent download personaplex)")
    return missing


def _gpu_fault(settings: Settings) -> str:
    """Why this machine's GPU cannot run PersonaPlex; empty if it can."""
    import torch

    from rtc_agent.engine.devices import choose_device
    from rtc_agent.model.backend import backend_for

    if settings.device.startswith("cpu"):
        return f"a GPU (the device asked for is {settings.device})"
    if not torch.cuda.is_available():
        return "a GPU that torch can use"
    try:
        device = choose_device(settings.device)
        backend_for(device, kernels=settings.kernels == "auto", kv=settings.kv_dtype)
    except ConfigError as fault:
        return f"a GPU that can run it ({fault.message.rstrip('.')})"
    return ""


def _demo_is_packed() -> bool:
    """Whether this package has the demo agent's weights."""
    return (DEMO_FOLDER / CONFIG_FILE).is_file()


def _absent_packages() -> list[str]:
    return [name for name in MODEL_PACKAGES if importlib.util.find_spec(name) is None]


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
        if not _demo_is_packed():
            raise ConfigError(
                "The demo agent's weights are not part of this package; give --model, a folder "
                "that `rtc-agent train-demo` made."
            )
        return DEMO_FOLDER
    return _default_folder("moshiko" if settings.agent == "moshi" else "personaplex")


def _default_folder(name: str) -> Path:
    from rtc_agent.model.catalog import MODELS, default_folder

    return default_folder(MODELS[name])
