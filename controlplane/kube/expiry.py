"""Says when a kubeconfig's token and its client certificate end.

In: a bearer token, a certificate in PEM. Out: the time that it states itself. Nothing is verified: the API server does
that, and the time is only told to people before it comes."""

from __future__ import annotations

import base64
import binascii
import ssl
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
    except (binascii.Error, ValueError, OverflowError, OSError, RecursionError, msgspec.MsgspecError):
        return None


def certificate_expiry(pem: bytes) -> datetime | None:
    """Return when a certificate in PEM ends, that of a chain which ends first; None where there is none to be read.

    Python's own reader is a function of its tests, and takes a file; of a certificate only this one field is needed."""
    ends = [found for part in pem.split(_BEGIN)[1:] if (found := _end_of(_BEGIN + part.partition(_END)[0] + _END))]
    return min(ends, default=None)


def credentials_expiry(token: str, certificate: bytes) -> datetime | None:
    """Return when the first of a kubeconfig's token and client certificate ends; None if neither says."""
    ends = [one for one in (token_expiry(token), certificate_expiry(certificate)) if one is not None]
    return min(ends, default=None)


_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_VERSION, _GENERALIZED_TIME = 0xA0, 0x18  # tags of DER


def _end_of(pem: bytes) -> datetime | None:
    """Return `notAfter` of a certificate (RFC 5280, 4.1): the second time in the fifth field, if the version is one."""
    try:
        body = _parts(_parts(_parts(ssl.PEM_cert_to_DER_cert(pem.decode()))[0][1])[0][1])
        validity = body[4 if body[0][0] == _VERSION else 3][1]
        tag, text = _parts(validity)[1]
        spelled = text.decode("ascii")
        if tag != _GENERALIZED_TIME:  # UTCTime has two digits of the year: 1950 to 2049
            spelled = ("19" if spelled[:2] >= "50" else "20") + spelled
        return datetime.strptime(spelled, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (ValueError, IndexError, binascii.Error):
        return None


def _parts(der: bytes) -> list[tuple[int, bytes]]:
    """Return tags and contents of what stands side by side in DER; `IndexError` if it is cut off."""
    found, at = [], 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            length, at = int.from_bytes(der[at : at + count], "big"), at + count
        if at + length > len(der):
            raise IndexError("the certificate is cut off")
        found.append((tag, der[at : at + length]))
        at += length
    return found
