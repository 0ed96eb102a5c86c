"""The admission webhook, on what this process has folded: every replica may answer, whether it leads or follows.

In: AdmissionReviews. Out: of jobs, answers of MultiKueue (`controlplane.controllers.multikueue.admission`), and where
this service decides on quota, of the job framework (`controlplane.controllers.jobframework.admission`). Of everything
else, the answers of the controllers' hooks, which their manifests name. Whatever stays in doubt is let through with a
warning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from controlplane.clock import Clock, SystemClock
from controlplane.controllers.jobframework.admission import DEFAULT, Defaults, created_as
from controlplane.controllers.manifests import HOSTED
from controlplane.controllers.multikueue.admission import answer as claim
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import WORKLOAD_PRIORITY_CLASSES, Json
from controlplane.kube.reviews import allowed, json_patch, requested, with_patch
from controlplane.runtime.hosting import Endpoint, ReviewHook
from controlplane.runtime.manifest import Manifest
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.webhook import Answer, MayWait, always

if TYPE_CHECKING:
    from controlplane.app.service import Service
    from controlplane.controllers.jobframework.controller import JobFrameworkController
    from controlplane.controllers.quota.admission.controller import AdmissionController

JOBS_PATH = "/mutate/multikueue"
_POLL = 0.05
_LONGEST = 256  # characters of a warning that an API server passes on whole
_PATIENCE = 2.0
"""For how many seconds an answer waits for what it rests on, of the five that an API server waits for one."""


def endpoint(settings: Settings) -> Endpoint | None:
    """Return where the webhook is to be served, None if nowhere: a controller's own settings for that count as well."""
    common = settings.webhook
    if common.certificate and (_admits_jobs(settings) or _hooked(settings)):
        return Endpoint(
            section="webhook",
            key_of_certificate="webhook.certificate",
            certificate=common.certificate,
            key=common.key,
            address=common.address,
            port=common.port,
        )
    own = (one.endpoint(settings) for one in HOSTED if one.endpoint is not None)
    return next((one for one in own if one is not None), None)


def _admits_jobs(settings: Settings) -> bool:
    return "multikueue" in settings.run.controllers or settings.quota.builtin


def _hooked(settings: Settings) -> list[Manifest]:
    """Return the controllers that are on and answer reviews. One that is off is not loaded."""
    policy = None  # none of them asks for that of Workloads
    return [one for one in HOSTED if one.hook is not None and one.runs(settings, policy)]


def answers(settings: Settings, service: Service, clock: Clock, metrics: Metrics) -> Mapping[str, Answer]:
    """Return what answers at which path."""
    hooks = [one.hook.load()(settings, service.find) for one in _hooked(settings) if one.hook is not None]
    found: dict[str, Answer] = {hook.path: Reviews(hook, clock, metrics) for hook in hooks if hook is not None}
    if _admits_jobs(settings) and settings.webhook.certificate:
        found[JOBS_PATH] = JobAdmission(
            lambda: service.fleet, lambda: service.jobs, metrics, lambda: service.admission, clock
        )
    return found


class Reviews:
    """Answers reviews by a controller's hook. What it has not heard of yet is waited for."""

    def __init__(self, hook: ReviewHook, clock: Clock, metrics: Metrics) -> None:
        self._hook, self._clock, self._metrics = hook, clock, metrics

    async def __call__(self, review: Json, may_wait: MayWait = always) -> Json:
        """Return the answer to a review; `ValueError` if it is none."""
        until = self._clock.monotonic() + self._hook.patience
        while self._clock.monotonic() < until and not self._knows(review) and may_wait():
            await self._clock.sleep(_POLL)
        return _counted(self._metrics, _answered(review, self._hook.answer))

    def _knows(self, review: Json) -> bool:
        """Whether what a review rests on is known; nothing is waited for whose object cannot be read."""
        try:
            return self._hook.knows(review)
        except UNFIT:
            return True


class JobAdmission:
    """Answers reviews of jobs. `controller()` is that of the present term, None before the first; `jobs()` that which
    makes Workloads of jobs, and `quota()` that which knows LocalQueues, None where Kueue does.

    Where a queue leads that was created just before, or that a process that has just started has not read yet, is
    waited for a little: a pod is created once, and one without its gate is rejected for good.
    """

    def __init__(
        self,
        controller: Callable[[], MultiKueueController | None],
        jobs: Callable[[], JobFrameworkController | None],
        metrics: Metrics,
        quota: Callable[[], AdmissionController | None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        self._controller, self._jobs, self._metrics, self._quota = controller, jobs, metrics, quota
        self._clock = clock or SystemClock()

    async def __call__(self, review: Json, may_wait: MayWait = always) -> Json:
        """Return the answer to a review; `ReviewError`, a `ValueError`, if it is none."""
        until, last = self._clock.monotonic() + _PATIENCE, False
        while (found := self._answer(review, last=last)) is None:
            last = not may_wait()
            if not last:
                await self._clock.sleep(_POLL)
                last = self._clock.monotonic() >= until
        return _counted(self._metrics, found)

    def _answer(self, review: Json, *, last: bool) -> Json | None:
        """Return the answer on what is known now; None where more may be known soon, unless this is the last time."""
        controller, unknown = self._controller(), False
        if controller is None:
            if last:
                raise ValueError("this process has not begun to read the log")
            return None

        def leads(namespace: str, queue: str) -> bool | None:
            nonlocal unknown
            ours = controller.index.leads_to_us(namespace, queue)
            unknown = unknown or ours is None
            return ours

        def answered(asked: Json) -> Json:
            made, patch = self._suspended(asked)
            return with_patch(claim(made, controller.policy, leads), patch)

        found = _answered(review, answered)
        return found if last or not unknown else None

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
            of_set=index.sets.labels_for,
        )
        made = created_as(review, {**jobs.policy.adapters, **jobs.policy.parents}, index.may_belong, defaults)
        if made is None:
            return review, []
        request = review["request"]
        return {**review, "request": {**request, "object": made}}, json_patch(request["object"], made)

    def _has_default_queue(self, namespace: str) -> bool:
        quota = self._quota()
        return quota is not None and f"{namespace}/{DEFAULT}" in quota.index.engine.queues.local


def _answered(review: Json, answer: Callable[[Json], Json]) -> Json:
    """Return the answer to a review, which lets through with a warning what cannot be read; `ValueError` if it is no
    review.
    """
    try:
        return answer(review)
    except UNFIT as error:  # the API server refuses it, or knows better
        request = requested(review)
        if request is None:
            raise
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return allowed(request, [], [f"it was not looked at by the webhook of controlplane: {said}"[:_LONGEST]])


def _counted(metrics: Metrics, found: Json) -> Json:
    response: dict[str, Any] = found["response"]
    result = "patched" if "patch" in response else "unknown" if response.get("warnings") else "unchanged"
    metrics.admission_reviews.labels(result=result).inc()
    return found
