"""Every route against what a fuzzer makes of the OpenAPI document: no 500, hang or lost slot."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode

from rtc_agent.protocol.whip import FRAGMENT, SDP
from signaling.openapi import document
from tests.signaling.site import OFFER, Site, StartClient, serving

EXAMPLES = 12
"""Of each kind of each operation."""
ANSWER_S = 5.0
SCHEMA = schemathesis.openapi.from_dict(document())
OPERATIONS = {f"{o.ok().method.upper()} {o.ok().path}": o.ok() for o in SCHEMA.get_all_operations()}


@schemathesis.serializer(SDP, FRAGMENT)
def as_text(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


def cases(operation: Any, mode: GenerationMode) -> list[Any]:
    """What the fuzzer would send."""
    made: list[Any] = []

    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def collect(case: Any) -> None:
        made.append(case)

    collect()
    return made


@pytest.mark.parametrize("name", list(OPERATIONS))
@pytest.mark.parametrize("mode", list(GenerationMode))
async def test_what_the_fuzzer_sends_is_answered_as_the_document_says(
    aiohttp_client: StartClient, name: str, mode: GenerationMode
) -> None:
    operation = OPERATIONS[name]
    documented = set(operation.definition.raw["responses"])
    async with serving(aiohttp_client, slots=2) as it:
        try:
            generated = await asyncio.to_thread(cases, operation, mode)
        except Unsatisfiable:
            pytest.skip("there is nothing to get wrong in this operation")
        for case in generated:
            status = await send(it, case)
            if mode is GenerationMode.POSITIVE:
                assert str(status) in documented, (case, status)
        for call in it.bench.registry:
            call.on_closed("peer_closed")
        await it.bench.run(0.5)
        assert it.free == 2


async def send(it: Site, case: Any) -> int:
    """The answer's status; it must come in time and be no fault of the server's."""
    url = str(it.client.make_url("/")).rstrip("/")
    response = await asyncio.to_thread(case.call, base_url=url, timeout=ANSWER_S)
    assert response.status_code != 500, (case, response.content)
    if response.status_code >= 400 and b"Got more than" not in response.content:
        told = json.loads(response.content)
        assert "error" in told or "detail" in told, (case, told)
    return int(response.status_code)


bodies = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: (OFFER + text).encode(errors="replace")),
)
kinds = st.sampled_from(
    [
        "application/json",
        SDP,
        FRAGMENT,
        "multipart/form-data",
        "multipart/form-data; boundary=b",
        "",
    ]
)
REQUESTS = [
    ("POST", "/api/offer"),
    ("PATCH", "/api/offer"),
    ("POST", "/start"),
    ("POST", "/whip"),
    ("PATCH", "/whip/x"),
    ("POST", "/v1/realtime/calls"),
    ("POST", "/v1/realtime"),
    ("POST", "/v1/realtime/client_secrets"),
    ("POST", "/v1/realtime/sessions"),
]


async def test_bodies_of_any_bytes_under_any_kind(aiohttp_client: StartClient) -> None:
    """What no document allows: kinds and bodies that do not belong together."""
    drawn: list[tuple[tuple[str, str], bytes, str]] = []

    @settings(max_examples=150, database=None, deadline=None, derandomize=True)
    @given(st.sampled_from(REQUESTS), bodies, kinds)
    def collect(request: tuple[str, str], body: bytes, kind: str) -> None:
        drawn.append((request, body, kind))

    collect()
    async with serving(aiohttp_client, slots=2) as it:
        for (method, path), body, kind in drawn:
            headers = {"Content-Type": kind} if kind else {}
            async with asyncio.timeout(ANSWER_S):
                response = await it.client.request(method, path, data=body, headers=headers)
                await response.read()
            assert response.status != 500, (method, path, body, kind)
