"""Reads the bytes of an answer up to a limit, also where a few of them unfold into very many.

In: an open response. Out: its body, unpacked. aiohttp would unpack whatever has arrived at once, and keep all of it: an
API server that answers with a gigabyte of zeros in a megabyte of gzip would take the process with it, and every other
cluster's connection."""

from __future__ import annotations

import zlib

import aiohttp

from controlplane.clusters.protocol import UnreadableResponse

#: What an answer may be packed in, as it is asked for.
ENCODING = "gzip"
OBJECT, PAGE = 1 << 25, 1 << 28  # bytes of an answer: of one object, of a page of a list
REFUSAL = 1 << 16  # of a refusal, of which the rest is not read


async def body_of(response: aiohttp.ClientResponse, most: int, cluster: str) -> bytes:
    """Return the body; `UnreadableResponse` if it has more than so many bytes, or is packed in what was not asked
    for.
    """
    return await _read(response, most, cluster, cut=False)


async def refusal_of(response: aiohttp.ClientResponse, cluster: str) -> bytes:
    """Return the beginning of the body of a refusal."""
    return await _read(response, REFUSAL, cluster, cut=True)


def packed(response: aiohttp.ClientResponse) -> str:
    """Return what a response is packed in, "" for nothing."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


async def _read(response: aiohttp.ClientResponse, most: int, cluster: str, *, cut: bool) -> bytes:
    encoding = packed(response)
    if encoding not in ("", ENCODING):
        raise UnreadableResponse(f"{cluster}: the answer is packed in something else than {ENCODING}")
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if encoding else None
    pieces: list[bytes] = []
    size = 0
    try:
        async for chunk in response.content.iter_any():
            rest = chunk
            while rest:
                piece = rest if unpacking is None else unpacking.decompress(rest, most + 1 - size)
                rest = b"" if unpacking is None else unpacking.unconsumed_tail
                pieces.append(piece)
                size += len(piece)
                if size > most and not cut:
                    raise UnreadableResponse(f"{cluster}: the answer has more than {most} bytes")
                if size > most:
                    return b"".join(pieces)[:most]
    except zlib.error as error:
        raise UnreadableResponse(f"{cluster}: the answer cannot be unpacked: {error}") from None
    if unpacking is not None and size and not unpacking.eof:
        raise UnreadableResponse(f"{cluster}: the answer is packed, and its end is missing")
    return b"".join(pieces)
