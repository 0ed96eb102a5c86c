"""The status of a source pod, made of its delegate's: its phase never goes back.

In: what was shown, what the delegate's status says. Out: the status to write. A phase is never followed by an earlier
one, restart counts never fall (those of delegates before are added), and a pod that has ended, or is being deleted, is
never written to again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from controlplane.controllers.candidates.objects import GROUP
from controlplane.kube.kinds import Json

DELEGATED = f"{GROUP}/Delegated"  # our own condition: which candidate's status this is, or why there is none
FOLLOWED = (
    f"{GROUP}/Followed"  # our own condition: whether the ConfigMaps and Secrets that it names are with its delegate
)
_RANK = {"": 0, "Unknown": 0, "Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}
_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_OURS = frozenset({DELEGATED, FOLLOWED, "PodScheduled"})
_OF_THE_DELEGATE = frozenset(
    {"Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers", "DisruptionTarget"}
)
_REJECTED = "Pod was rejected: "
_NETWORK = ("podIP", "podIPs", "hostIP", "hostIPs")
_WORDS = ("reason", "message")


def rank(phase: str) -> int:
    """Return the order of a phase: 0 before the pod runs, 1 while it runs, 2 after."""
    return _RANK.get(phase, 0)


def later(shown: str, said: str) -> str:
    """Return the phase to show: what is said, unless more was shown already. Whatever has ended stays as it ended."""
    if rank(shown) == 2:
        return shown
    if rank(said) >= rank(shown):
        return said if said in _RANK and said not in ("", "Unknown") else (shown or "Pending")
    return shown


def restarts_of(status: Json) -> dict[str, int]:
    """Return each container's restarts, as a delegate counts them."""
    found = {}
    for field in _LISTS:
        for entry in status.get(field) or []:
            if isinstance(entry, dict) and isinstance(entry.get("restartCount"), int):
                found[str(entry.get("name"))] = int(entry["restartCount"])
    return found


def rejection(status: Json) -> str:
    """Return why the kubelet of a delegate's node would not start it, in its words; "" if it did not refuse.

    Source: kubernetes, pkg/kubelet/kubelet.go, rejectPod (1.36): such a status has a phase, a reason and a message that
    begins so, and no statuses of containers."""
    message = str(status.get("message") or "")
    if status.get("phase") != "Failed" or not message.startswith(_REJECTED) or any(status.get(one) for one in _LISTS):
        return ""
    return f"{status.get('reason') or 'Rejected'}: {message}"


def ended(spec: Json, status: Json) -> list[str]:
    """Return the containers that have ended for good: an API server does not take it that one runs again.

    Source: kubernetes, pkg/apis/core/validation/validation.go, ValidateContainerStateTransition (1.36). Of one that
    starts again by rules about its exit code it is said too."""
    specs = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    policies = {one.get("name"): one.get("restartPolicy") or spec.get("restartPolicy") for one in specs}
    entries = [one for field in _LISTS for one in status.get(field) or () if isinstance(one, dict)]
    return [str(one.get("name")) for one in entries if _is_over(one, str(policies.get(one.get("name"))))]


def _is_over(entry: Json, policy: str) -> bool:
    """Whether a container has ended and is not started again."""
    end = (entry.get("state") or {}).get("terminated")
    return end is not None and (policy == "Never" or (policy == "OnFailure" and not end.get("exitCode")))


def mirrored(
    delegate: Json,
    phase: str,
    containers: set[str],
    restarts: Mapping[str, int],
    *,
    with_network: bool,
    over: Collection[str] = (),
) -> Json:
    """Return the delegate's status as the source pod shows it.

    Only containers that the source pod has; the addresses of another cluster only where its network reaches; nothing
    else that a cluster says of its own pods. PodScheduled is ours. `over`: those that the pod shows as having ended. Of
    one that has not nothing is said, and so its end no more: after that it may be said to run."""
    kept = (*_WORDS, "startTime", *(_NETWORK if with_network else ()))
    status: Json = {key: delegate[key] for key in kept if key in delegate}
    for field in _LISTS:
        entries = [e for e in delegate.get(field) or [] if isinstance(e, dict) and str(e.get("name")) in containers]
        if entries:
            status[field] = [_counted(entry, restarts) for entry in entries if not _revives(entry, over)]
    status["phase"] = phase
    status["conditions"] = [
        entry for entry in delegate.get("conditions") or [] if entry.get("type") in _OF_THE_DELEGATE
    ]
    return status


def _revives(entry: Json, over: Collection[str]) -> bool:
    return entry.get("name") in over and "terminated" not in (entry.get("state") or {})


def _counted(entry: Json, restarts: Mapping[str, int]) -> Json:
    own = entry.get("restartCount")
    more = restarts.get(str(entry.get("name")), 0)
    return {**entry, "restartCount": (own if isinstance(own, int) else 0) + more}


def unsaid(status: Json) -> Json:
    """Return the patch that takes away what a delegate before said and this status does not."""
    return dict.fromkeys((*_WORDS, *_NETWORK)) | status


def stopped(containers: Iterable[str], restarts: Mapping[str, int], reason: str, message: str) -> list[Json]:
    """Return container statuses in which nothing runs: between two delegates of a pod that had started."""
    return [
        {
            "name": name,
            "image": "",
            "imageID": "",
            "ready": False,
            "started": False,
            "restartCount": restarts.get(name, 0),
            "state": {"waiting": {"reason": reason, "message": message}},
        }
        for name in containers
    ]


def with_conditions(foreign: list[Json], wanted: list[Json]) -> list[Json]:
    """Return all conditions: ours and the delegate's as wanted, others' as they are."""
    names = {entry["type"] for entry in wanted} | _OURS | _OF_THE_DELEGATE
    return [entry for entry in foreign if entry.get("type") not in names] + wanted


def condition(kind: str, ok: bool, reason: str, message: str, at: str, before: Mapping[str, Any] | None) -> Json:
    """Return a condition; its transition time stays while its status does."""
    status = "True" if ok else "False"
    same = before is not None and before.get("status") == status and before.get("lastTransitionTime")
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:32768],
        "lastTransitionTime": before["lastTransitionTime"] if same and before is not None else at,
    }
