"""Request bodies: as models, as text, and what is said of those that do not fit."""

from __future__ import annotations

from typing import TypeVar

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from rtc_agent.errors import InvalidRequest

T = TypeVar("T")


async def read_json(request: web.Request, kind: type[T], example: str | None = None) -> T:
    """The request's JSON body as that type.

    Args:
        example: a body that would do, for the message.

    Raises:
        InvalidRequest: it is not; the message names each fault.
    """
    body = await request.read()
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
    body = await request.read()
    if len(body) > max_bytes:
        raise InvalidRequest(f"The body is longer than {max_bytes // 1024} KiB.")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest("The body is not UTF-8 text.") from error
