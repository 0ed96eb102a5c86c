"""The admission webhook, on what this process has folded: every replica may answer, whether it leads or follows.

In: AdmissionReviews. Out: of jobs, answers of MultiKueue (`controlplane.controllers.multikueue.admission`), and where this
service decides on quota, of the job framework (`controlplane.controllers.jobframework.admission`). Of pods that ask to be
sent to another cluster, answers of candidates (`controlplane.controllers.candidates.source.admission`). Of TaskRuns,
CustomRuns and Pods that belong to a PipelineRun, answers of coscheduling
(`controlplane.controllers.coscheduling.admission`) in the mode that the run is pinned to. Tekton makes a run's first
TaskRuns within milliseconds, often before the run has come through the log: it is waited for a moment. Whatever stays
in doubt is let through with a warning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from controlplane.clock import Clock
from controlplane.controllers.candidates.source.admission import answer as elect
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.coscheduling.admission import answer
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.objects import (
    ANNOTATION,
    RUN_LABEL,
    annotations_of,
    controller_of,
    labels_of,
)
from controlplane.controllers.jobframework.admission import DEFAULT, Defaults, created_as
from controlplane.controllers.multikueue.admission import answer as claim
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.kube.kinds import PIPELINE_RUNS, WORKLOAD_PRIORITY_CLASSES, Json
from controlplane.kube.reviews import json_patch, with_patch
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.values import Value
from controlplane.web.webhook import Answer

if TYPE_CHECKING:
    from controlplane.app.service import Service
    from controlplane.controllers.candidates.source.controller import SourceController
    from controlplane.controllers.coscheduling.controller import CoschedulingController
    from controlplane.controllers.jobframework.controller import JobFrameworkController
    from controlplane.controllers.quota.admission.controller import AdmissionController

PATH = "/mutate/coscheduling"
JOBS_PATH = "/mutate/multikueue"
CANDIDATES_PATH = "/mutate/candidates"
_POLL = 0.05


class Endpoint(Value):
    """Where the webhook is served, with which certificate; `section`: the settings that say so, `key` the one that names
    the certificate."""

    section: str
    key_of_certificate: str
    certificate: str
    key: str
    address: str
    port: int


def endpoint(settings: Settings) -> Endpoint | None:
    """Return where the webhook is to be served, None if nowhere: the older settings of coscheduling count as well."""
    controllers, common, older = settings.run.controllers, settings.webhook, settings.coscheduling
    hooks = {"multikueue", "candidates", "coscheduling"} & set(controllers)
    if common.certificate and (settings.quota.builtin or hooks):
        return Endpoint(
            section="webhook",
            key_of_certificate="webhook.certificate",
            certificate=common.certificate,
            key=common.key,
            address=common.address,
            port=common.port,
        )
    if older.webhook_certificate and "coscheduling" in controllers:
        return Endpoint(
            section="coscheduling.webhook",
            key_of_certificate="coscheduling.webhookCertificate",
            certificate=older.webhook_certificate,
            key=older.webhook_key,
            address=older.webhook_address,
            port=older.webhook_port,
        )
    return None


def answers(settings: Settings, service: Service, clock: Clock, metrics: Metrics) -> Mapping[str, Answer]:
    """Return what answers at which path."""
    patience = settings.coscheduling.webhook_patience.total_seconds()
    found: dict[str, Answer] = {}
    if "coscheduling" in settings.run.controllers:
        found[PATH] = Admission(lambda: service.runs, patience, clock, metrics)
    if ("multikueue" in settings.run.controllers or settings.quota.builtin) and settings.webhook.certificate:
        found[JOBS_PATH] = JobAdmission(lambda: service.fleet, lambda: service.jobs, metrics, lambda: service.admission)
    if "candidates" in settings.run.controllers and settings.webhook.certificate:
        # A service without candidates loads nothing of them.
        from controlplane.controllers.candidates.source.hosting import policy_of

        own = settings.multikueue.namespace
        found[CANDIDATES_PATH] = CandidateAdmission(lambda: service.sources, policy_of(settings), own, metrics)
    return found


class CandidateAdmission:
    """Answers reviews of pods. `controller()` is that of the present term, None before the first; `own` is the namespace
    of the service."""

    def __init__(
        self, controller: Callable[[], SourceController | None], policy: SourcePolicy, own: str, metrics: Metrics
    ) -> None:
        self._controller, self._policy, self._own, self._metrics = controller, policy, own, metrics

    async def __call__(self, review: Json) -> Json:
        """Return the answer to a review; `ValueError` if it is none."""
        controller = self._controller()
        may_send = controller.may_send if controller is not None else lambda _: None
        return _counted(self._metrics, elect(review, self._policy, self._own, may_send))


class JobAdmission:
    """Answers reviews of jobs. `controller()` is that of the present term, None before the first; `jobs()` that which makes
    Workloads of jobs, and `quota()` that which knows LocalQueues, None where Kueue does.
    """

    def __init__(
        self,
        controller: Callable[[], MultiKueueController | None],
        jobs: Callable[[], JobFrameworkController | None],
        metrics: Metrics,
        quota: Callable[[], AdmissionController | None] = lambda: None,
    ) -> None:
        self._controller, self._jobs, self._metrics, self._quota = controller, jobs, metrics, quota

    async def __call__(self, review: Json) -> Json:
        """Return the answer to a review; `ReviewError`, a `ValueError`, if it is none."""
        controller = self._controller()
        if controller is None:
            raise ValueError("this process has not begun to read the log")
        review, patch = self._suspended(review)
        found = claim(review, controller.policy, controller.index.leads_to_us)
        return _counted(self._metrics, with_patch(found, patch))

    def _suspended(self, review: Json) -> tuple[Json, list[Json]]:
        """Return the review of a job that is suspended, and the patch that makes it so."""
        jobs = self._jobs()
        if jobs is None:
            return review, []
        index = jobs.index
        defaults = Defaults(
            queue=self._has_default_queue,
            priority_class=lambda: (WORKLOAD_PRIORITY_CLASSES.name, DEFAULT) in index.catalog.classes,
            looked_after=lambda owner: index.observer.kind_of(owner) is not None,
            selected=index.selected,
            managed=index.manages,
        )
        made = created_as(review, {**jobs.policy.adapters, **jobs.policy.parents}, index.may_belong, defaults)
        if made is None:
            return review, []
        request = review["request"]
        return {**review, "request": {**request, "object": made}}, json_patch(request["object"], made)

    def _has_default_queue(self, namespace: str) -> bool:
        quota = self._quota()
        return quota is not None and f"{namespace}/{DEFAULT}" in quota.index.engine.queues.local


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
        return _counted(self._metrics, found)

    async def _until_pinned(self, namespace: str, name: str, uid: str) -> None:
        until = self._clock.monotonic() + self._patience
        while self._clock.monotonic() < until:
            controller = self._controller()
            if controller is not None and controller.is_pinned(namespace, name, uid):
                return
            await self._clock.sleep(_POLL)


def _counted(metrics: Metrics, found: Json) -> Json:
    response: dict[str, Any] = found["response"]
    result = "patched" if "patch" in response else "unknown" if response.get("warnings") else "unchanged"
    metrics.admission_reviews.labels(result=result).inc()
    return found


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
