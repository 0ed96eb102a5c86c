"""The one error of the embedded server."""

from __future__ import annotations


class EmbeddedError(Exception):
    """The embedded PostgreSQL cannot be had; the message is one sentence that says which thing and what to do."""
