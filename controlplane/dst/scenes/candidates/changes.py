"""What a user changes of a pod that was sent, and whether its delegate has followed.

In: a step, a pod, a delegate. Out: a strategic merge patch of what Kubernetes lets be changed; in words, what of the
pod its delegate does not have."""

from __future__ import annotations

from controlplane.controllers.candidates import tolerations
from controlplane.controllers.candidates.objects import HINT_TOLERATIONS, ours
from controlplane.dst.engine.steps import Step
from controlplane.kube.kinds import Json, meta


def change_of(step: Step, pod: Json) -> Json:
    """Return the change that a step's `value` says: a label, an annotation, the image, a toleration, a deadline."""
    number = step.number
    more = {"key": f"spot-{number}", "operator": "Exists", "effect": "NoSchedule"}
    changes: list[Json] = [
        {"metadata": {"labels": {"app": f"{step.where}-{number}"}}},
        {"metadata": {"annotations": {"example.com/changed": str(number)}}},
        {"metadata": {"labels": {"app": None, "changed": "yes"}}},
        {"spec": {"containers": [{"name": "main", "image": f"example.com/app:{number}"}]}},
        {"spec": {"activeDeadlineSeconds": 1_000_000 - number}},
        {"spec": {"tolerations": [*(pod["spec"].get("tolerations") or ()), more]}},
    ]
    return changes[step.value % len(changes)]


def unlike(name: str, pod: Json, delegate: Json) -> str:
    """Return in words that a delegate has not followed its pod; "" if it has.

    A pod that was put back to a backup may have lost a deadline or a toleration, which no pod that is there can
    lose."""
    wanted, found = _shown(pod), _shown(delegate)
    marks = {key: found[0].get(key) for key in wanted[0]} == wanted[0] and ("labels/app" in found[0]) == (
        "labels/app" in wanted[0]
    )
    tolerated = all(one in found[2] for one in wanted[2])
    followed = marks and tolerated and found[1] == wanted[1] and _limited(pod, delegate)
    return "" if followed else f"{name} was changed, and its delegate is not"


def _limited(pod: Json, delegate: Json) -> bool:
    """Whether a delegate ends no later than its pod may."""
    wanted, found = (one["spec"].get("activeDeadlineSeconds") for one in (pod, delegate))
    return wanted is None or (found is not None and found <= wanted)


def _shown(pod: Json) -> tuple[dict[str, str], list[str], list[Json]]:
    marks = {
        f"{field}/{key}": value
        for field in ("labels", "annotations")
        for key, value in (meta(pod).get(field) or {}).items()
        if not ours(key)
    }
    images = [one["image"] for one in pod["spec"]["containers"]]
    tolerated = pod["spec"].get("tolerations") or []
    noted = (meta(pod).get("annotations") or {}).get(HINT_TOLERATIONS)
    own = tolerations.restored(tolerated, noted) if noted is not None else tolerated
    return marks, images, own
