"""Ids lead to the replica that gave them out, and nothing else does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.cluster.ids import (
    named_in_address,
    named_in_body,
    new_replica_id,
    prefix_of,
    replica_of,
)

TOKENS = st.from_regex(r"[\w-]{4,30}", fullmatch=True)


@given(TOKENS, st.integers(0, 63))
def test_whatever_a_replica_gives_out_leads_back_to_it(token: str, worker: int) -> None:
    replica = new_replica_id()
    session = f"{prefix_of(replica)}w{worker}-{token}"
    assert replica_of(session) == replica
    for address in (
        f"/whip/{session}",
        f"/sessions/{session}/api/offer",
        f"/v1/realtime/calls/{session}/hangup",
        f"/v1/calls/call-{session}",
        f"/whep/call-{session}",
        f"/v1/realtime?call_id={session}",
    ):
        assert named_in_address(address) == replica
    assert named_in_body(json.dumps({"pc_id": session}).encode()) == replica


@given(st.text())
def test_what_else_is_said_leads_nowhere_and_fails_nothing(text: str) -> None:
    assert replica_of(text) is None
    assert named_in_address(f"/{text}") is None
    assert named_in_body(json.dumps({"pc_id": text}).encode()) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"pc_id": 7}',
        b'["pc_id"]',
        b'{"pc_id"',
        b'\xff"pc_id"',
        b'{"pc_id": ' + b"[" * 100_000,
        b'{"pc_id": "w0-of-one-host"}',
        b'{"pc_id": "rXXXXXXXX-w0-none"}',
    ],
)
def test_a_body_that_names_no_replica_names_none(body: bytes) -> None:
    assert named_in_body(body) is None


def test_no_two_replicas_have_the_same_id() -> None:
    assert len({new_replica_id() for _ in range(1_000)}) == 1_000
