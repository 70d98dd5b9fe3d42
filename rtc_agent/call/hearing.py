"""What the engine hears of a caller: the transport's frames, or silence while muted."""

from __future__ import annotations

import numpy as np

from rtc_agent.engine.client import FrameSource
from rtc_agent.engine.placing import PacketedSource, PacketTimes
from rtc_agent.engine.stepper import FRAME_SAMPLES, Pcm

_SILENCE: Pcm = np.zeros(FRAME_SAMPLES, np.float32)


class HeardSource:
    """A `PacketedSource` that a session can be opened with before its transport exists.

    A muted caller is not heard even if the client goes on sending.
    """

    def __init__(self) -> None:
        self._source: FrameSource | None = None
        self.muted = False
        self.held = False
        """The caller's telephone has the call on hold: its music is not for the agent."""
        self.last: Pcm = _SILENCE
        """The frame most recently reserved: what the agent heard last."""

    def attach(self, source: FrameSource) -> None:
        self._source = source

    @property
    def in_packets(self) -> bool:
        """As `PacketedSource.in_packets`: a stream over a WebSocket is not."""
        return isinstance(self._source, PacketedSource) and self._source.in_packets

    def packet_times(self, packets: int) -> PacketTimes | None:
        """As `PacketedSource.packet_times`; never known of a transport without packets."""
        source = self._source
        return source.packet_times(packets) if isinstance(source, PacketedSource) else None

    def reserve(self) -> Pcm:
        frame = _SILENCE if self._source is None else self._source.reserve()
        self.last = _SILENCE if self.muted or self.held else frame
        return self.last

    def commit(self) -> None:
        if self._source is not None:
            self._source.commit()

    def rollback(self) -> None:
        if self._source is not None:
            self._source.rollback()

    def skip(self) -> None:
        if self._source is not None:
            self._source.skip()
