"""Answers the reviews of authorization.k8s.io/v1, which `kubectl auth can-i` asks for.

In: the path and the body of a POST. Out: the review with its status. Everything is allowed unless a rule says otherwise:
a simulated server has one token and lets its holder do all, so the rules are for whoever tests what happens without a
right."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from controlplane.kube.access import SELF_SUBJECT_ACCESS_REVIEWS, SUBJECT_ACCESS_REVIEWS, AccessRight
from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.errors import bad_request
from controlplane.simulation.apiserver.faults import MatchedRequest
from controlplane.simulation.apiserver.protobuf import MEDIA_TYPE, access_review

REVIEWS: tuple[Kind, ...] = (SELF_SUBJECT_ACCESS_REVIEWS, SUBJECT_ACCESS_REVIEWS)
USER = "kubernetes-admin"

Allows = Callable[[str, AccessRight], bool]
"""Says whether a user has a right; `""` as the resource is a right to a path (`nonResourceAttributes`)."""


def everything(user: str, right: AccessRight) -> bool:
    """Allow everything to everybody."""
    return True


class AccessReviews:
    """The reviews of one server; `allows` may be replaced."""

    def __init__(self) -> None:
        self.allows: Allows = everything
        self._kinds = {kind.path(): kind for kind in REVIEWS}

    def matched(self, method: str, path: str) -> MatchedRequest | None:
        """Return the request in the terms of faults, None if it asks for no review."""
        kind = self._kinds.get(path) if method == "POST" else None
        return MatchedRequest("create", kind.name) if kind is not None else None

    def answer(self, path: str, body: bytes, content_type: str) -> Json:
        """Return the review with its status; 400 for a body that is none."""
        kind = self._kinds[path]
        try:
            given = access_review(body) if content_type == MEDIA_TYPE else orjson.loads(body)
            spec = given["spec"]
            asked = spec.get("resourceAttributes") or {}
            paths = spec.get("nonResourceAttributes")
            user = str(spec["user"]) if kind == SUBJECT_ACCESS_REVIEWS else USER
            right = _right(asked)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise bad_request(f"the body is no {kind.kind}") from None
        if not asked and not paths:
            raise bad_request("spec must have one of resourceAttributes and nonResourceAttributes")
        allowed = self.allows(user, right)
        reason = {} if allowed else {"reason": f'{user} may not {right.verb} "{right.target}" here'}
        head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
        return {**head, "spec": spec, "status": {"allowed": allowed, **reason}}


def _right(asked: Json) -> AccessRight:
    resource, subresource = str(asked.get("resource", "")), str(asked.get("subresource", ""))
    return AccessRight(
        group=str(asked.get("group", "")),
        resource=f"{resource}/{subresource}" if subresource else resource,
        verb=str(asked.get("verb", "")),
        namespace=str(asked.get("namespace", "")),
        name=str(asked.get("name", "")),
    )
