"""The libopus that PyAV's wheel carries, called directly.

FFmpeg's wrapper has no way to ask for loss concealment, in-band FEC or a change of the expected
loss; libopus has, and at 24 kHz it needs no resampler on either side. Where the library cannot be
found (a PyAV built against a system FFmpeg without it), `load` returns None.
API: opus.h and opus_defines.h of libopus 1.x, whose ABI is stable.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import logging
from functools import cache
from pathlib import Path

import av
import numpy as np

from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm

logger = logging.getLogger(__name__)

MAX_PACKET_BYTES = 1275
"""The longest Opus frame (RFC 6716, 3.4)."""
MAX_PACKET_SAMPLES = SAMPLE_RATE * 120 // 1000
"""The longest Opus packet: 120 ms."""

_APPLICATION_AUDIO = 2049
"""VoIP mode filters the voice: over two codings its waveform keeps 0.90 of its correlation, in
audio mode 0.96, at the same rate and with the same redundancy."""
_SET_BITRATE = 4002
_SET_COMPLEXITY = 4010
_SET_INBAND_FEC = 4012
_SET_PACKET_LOSS = 4014
_SET_SIGNAL = 4024
_SIGNAL_VOICE = 3001


class OpusError(Exception):
    """libopus refused a packet or a setting."""


def _candidates() -> list[str]:
    wheel = Path(av.__file__).resolve().parent.parent / "av.libs"
    mac_wheel = Path(av.__file__).resolve().parent / ".dylibs"
    found = [str(p) for d in (wheel, mac_wheel) if d.is_dir() for p in sorted(d.glob("libopus*"))]
    system = ctypes.util.find_library("opus")
    return [*found, system] if system else found


@cache
def load() -> ctypes.CDLL | None:
    """The library with its prototypes declared, or None with one warning."""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            logger.debug("libopus at %s cannot be loaded: %s", path, error)
            continue
        c_int, pointer = ctypes.c_int, ctypes.c_void_p
        library.opus_strerror.restype = ctypes.c_char_p
        library.opus_encoder_create.restype = pointer
        library.opus_encoder_create.argtypes = [c_int, c_int, c_int, ctypes.POINTER(c_int)]
        library.opus_encoder_destroy.argtypes = [pointer]
        # Variadic: the fixed arguments must be declared, or Arm passes the others wrongly.
        library.opus_encoder_ctl.argtypes = [pointer, c_int]
        library.opus_encode_float.argtypes = [pointer, pointer, c_int, pointer, c_int]
        library.opus_decoder_create.restype = pointer
        library.opus_decoder_create.argtypes = [c_int, c_int, ctypes.POINTER(c_int)]
        library.opus_decoder_destroy.argtypes = [pointer]
        library.opus_decode_float.argtypes = [
            pointer,
            ctypes.c_char_p,
            c_int,
            pointer,
            c_int,
            c_int,
        ]
        return library
    logger.warning(
        "No libopus can be loaded beside PyAV: lost packets are concealed by fading and the "
        "caller's forward error correction is not used. PyAV's own wheel from PyPI carries one."
    )
    return None


def _check(library: ctypes.CDLL, code: int, doing: str) -> int:
    if code < 0:
        raise OpusError(f"{doing}: {library.opus_strerror(code).decode()}")
    return code


class LibopusEncoder:
    """Mono speech at 24 kHz, one packet a call, with in-band FEC."""

    def __init__(
        self, library: ctypes.CDLL, *, bitrate: int, complexity: int, expected_loss_percent: int
    ) -> None:
        self._library = library
        error = ctypes.c_int()
        self._state = ctypes.c_void_p(
            library.opus_encoder_create(SAMPLE_RATE, 1, _APPLICATION_AUDIO, ctypes.byref(error))
        )
        _check(library, error.value, "opening an Opus encoder")
        self._buffer = ctypes.create_string_buffer(MAX_PACKET_BYTES)
        self._set(_SET_BITRATE, bitrate)
        self._set(_SET_COMPLEXITY, complexity)
        self._set(_SET_SIGNAL, _SIGNAL_VOICE)
        self._set(_SET_INBAND_FEC, 1)
        self.expect_loss(expected_loss_percent)

    def _set(self, request: int, value: int) -> None:
        code = self._library.opus_encoder_ctl(self._state, request, ctypes.c_int(value))
        _check(self._library, code, f"setting {request} of an Opus encoder")

    def expect_loss(self, percent: int) -> None:
        """How much loss the redundancy should be ready for; 0 sends none."""
        self._set(_SET_PACKET_LOSS, percent)

    def encode(self, pcm: Pcm) -> bytes:
        """[n] samples at 24 kHz, n one of Opus's frame lengths, to one packet."""
        samples = np.ascontiguousarray(pcm, dtype=np.float32)
        size = self._library.opus_encode_float(
            self._state, samples.ctypes.data, len(samples), self._buffer, MAX_PACKET_BYTES
        )
        return self._buffer.raw[: _check(self._library, size, "encoding")]

    def __del__(self) -> None:
        if state := getattr(self, "_state", None):
            self._library.opus_encoder_destroy(state)


class LibopusDecoder:
    """Any Opus stream to mono at 24 kHz; stereo is mixed down by the decoder itself."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        error = ctypes.c_int()
        self._state = ctypes.c_void_p(
            library.opus_decoder_create(SAMPLE_RATE, 1, ctypes.byref(error))
        )
        _check(library, error.value, "opening an Opus decoder")
        self._buffer = np.empty(MAX_PACKET_SAMPLES, np.float32)

    def decode(self, payload: bytes) -> Pcm:
        """One packet to its samples."""
        return self._run(payload, MAX_PACKET_SAMPLES, fec=0)

    def has_redundancy(self, payload: bytes) -> bool:
        """Whether a packet repeats the one before it. libopus before 1.4 cannot tell, and would
        conceal where there is nothing."""
        ask = getattr(self._library, "opus_packet_has_lbrr", None)
        return ask is None or ask(payload, len(payload)) > 0

    def recover(self, next_payload: bytes, samples: int) -> Pcm:
        """The lost stretch before `next_payload`, from the redundancy that it carries."""
        return self._run(next_payload, samples, fec=1)

    def conceal(self, samples: int) -> Pcm:
        """A plausible continuation. `samples` must be a multiple of 2.5 ms, at most 120 ms."""
        return self._run(None, samples, fec=0)

    def _run(self, payload: bytes | None, samples: int, *, fec: int) -> Pcm:
        size = 0 if payload is None else len(payload)
        got = self._library.opus_decode_float(
            self._state, payload, size, self._buffer.ctypes.data, samples, fec
        )
        return self._buffer[: _check(self._library, got, "decoding")].copy()

    def __del__(self) -> None:
        if state := getattr(self, "_state", None):
            self._library.opus_decoder_destroy(state)
