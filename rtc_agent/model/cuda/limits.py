"""What one graph of our kernels takes at most."""

from __future__ import annotations

MAX_ROWS = 128
"""Rows that one read of the weights serves at most."""


def check_rows(rows: int) -> None:
    """
    Raises:
        ValueError: more than one graph takes.
    """
    if rows > MAX_ROWS:
        raise ValueError(f"{rows} rows in one graph; {MAX_ROWS} is the most")
