"""The front proxy of an API server: by what it is known to servers behind it, and whom it says a request comes from
(https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/#kubernetes-apiserver-client-authentication).

In: the ConfigMap `extension-apiserver-authentication`, and the headers of a request. Out: a `FrontProxy`, and a
`UserInfo`. Raises `ValueError` for a ConfigMap that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import msgspec

from controlplane.kube.kinds import Json
from controlplane.values import Value

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
MASTERS = "system:masters"
_ANONYMOUS = "system:anonymous"
_AUTHENTICATED, _UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"


class UserInfo(Value):
    """Who asks, as an API server knows it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class FrontProxy(Value):
    """By which authority's certificates (PEM) a front proxy is known, under which common names (none: any), and in
    which headers it says who asks."""

    authority: str
    names: tuple[str, ...] = ()
    user_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    def admits(self, common_name: str) -> bool:
        """Whether a certificate with that common name is the front proxy's, if the authority has signed it."""
        return not self.names or common_name in self.names

    def user(self, headers: Iterable[tuple[str, str]]) -> UserInfo | None:
        """Return who asks, by the headers of a request; None if they do not say it."""
        given: dict[str, list[str]] = {}
        for name, value in headers:
            given.setdefault(name.lower(), []).append(value)
        user = _first(given, self.user_headers)
        if not user:
            return None
        groups = tuple(value for name in self.group_headers for value in given.get(name.lower(), ()) if value)
        return UserInfo(
            name=user, uid=_first(given, self.uid_headers), groups=known_groups(user, groups), extra=self._extra(given)
        )

    def _extra(self, given: Mapping[str, list[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        for prefix in (one.lower() for one in self.extra_prefixes):
            for name, values in given.items():
                if name.startswith(prefix):
                    found.setdefault(unquote(name.removeprefix(prefix)), []).extend(values)
        return tuple(sorted((key, tuple(values)) for key, values in found.items()))


def front_proxy(config_map: Json) -> FrontProxy:
    """Return the front proxy that a ConfigMap describes."""
    data = config_map.get("data")
    data = data if isinstance(data, dict) else {}
    authority = data.get("requestheader-client-ca-file")
    if not isinstance(authority, str) or not authority.strip():
        raise ValueError("it names no requestheader-client-ca-file: the API server has no front proxy")
    found = FrontProxy(
        authority=authority,
        names=_names(data, "requestheader-allowed-names"),
        user_headers=_names(data, "requestheader-username-headers"),
        uid_headers=_names(data, "requestheader-uid-headers"),
        group_headers=_names(data, "requestheader-group-headers"),
        extra_prefixes=_names(data, "requestheader-extra-headers-prefix"),
    )
    if not found.user_headers:
        raise ValueError("it names no requestheader-username-headers")
    return found


def access_review(user: UserInfo, asked: Json) -> Json:
    """Return the SubjectAccessReview that asks whether a user may do what `asked` says, a part of its spec."""
    spec: Json = {"user": user.name, "groups": list(user.groups), **asked}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def _names(data: Mapping[str, object], key: str) -> tuple[str, ...]:
    """Return a list of names, which is JSON in a text; empty where it is absent."""
    text = data.get(key)
    if not text:
        return ()
    try:
        return tuple(msgspec.json.decode(str(text), type=list[str]))
    except msgspec.DecodeError:
        raise ValueError(f"{key} is no list of names in JSON") from None


def _first(given: Mapping[str, list[str]], headers: Iterable[str]) -> str:
    return next((values[0] for name in headers if (values := given.get(name.lower())) and values[0]), "")


def known_groups(user: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups of a user, by those that a proxy names; everybody who is authenticated is in one."""
    if user == _ANONYMOUS or _AUTHENTICATED in groups or _UNAUTHENTICATED in groups:
        return groups
    return (*groups, _AUTHENTICATED)
