"""Cuts a byte stream into lines of any length.

aiohttp's own line reader gives up beyond twice its buffer; an object with a large annotation or many conditions exceeds
it. Here the only bound is the one that keeps a broken server from filling the memory."""

from __future__ import annotations

from controlplane.clusters.validation import LARGEST

_MAX_LINE = LARGEST + (1 << 20)  # an object, and what a watch line has beside it


class LineTooLong(ValueError):  # noqa: N818
    """No newline within the bound: this is not a watch."""


class LineSplitter:
    """Takes chunks, gives complete lines (without the newline; empty ones left out) and keeps the rest for the next
    chunk.

    The rest is kept in pieces and joined once, so a line of many chunks costs no more than its length.
    """

    def __init__(self, limit: int = _MAX_LINE) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes. Raises `LineTooLong`."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return []
        whole = b"".join((*self._rest, chunk[:end]))
        self._rest, self._size = [], 0
        self._keep(chunk[end + 1 :])
        return [line for line in whole.split(b"\n") if line.strip()]

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._rest.append(piece)
            self._size += len(piece)
        if self._size > self._limit:
            raise LineTooLong(f"a line of more than {self._limit} bytes")
