"""Request bodies: as models, as text, and what is said of those that do not fit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from rtc_agent.errors import InvalidRequest, RequestTooSlow

T = TypeVar("T")

BODY_S = 10.0
"""How long a body may take to come: a client that sends a byte now and then holds memory."""


async def read_body(request: web.Request) -> bytes:
    """The request's body.

    Raises:
        RequestTooSlow: it did not come in time.
    """
    return await read_in_time(request.read())


async def read_in_time(reading: Awaitable[T]) -> T:
    """What the reading of a body gives.

    Raises:
        RequestTooSlow: the body did not come in time.
    """
    try:
        async with asyncio.timeout(BODY_S):
            return await reading
    except TimeoutError:
        raise RequestTooSlow(f"The body did not arrive within {BODY_S:.0f} s.") from None


async def read_json(request: web.Request, kind: type[T], example: str | None = None) -> T:
    """The request's JSON body as that type.

    Args:
        example: a body that would do, for the message.

    Raises:
        InvalidRequest: it is not; the message names each fault.
    """
    body = await read_body(request)
    try:
        return TypeAdapter(kind).validate_json(body)
    except ValidationError as error:
        hint = f" Expected JSON such as {example}." if example else ""
        raise InvalidRequest(f"The request body does not fit: {explain(error)}.{hint}") from error


def explain(error: ValidationError) -> str:
    """Where something does not fit, and why; without what was sent."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"
        for fault in error.errors(include_input=False, include_url=False)[:5]
    )


async def read_text(request: web.Request, max_bytes: int) -> str:
    """The request's body as UTF-8 text.

    Raises:
        InvalidRequest: it is longer than `max_bytes`, or no UTF-8.
    """
    body = await read_body(request)
    if len(body) > max_bytes:
        raise InvalidRequest(f"The body is longer than {max_bytes // 1024} KiB.")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest("The body is not UTF-8 text.") from error
