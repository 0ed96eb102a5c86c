"""The admission webhook of coscheduling, on what this process has folded: every replica may answer, whether it leads or
follows.

In: AdmissionReviews of TaskRuns, CustomRuns and Pods. Out: answers of coscheduling
(`controlplane.controllers.coscheduling.admission`) in the mode that the run is pinned to. Tekton makes a run's first
TaskRuns within milliseconds, often before the run has come through the log: it is waited for a moment. Whatever stays
in doubt is let through with a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.clock import Clock
from controlplane.controllers.coscheduling.admission import answer
from controlplane.controllers.coscheduling.controller import CoschedulingController
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.objects import (
    ANNOTATION,
    RUN_LABEL,
    annotations_of,
    controller_of,
    labels_of,
)
from controlplane.kube.kinds import PIPELINE_RUNS, Json
from controlplane.telemetry import Metrics

PATH = "/mutate/coscheduling"
_POLL = 0.05


class Admission:
    """Answers reviews. `controller()` is that of the present term, None before the first; `patience` is in seconds."""

    def __init__(
        self, controller: Callable[[], CoschedulingController | None], patience: float, clock: Clock, metrics: Metrics
    ) -> None:
        self._controller, self._patience, self._clock, self._metrics = controller, patience, clock, metrics

    async def __call__(self, review: Json) -> Json:
        """Return the answer to a review; `Refused`, a `ValueError`, if it is none."""
        namespace, name, uid = _run_of(review.get("request"))
        if uid:
            await self._until_pinned(namespace, name, uid)
        controller = self._controller()
        mode = controller.mode_of(namespace, name, uid) if controller is not None else Mode.WORKSPACES
        found: Json = answer(review, mode, controller.find if controller is not None else lambda *_: None)
        response: dict[str, Any] = found["response"]
        result = "patched" if "patch" in response else "unknown" if response.get("warnings") else "unchanged"
        self._metrics.admission_reviews.labels(result=result).inc()
        return found

    async def _until_pinned(self, namespace: str, name: str, uid: str) -> None:
        until = self._clock.monotonic() + self._patience
        while self._clock.monotonic() < until:
            controller = self._controller()
            if controller is not None and controller.is_pinned(namespace, name, uid):
                return
            await self._clock.sleep(_POLL)


def _run_of(request: Any) -> tuple[str, str, str]:
    """Return namespace, name and UID of the run that something created belongs to; the UID is "" where it need not be
    waited for.
    """
    obj = request.get("object") if isinstance(request, dict) else None
    if not isinstance(obj, dict) or request.get("operation") != "CREATE":
        return "", "", ""
    namespace, owner = str(request.get("namespace") or ""), controller_of(obj)
    if owner.get("kind") == PIPELINE_RUNS.kind and ANNOTATION not in annotations_of(obj):
        return namespace, str(owner.get("name") or ""), str(owner.get("uid") or "")
    return namespace, labels_of(obj).get(RUN_LABEL, ""), ""
