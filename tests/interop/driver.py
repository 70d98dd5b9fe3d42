"""Drives the clients in the page, and waits for what they report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from playwright.async_api import Page

from tests.real_server import RealServer

WAIT_S = 20.0
POLL_S = 0.1


class Client:
    """The page's `interop` object, function by function."""

    def __init__(self, page: Page, server: RealServer) -> None:
        self.page = page
        self.server = server

    async def do(self, function: str, *arguments: Any) -> Any:
        """Call `interop.<function>` and give back what it resolves to."""
        given = ", ".join(json.dumps(argument) for argument in arguments)
        return await self.page.evaluate(f"async () => await window.interop.{function}({given})")

    async def log(self, client: str) -> list[Any]:
        """What a client has reported so far."""
        found: list[Any] = await self.page.evaluate(f"() => window.interop.{client}.log")
        return found

    async def reports(self, client: str, wanted: Callable[[Any], bool]) -> Any:
        """Wait until a client reports something like that; the first that is."""

        async def look() -> Any:
            return next((entry for entry in await self.log(client) if wanted(entry)), None)

        return await self.until(look)

    async def until(self, look: Callable[[], Any]) -> Any:
        """Wait until `look()` gives something; fail with what there was otherwise."""
        try:
            async with asyncio.timeout(WAIT_S):
                while not (found := await look()):
                    await asyncio.sleep(POLL_S)
                return found
        except TimeoutError:
            sound = await self.do("sound.latest")
            raise AssertionError(
                f"not seen in {WAIT_S:.0f} s; sound: {sound}; server log: {self.server.log}"
            ) from None

    async def hears_sound(self) -> dict[str, float]:
        """Wait until the newest connection has played something audible."""

        async def look() -> dict[str, float] | None:
            received: dict[str, float] = await self.do("sound.latest")
            return received if received["energy"] > 1e-3 else None

        found: dict[str, float] = await self.until(look)
        return found

    async def slots_return(self) -> None:
        """Wait until no call is left."""

        async def look() -> bool:
            slots = (await self.server.info())["slots"]
            return bool(slots["free"] == slots["total"])

        await self.until(look)
