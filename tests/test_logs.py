"""What is logged, and what is not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from rtc_agent import logs


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Other tests' logging, left as it was."""
    root, server = logging.getLogger(), logging.getLogger("aiohttp.server")
    handlers, level, filters = root.handlers[:], root.level, server.filters[:]
    yield
    root.handlers[:], server.filters[:] = handlers, filters
    root.setLevel(level)


def test_bytes_that_are_no_http_leave_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("info")
    server = logging.getLogger("aiohttp.server")
    for error in (BadHttpMessage("garbage"), ValueError("a fault of ours")):
        try:
            raise error
        except Exception:
            server.exception("Error handling request")
    err = capsys.readouterr().err
    assert "a fault of ours" in err
    assert "garbage" not in err


def test_a_line_names_its_call(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("info")
    token = logs.call_id.set("call-1")
    logging.getLogger("rtc_agent.x").info("one")
    logs.call_id.reset(token)
    logging.getLogger("rtc_agent.x").info("two", extra={"call_id": "call-2"})
    logging.getLogger("aiortc").info("three")
    err = capsys.readouterr().err
    assert "[call-1] one" in err and "[call-2] two" in err and "three" not in err
