"""What is sent after DTLS's goodbye. Like `aiortc_shim`, whose `check()` tells if it moved, this
uses a private name of aiortc 1.16."""

from __future__ import annotations

import functools

from aiortc.rtcdtlstransport import RTCDtlsTransport
from OpenSSL import SSL


def lose_what_follows() -> None:
    """Have what is sent after DTLS's goodbye fail as what is sent to a peer who is gone does.

    aiortc lets OpenSSL's own error through, which neither its tasks nor its closing expect: a
    connection that closes while its peer does would stay half open. Can go once `_send_data` raises
    ConnectionError then.
    """
    original = getattr(RTCDtlsTransport, "_send_data", None)
    if original is None:
        return

    @functools.wraps(original)
    async def send_data(self: RTCDtlsTransport, data: bytes) -> None:
        try:
            await original(self, data)
        except SSL.Error as error:
            raise ConnectionError(f"not sent: {error}") from error

    RTCDtlsTransport._send_data = send_data  # type: ignore[method-assign]
