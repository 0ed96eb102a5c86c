"""Makes the sockets on which API servers are reached: of one whose other end is gone the kernel finds out.

A watch is silent for a minute at a time. Where a firewall has dropped its connection, or its API server's machine is
off, nobody says so: the stream would stand for `clusters.watchInactivity`, while the heartbeats, on connections of
their own, are answered. TCP's keepalive ends such a connection within 45 seconds, as the pings of HTTP/2 do for the
clients written in Go (kubernetes/apimachinery `pkg/util/net/http.go`: 30 seconds without a frame, then 15 for an
answer)."""

from __future__ import annotations

import socket

import aiohttp

_IDLE, _INTERVAL, _PROBES = 30, 5, 3  # seconds without a byte, seconds between two probes, probes without an answer
# The names of an option on different systems: Linux first, macOS second.
_OPTIONS = (
    (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), _IDLE),
    (("TCP_KEEPINTVL",), _INTERVAL),
    (("TCP_KEEPCNT",), _PROBES),
)


def kept_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return an unconnected socket for an address (family, type, protocol, name, address) that is probed while it is
    silent. Raises `OSError`."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for names, value in _OPTIONS:
        option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
