"""One connection of a call. A call may have several, one after another."""

from __future__ import annotations

from rtc_agent.call.transport import TransportEvents


class Line:
    """Passes on what a transport reports, as long as its call has not moved to another line."""

    def __init__(self, call: TransportEvents) -> None:
        self._call: TransportEvents | None = call

    def cut(self) -> None:
        """The call has another line now, or ended: this one's reports are of no interest."""
        self._call = None

    def on_connected(self) -> None:
        if self._call is not None:
            self._call.on_connected()

    def on_closed(self, reason: str) -> None:
        if self._call is not None:
            self._call.on_closed(reason)

    def on_channel(self, label: str) -> None:
        if self._call is not None:
            self._call.on_channel(label)

    def on_message(self, label: str, message: str) -> None:
        if self._call is not None:
            self._call.on_message(label, message)
