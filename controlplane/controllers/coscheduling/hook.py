"""Answers the admission hook by what has been folded: TaskRuns, CustomRuns and Pods that belong to a PipelineRun, in
the mode that the run is pinned to (`controlplane.controllers.coscheduling.admission`).

In: settings, and how to find the controller. Out: a `ReviewHook`. Tekton makes a run's first TaskRuns within
milliseconds, often before the run has come through the log: it is waited for a moment."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.coscheduling.admission import answer
from controlplane.controllers.coscheduling.controller import CoschedulingController
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.objects import RUN_LABEL, annotations_of, controller_of, labels_of
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from controlplane.kube.kinds import PIPELINE_RUNS, Json
from controlplane.runtime.hosting import FindController, ReviewHook
from controlplane.settings.model import Settings

PATH = "/mutate/coscheduling"


def hook(settings: Settings, find: FindController) -> ReviewHook:
    """Return what answers."""

    def knows(review: Json) -> bool:
        namespace, name, uid = _run_of(review.get("request"))
        controller = find(CoschedulingController)
        return not uid or (controller is not None and controller.is_pinned(namespace, name, uid))

    def answered(review: Json) -> Json:
        controller = find(CoschedulingController)
        if controller is None:
            return answer(review, Mode.WORKSPACES, lambda *_: None)
        return answer(review, controller.mode_of(*_run_of(review.get("request"))), controller.find)

    patience = settings.coscheduling.webhook_patience.total_seconds()
    return ReviewHook(path=PATH, answer=answered, knows=knows, patience=patience)


def _run_of(request: Any) -> tuple[str, str, str]:
    """Return namespace, name and UID of the run that something created belongs to; the UID is "" where it need not be
    waited for.
    """
    obj = request.get("object") if isinstance(request, dict) else None
    if not isinstance(obj, dict) or request.get("operation") != "CREATE":
        return "", "", ""
    namespace, owner = str(request.get("namespace") or ""), controller_of(obj)
    if owner.get("kind") == PIPELINE_RUNS.kind and AFFINITY_ASSISTANT not in annotations_of(obj):
        return namespace, str(owner.get("name") or ""), str(owner.get("uid") or "")
    return namespace, labels_of(obj).get(RUN_LABEL, ""), ""
