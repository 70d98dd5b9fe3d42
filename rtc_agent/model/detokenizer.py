"""Text ids to text, one id at a time.

A SentencePiece id is a piece of a word, or, by byte fallback, one byte of a character that has no
piece of its own. Both are bytes of one UTF-8 stream here, and an incremental decoder holds a
character back until its last byte is in. So what a caller reads, joined, is the whole decode.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from typing import Protocol

HIDDEN_IDS = frozenset({0, 3})
"""EPAD and PAD: the model's way to say nothing on a frame."""

_WORD_START = "\u2581"
_UNKNOWN = " \u2047 "


class PieceModel(Protocol):
    """The part of `sentencepiece.SentencePieceProcessor` that a table is made from."""

    def vocab_size(self) -> int: ...
    def id_to_piece(self, id: int, /) -> str: ...
    def is_byte(self, id: int, /) -> bool: ...
    def is_control(self, id: int, /) -> bool: ...
    def is_unknown(self, id: int, /) -> bool: ...


def piece_table(model: PieceModel, hidden: Iterable[int] = HIDDEN_IDS) -> tuple[bytes, ...]:
    """The UTF-8 bytes that each id adds to the text, for every session of a model to share.

    Control ids and `hidden` ones add nothing.
    """
    silent = frozenset(hidden)

    def piece_bytes(id: int) -> bytes:
        if id in silent or model.is_control(id):
            return b""
        piece = model.id_to_piece(id)
        if model.is_byte(id):
            return bytes([int(piece[3:-1], 16)])
        text = _UNKNOWN if model.is_unknown(id) else piece.replace(_WORD_START, " ")
        return text.encode()

    return tuple(piece_bytes(id) for id in range(model.vocab_size()))


class Detokenizer:
    """The text stream of one session.

    The first word keeps the leading space its piece has. Bytes that cannot become a character show
    as U+FFFD, one each, as SentencePiece shows them, but never before they are known to be wrong.
    """

    def __init__(self, table: Sequence[bytes]) -> None:
        self._table = table
        self._decoder = codecs.getincrementaldecoder("utf-8")(_ONE_MARK_A_BYTE)

    def push(self, id: int) -> str:
        """The text that became showable with this id; usually a piece, often empty.

        An id outside the vocabulary (start of stream, or a model with spare rows) adds nothing.
        """
        if not 0 <= id < len(self._table):
            return ""
        return self._decoder.decode(self._table[id])

    def flush(self) -> str:
        """What was still held back, at the end of the session; ready for a new one after it."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest

    def reset(self) -> None:
        """Forget everything, for the slot's next session."""
        self._decoder.reset()


def _mark_each_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


# Python's own "replace" gives one mark for a whole truncated character, SentencePiece one a byte.
_ONE_MARK_A_BYTE = "rtc_agent.one_mark_a_byte"
codecs.register_error(_ONE_MARK_A_BYTE, _mark_each_byte)
