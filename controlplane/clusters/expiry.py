"""Says when a kubeconfig's token ends.

In: a bearer token. Out: the time that the token itself states. Nothing is verified: the API server does that, and the
time is only told to people before it comes."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime

import msgspec


class _Claims(msgspec.Struct):
    exp: float = 0.0


def token_expiry(token: str) -> datetime | None:
    """Return when a JSON Web Token ends (RFC 7519, claim `exp`); None for one that does not say, and for any other
    token.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        ends = msgspec.json.decode(body, type=_Claims).exp
        return datetime.fromtimestamp(ends, UTC) if ends > 0 else None
    except (binascii.Error, ValueError, OverflowError, OSError, msgspec.MsgspecError):
        return None
