"""`python forward.py HOST PORT TO_HOST TO_PORT`: pass TCP connections on, as the host of a
container does with a published port."""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def main(host: str, port: int, to_host: str, to_port: int) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(to_host, to_port)
        await asyncio.gather(_pipe(reader, there_writer), _pipe(there_reader, writer))

    server = await asyncio.start_server(forward, host, port)
    await server.serve_forever()


async def _pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    target.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
