"""Answers the reviews of authorization.k8s.io/v1 and authentication.k8s.io/v1, which `kubectl auth` asks for.

In: the path and the body of a POST. Out: the review with its status. Everything is allowed unless a rule says
otherwise: a simulated server has one token and lets its holder do all, so the rules are for whoever tests what happens
without a right."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from controlplane.kube.access import SELF_SUBJECT_ACCESS_REVIEWS, SUBJECT_ACCESS_REVIEWS, AccessRight
from controlplane.kube.kinds import Json, Kind
from controlplane.simulation.apiserver.errors import bad_request
from controlplane.simulation.apiserver.faults import MatchedRequest
from controlplane.simulation.apiserver.protobuf import MEDIA_TYPE, decode
from controlplane.simulation.schemas.messages import Message, kubernetes

_RULES = Kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False)
_WHO_AM_I = Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
REVIEWS: tuple[Kind, ...] = (SELF_SUBJECT_ACCESS_REVIEWS, SUBJECT_ACCESS_REVIEWS, _RULES, _WHO_AM_I)
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
            given = decode(body, _message(kind)) if content_type == MEDIA_TYPE else orjson.loads(body)
            if kind in (_RULES, _WHO_AM_I):
                return {
                    "apiVersion": kind.api_version,
                    "kind": kind.kind,
                    "metadata": {},
                    **self._about_me(kind, given),
                }
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

    def _about_me(self, kind: Kind, given: Json) -> Json:
        """Return who asks, or what he may do: all, as far as it can be listed; a rule of `allows` is no list."""
        if kind == _WHO_AM_I:
            return {"status": {"userInfo": {"username": USER, "groups": ["system:masters", "system:authenticated"]}}}
        whole = self.allows is everything
        rules = {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}] if whole else [],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if whole else [],
            "incomplete": not whole,
        }
        return {"spec": given.get("spec") or {}, "status": rules}


def _message(kind: Kind) -> Message:
    return kubernetes()[f"{kind.group.partition('.')[0]}.{kind.kind}"]


def _right(asked: Json) -> AccessRight:
    resource, subresource = str(asked.get("resource", "")), str(asked.get("subresource", ""))
    return AccessRight(
        group=str(asked.get("group", "")),
        resource=f"{resource}/{subresource}" if subresource else resource,
        verb=str(asked.get("verb", "")),
        namespace=str(asked.get("namespace", "")),
        name=str(asked.get("name", "")),
    )
