"""What an API server takes as the next status of a Pod: a container that has ended for good does not run again.

In: the stored Pod and the one whose status is to be stored. Out: nothing, or 422 `Invalid` with the fields. Rules:
`ValidatePodStatusUpdate` in `pkg/apis/core/validation/validation.go` (1.36.2), of the states and the class of quality;
containers that have rules of their own for being restarted are let be."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.kube.kinds import PODS, Json, meta
from controlplane.simulation.apiserver.errors import Cause, invalid

_LISTS = ("containerStatuses", "initContainerStatuses")


def check_pod_status(old: Json, new: Json) -> None:
    """Refuse a status that takes an end back, or says that the pod is of another class of quality."""
    before, after = old.get("status") or {}, new.get("status") or {}
    causes = [Cause(f"status.{field}", "FieldValueForbidden", text) for field, text in _revived(old, before, after)]
    if before.get("qosClass") != after.get("qosClass"):
        text = f'Invalid value: "{after.get("qosClass")}": field is immutable'
        causes.append(Cause("status.qosClass", "FieldValueInvalid", text))
    if causes:
        raise invalid(PODS, meta(new).get("name", ""), causes)


def _revived(pod: Json, before: Json, after: Json) -> Iterator[tuple[str, str]]:
    """The containers that have ended for good and are said not to have, by field."""
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    own, policy = {one["name"] for one in containers if _rules(one)}, spec.get("restartPolicy", "Always")
    for field in _LISTS:
        ended = {one["name"] for one in before.get(field) or () if _ended(one, policy)} - own
        for index, one in enumerate(after.get(field) or ()):
            if one.get("name") in ended and _end(one) is None:
                yield f"{field}[{index}].state", "Forbidden: may not be transitioned to non-terminated state"


def _rules(container: Json) -> bool:
    return bool(container.get("restartPolicy") or container.get("restartPolicyRules"))


def _end(status: Json) -> Json | None:
    found: Json | None = (status.get("state") or {}).get("terminated")
    return found


def _ended(status: Json, policy: str) -> bool:
    end = _end(status)
    return end is not None and (policy == "Never" or (policy == "OnFailure" and not end.get("exitCode")))
