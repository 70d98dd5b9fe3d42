"""Whether private names of a library are still used where they are known to be."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any


def moved_uses(uses: Iterable[tuple[Callable[..., Any], str]]) -> list[str]:
    """Which of these functions no longer use the name that they are known to use."""
    return [f"{f.__qualname__}'s use of {name}" for f, name in uses if not _mentions(f, name)]


def _mentions(function: Callable[..., Any], name: str) -> bool:
    """Whether a function's code, or that of a function inside it, uses an attribute."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        if name in code.co_names:
            return True
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return False
