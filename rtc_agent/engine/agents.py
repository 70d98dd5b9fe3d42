"""Which stepper answers: the one asked for by name, or the best that this machine can run."""

from __future__ import annotations

from dataclasses import dataclass

from rtc_agent.config import Settings
from rtc_agent.engine.echo import EchoStepper
from rtc_agent.engine.stepper import FrameStepper
from rtc_agent.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Choice:
    """A stepper, and what a person should know about why it is this one."""

    stepper: FrameStepper
    notice: str = ""


def create_stepper(settings: Settings) -> Choice:
    """The stepper that these settings ask for.

    Raises:
        ConfigError: this machine cannot run it; the message says what is missing.
    """
    match settings.agent:
        case "echo":
            return Choice(EchoStepper(settings.sessions))
        case "auto":
            return Choice(
                EchoStepper(settings.sessions),
                "This is the echo agent: it plays back what you say, to test the line.",
            )
        case other:
            raise ConfigError(f"The agent {other!r} cannot be run here yet; choose echo.")
