"""Asks an API server who somebody is, and whether he may do something: authentication.k8s.io/v1 and
authorization.k8s.io/v1 (https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access).

In: a token, or a right. Out: the review to be sent; and of its answer, whether the right is there. Nothing is stored on
the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.kube.front_proxy import UserInfo, access_review
from controlplane.kube.kinds import Json, Kind
from controlplane.values import Value

SELF_SUBJECT_ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
TOKEN_REVIEWS = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)


class AccessRight(Value, order=True):
    """One verb on one resource, as RBAC spells them: `resource` may have a subresource (`jobs/status`).

    An empty namespace is all of them, or a resource that has none; an empty `name` is every object."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.target}{where}"

    @property
    def target(self) -> str:
        """The resource with its group, as kubectl spells it: `jobs.batch/status`."""
        plural, slash, subresource = self.resource.partition("/")
        return f"{plural}{'.' if self.group else ''}{self.group}{slash}{subresource}"


def review(right: AccessRight) -> Json:
    """Return the SelfSubjectAccessReview that asks for a right."""
    return _review(SELF_SUBJECT_ACCESS_REVIEWS, {"resourceAttributes": _attributes(right)})


def review_of(user: UserInfo, right: AccessRight) -> Json:
    """Return the SubjectAccessReview that asks whether somebody has a right."""
    return access_review(user, {"resourceAttributes": _attributes(right)})


def token_review(token: str) -> Json:
    """Return the TokenReview that asks whose a token is."""
    return _review(TOKEN_REVIEWS, {"token": token})


def user_of(answer: Mapping[str, Any]) -> UserInfo | None:
    """Return whose token an answered TokenReview says that it is, None if it is nobody's. `extra` goes along:
    authorizers go by it, as by the scopes of a token that may do less than its user."""
    status = answer.get("status")
    user = status.get("user") if isinstance(status, dict) and status.get("authenticated") is True else None
    if not isinstance(user, dict) or not user.get("username"):
        return None
    extra = user.get("extra") or {}
    return UserInfo(
        name=str(user["username"]),
        uid=str(user.get("uid") or ""),
        groups=tuple(map(str, user.get("groups") or ())),
        extra=tuple(sorted((str(key), tuple(map(str, values or ()))) for key, values in extra.items())),
    )


def _review(kind: Kind, spec: Json) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}


def _attributes(right: AccessRight) -> Json:
    plural, _, subresource = right.resource.partition("/")
    asked = {
        "group": right.group,
        "resource": plural,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": right.namespace,
        "name": right.name,
    }
    return {key: value for key, value in asked.items() if value or key == "group"}


def is_allowed(answer: Mapping[str, Any]) -> bool:
    """Return what an answered review says; `ValueError` for one that does not say."""
    status = answer.get("status")
    found = status.get("allowed") if isinstance(status, dict) else None
    if not isinstance(found, bool):
        raise ValueError("the review was answered without status.allowed")
    return found
