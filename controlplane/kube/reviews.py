"""Pieces of an admission webhook's answers: what an AdmissionReview asks, and what is said to it
(https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/).

In: JSON. Out: JSON. Nothing is refused here: a webhook of ours only adds."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from controlplane.kube.kinds import Json, meta


def requested(review: Mapping[str, Any]) -> Json | None:
    """Return the request of an AdmissionReview; None if there is none with a UID."""
    found = review.get("request")
    return found if isinstance(found, dict) and found.get("uid") else None


def namespace_of(request: Mapping[str, Any], obj: Json) -> str:
    """Return the namespace of what is reviewed: a user may leave it out of the object."""
    return str(request.get("namespace") or meta(obj).get("namespace") or "")


def allowed(request: Mapping[str, Any], patch: Sequence[Json], warnings: Sequence[str]) -> Json:
    """Return the answer that lets a request through, with a JSON patch (RFC 6902) if there is one."""
    response: Json = {"uid": request["uid"], "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    if warnings:
        response["warnings"] = list(warnings)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def with_patch(answer: Json, more: Sequence[Json]) -> Json:
    """Return an answer with operations of a JSON patch that come before its own."""
    if not more:
        return answer
    response = answer["response"]
    there = msgspec.json.decode(base64.b64decode(response["patch"])) if "patch" in response else []
    return allowed(response, [*more, *there], response.get("warnings", ()))


def json_patch(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> list[Json]:
    """Return the JSON patch that turns one object into another; lists are replaced as a whole."""
    found: list[Json] = [{"op": "remove", "path": f"{path}/{_token(key)}"} for key in before if key not in after]
    for key, value in after.items():
        here, old = f"{path}/{_token(key)}", before.get(key)
        if key not in before:
            found.append({"op": "add", "path": here, "value": value})
        elif old is value:
            continue  # what both share may be nested deeper than can be compared
        elif isinstance(old, dict) and isinstance(value, dict):
            found += json_patch(old, value, here)
        elif old != value:
            found.append({"op": "replace", "path": here, "value": value})
    return found


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
