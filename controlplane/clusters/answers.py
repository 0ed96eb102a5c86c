"""Reading what an API server answers: a `Status` becomes an `ApiError`, a body becomes a dict. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from controlplane.clusters.port import ApiError, Unreachable
from controlplane.kube import Json

_MAX_TEXT = 512


def decoded(body: bytes, cluster: str) -> Json:
    """Return the object in a successful answer. A login page with status 200 is not an answer: `Unreachable`."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise Unreachable(f"{cluster}: the answer is not a JSON object")
    return found


def api_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error that an HTTP answer of 300 or more stands for; without a Status body its text serves as the message."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    retry_after = _seconds(headers.get("Retry-After"))
    if isinstance(found, dict) and found.get("kind") == "Status":
        return _of_status(found, status, retry_after)
    text = body[:_MAX_TEXT].decode("utf-8", "replace").strip()
    return ApiError(status, "", " ".join(text.split()) or f"HTTP {status}", retry_after)


def status_error(status: Json) -> ApiError:
    """Return the error in a watch's ERROR line, whose object is a Status."""
    code = status.get("code")
    return _of_status(status, code if isinstance(code, int) else 500, None)


def _of_status(found: Json, status: int, retry_after: float | None) -> ApiError:
    details = found.get("details")
    if retry_after is None and isinstance(details, dict):
        retry_after = _seconds(details.get("retryAfterSeconds"))
    name = details.get("name") if isinstance(details, dict) else None
    return ApiError(
        status, str(found.get("reason") or ""), str(found.get("message") or ""), retry_after, name=str(name or "")
    )


def _seconds(value: Any) -> float | None:
    """Return Retry-After as seconds; the form with a date, which API servers do not use, counts as none."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < float("inf") else None


def scrubbed(text: str, *secrets: str) -> str:
    """Return the text with every secret in it (and the bare token of a `Bearer …`) struck out."""
    for secret in secrets:
        for part in (secret, secret.rpartition(" ")[2]):
            if part:
                text = text.replace(part, "***")
    return text
