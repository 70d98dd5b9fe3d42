"""Reading values out of a `config.json` that may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtc_agent.errors import CheckpointError

_MOST = 1 << 24
"""No size of a model is larger; a file that says so is damaged."""


def table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section; empty where the config has none.

    Raises:
        CheckpointError: it is not an object.
    """
    value = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _unusable(name, value, "an object")
    return value


def whole(name: str, value: object, least: int = 1, most: int = _MOST) -> int:
    """A whole number.

    Raises:
        CheckpointError: it is not one, or outside `least` … `most`.
    """
    if type(value) is not int or not least <= value <= most:
        raise _unusable(name, value, f"a whole number from {least} to {most}")
    return value


def number(name: str, value: object) -> float:
    """A number above zero.

    Raises:
        CheckpointError: it is not one, or not finite.
    """
    fits = type(value) in (int, float)
    if not fits or not 0 < value < float("inf"):  # type: ignore[operator]
        raise _unusable(name, value, "a number above zero")
    return float(value)  # type: ignore[arg-type]


def wholes(name: str, value: object, least: int = 1) -> tuple[int, ...]:
    """A list of whole numbers.

    Raises:
        CheckpointError: it is not one.
    """
    if not isinstance(value, list | tuple):
        raise _unusable(name, value, "a list of whole numbers")
    return tuple(whole(name, item, least) for item in value)


def _unusable(name: str, value: object, expected: str) -> CheckpointError:
    return CheckpointError(f"config.json gives {name} as {value!r:.60}; expected {expected}")
