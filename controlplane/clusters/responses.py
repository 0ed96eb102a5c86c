"""Reads what an API server answers: a `Status` becomes an `ApiError`, a body becomes a dict. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from controlplane.clusters.protocol import ApiError, UnreadableResponse
from controlplane.kube.kinds import Json
from controlplane.kube.not_installed import UNKNOWN_PATH, not_installed

_MAX_TEXT = 512
_MAX_SAID = 4096
_LONGEST_PAUSE = 300.0  # seconds: whoever asks for more is asked again all the same


def decoded(body: bytes, cluster: str) -> Json:
    """Return the object in a successful answer. A login page with status 200 is not an answer: `UnreadableResponse`."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise UnreadableResponse(f"{cluster}: the answer is not a JSON object, or one that is nested too deep")
    return found


def api_error(status: int, headers: Mapping[str, str], body: bytes, path: str = "") -> ApiError:
    """Return the error that an HTTP answer of 300 or more stands for; without a Status body its text serves as the
    message. Of a `path` that the server does not know it says which kind is not installed.
    """
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    retry_after = _seconds(headers.get("Retry-After"))
    if isinstance(found, dict) and found.get("kind") == "Status":
        return _of_path(_of_status(found, status, retry_after), path)
    text = body[:_MAX_TEXT].decode("utf-8", "replace").replace("\0", "").strip()
    return _of_path(ApiError(status, "", " ".join(text.split()) or f"HTTP {status}", retry_after), path)


def _of_path(error: ApiError, path: str) -> ApiError:
    """Return an error with what is not installed, if it says that its server does not know the path."""
    if error.status != 404 or error.name or error.message not in UNKNOWN_PATH:
        return error
    return ApiError(404, error.reason, not_installed(path) or error.message, error.retry_after)


def status_error(status: Json) -> ApiError:
    """Return the error in a watch's ERROR line, whose object is a Status."""
    code = status.get("code")
    return _of_status(status, code if isinstance(code, int) and 300 <= code <= 599 else 500, None)


def _of_status(found: Json, status: int, retry_after: float | None) -> ApiError:
    details = found.get("details")
    if retry_after is None and isinstance(details, dict):
        retry_after = _seconds(details.get("retryAfterSeconds"))
    name = details.get("name") if isinstance(details, dict) else None
    return ApiError(status, _text(found.get("reason")), _text(found.get("message")), retry_after, name=_text(name))


def _text(value: Any) -> str:
    """Return a message, if it is a text, cut to a length that people read; the database holds no U+0000."""
    return value[:_MAX_SAID].replace("\0", "") if isinstance(value, str) else ""


def _seconds(value: Any) -> float | None:
    """Return Retry-After as seconds; the form with a date, which API servers do not use, counts as none."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(seconds, _LONGEST_PAUSE) if seconds >= 0 else None


def scrubbed(text: str, *secrets: str) -> str:
    """Return the text with every secret in it (and the bare token of a `Bearer …`) struck out."""
    for secret in secrets:
        for part in (secret, secret.rpartition(" ")[2]):
            if part:
                text = text.replace(part, "***")
    return text
