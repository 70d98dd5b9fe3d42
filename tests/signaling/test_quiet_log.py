"""A thousand refusals are a few log lines."""

from __future__ import annotations

import logging

import pytest

from signaling.quiet_log import EVERY_S, QuietLog
from tests.signaling.site import OFFER, StartClient, serving


def test_the_first_of_each_kind_is_said_and_the_rest_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    log = QuietLog(logging.getLogger("quiet"), lambda: now[0])
    for _ in range(100):
        log.warning("full", "The server is full.")
        log.warning("failed", "The engine failed.")
    assert [record.getMessage() for record in caplog.records] == [
        "The server is full.",
        "The engine failed.",
    ]
    now[0] = EVERY_S
    log.warning("full", "The server is full.")
    assert caplog.records[-1].getMessage() == "The server is full. (99 more like it before)"


async def test_a_full_server_does_not_fill_its_log(
    aiohttp_client: StartClient, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        body = {"sdp": OFFER, "type": "offer"}
        statuses = [(await it.client.post("/api/offer", json=body)).status for _ in range(30)]
    assert statuses == [200] + [503] * 29
    refused = [r for r in caplog.records if r.name.startswith("signaling")]
    assert len(refused) == 1 and "full" in refused[0].getMessage()
