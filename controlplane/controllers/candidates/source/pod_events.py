"""The Kubernetes Event that tells of a decision about a pod.

In: what it is about, and a key that makes its name unique. Out: the request that creates it. Sent twice, the second
is refused by its name."""

from __future__ import annotations

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.delegate_status import FOLLOWED
from controlplane.controllers.candidates.source.events import StatusShown
from controlplane.controllers.candidates.source.observations import SourcePodObserved


def news(pod: SourcePodObserved, decision: StatusShown) -> tuple[str, str, str] | None:
    """Return type, reason and note of the Event that a status is worth; None if the pod shows already what is new in
    it.
    """
    if decision.reason == CandidateReason.DELEGATE_STOPPED:
        return None
    shown = {entry.type: entry.message for entry in pod.conditions}
    if shown.get("PodScheduled") != decision.message:
        good = bool(decision.source) and not decision.failed
        reason = "Scheduled" if good else "DelegateLost" if decision.failed else "FailedScheduling"
        note = decision.message if good else f"{decision.reason}: {decision.message}"
        return "Normal" if good else "Warning", reason, note
    if decision.obstacles and shown.get(FOLLOWED) != decision.obstacles:
        return "Warning", "NotFollowed", decision.obstacles
    return None
