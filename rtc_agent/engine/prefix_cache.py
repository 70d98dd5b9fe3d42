"""Prompts that were run lately, so that the next caller with the same one need not wait for it."""

from __future__ import annotations

from collections import OrderedDict

from rtc_agent.model.opening import Opening

PromptKey = tuple[str | None, tuple[int, ...]]
"""Voice name and the persona's text ids."""


class PrefixCache:
    """Least recently used prompts go first once `max_bytes` are held."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[PromptKey, Opening] = OrderedDict()
        self._bytes = 0

    def __contains__(self, key: PromptKey) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and context vectors held."""
        return self._bytes

    def get(self, key: PromptKey) -> Opening | None:
        """The prompt's opening, if it is still held."""
        opening = self._entries.get(key)
        if opening is not None:
            self._entries.move_to_end(key)
        return opening

    def make_room(self, size: int) -> None:
        """Let go of what a prompt of so many bytes would push out; before it is run, so that it
        and the kept ones never take more than `max_bytes` together."""
        while self._entries and self._bytes + size > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= oldest.prefix.nbytes

    def put(self, key: PromptKey, opening: Opening) -> None:
        """Hold an opening; one larger than the whole cache is not held."""
        self.drop(key)
        size = opening.prefix.nbytes
        if size > self._max_bytes:
            return
        self.make_room(size)
        self._entries[key] = opening
        self._bytes += size

    def drop(self, key: PromptKey) -> None:
        """Forget one prompt, say because its voice was replaced."""
        opening = self._entries.pop(key, None)
        if opening is not None:
            self._bytes -= opening.prefix.nbytes

    def clear(self) -> None:
        """Forget every prompt."""
        self._entries.clear()
        self._bytes = 0
