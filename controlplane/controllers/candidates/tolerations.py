"""The tolerations with which a source pod stays on a virtual Node that is not ready.

In: a pod's tolerations. Out: those by which no taint of the node controller evicts it, and back. An API server lets
`tolerationSeconds` of a pod be changed and tolerations be added, nothing else (kubernetes 1.36,
pkg/apis/core/validation, validateOnlyAddedTolerations); the taint eviction controller goes by the first that matches
(component-helpers/scheduling/corev1, GetMatchingTolerations)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controlplane.kube.kinds import Json
from controlplane.kube.tolerations import NO_EXECUTE

_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def unlimited(given: Sequence[Json]) -> list[Json]:
    """Return tolerations by which a pod stays however long its Node is not ready, or not reachable."""
    kept = [
        {key: value for key, value in one.items() if key != "tolerationSeconds"} if _limits(one) else dict(one)
        for one in given
    ]
    missing = [key for key in _KEYS if not any(_tolerates(one, key) for one in kept)]
    return kept + [{"key": key, "operator": "Exists", "effect": NO_EXECUTE} for key in missing]


def restored(shown: Sequence[Json], noted: str) -> list[Json]:
    """Return what a pod's own tolerations are, by what it had before (JSON) and what it shows: those that were added
    since are kept. A note that cannot be read changes nothing."""
    try:
        before = msgspec.json.decode(noted.encode(), type=list[Json])
    except msgspec.DecodeError:
        return list(shown)
    ours = unlimited(before)
    return [*before, *(one for one in shown if one not in ours)]


def _limits(one: Json) -> bool:
    return one.get("tolerationSeconds") is not None and str(one.get("key", "")) in ("", *_KEYS)


def _tolerates(one: Json, key: str) -> bool:
    """Whether a toleration is of a taint without a value, with that key and the effect NoExecute."""
    if one.get("effect", "") not in ("", NO_EXECUTE) or one.get("key", "") not in ("", key):
        return False
    return one.get("operator") == "Exists" or bool(one.get("key") and not one.get("value"))
