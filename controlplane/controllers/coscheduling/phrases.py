"""The words of coscheduling: what each event says, in a few words, and why each decision was taken.

In: an event of `controlplane.controllers.coscheduling`. Out: one short line, as `controlplane.audit.words` has them,
and a clause that completes "because …". A test sees to it that no event and no reason is missing."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.coscheduling import events, observations
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, Sentence, told

RUN_EVENTS: tuple[type[Event], ...] = events.EVENTS


def _run(event: observations.WorkerRunObserved) -> str:
    if event.deleting:
        return "run is being deleted"
    if event.done:
        return "run is over"
    return "run waits" if event.waits else "run is under way"


def _node(event: observations.NodeObserved) -> str:
    taints = ", ".join(f"{one.key}:{one.effect}" for one in event.taints)
    state = "is cordoned" if event.cordoned else "takes pods"
    return f"node {event.name} {state}" + (f" (taints {taints})" if taints else "")


def _task_pod(event: observations.TaskPodObserved) -> str:
    if event.over:
        return f"task's pod {event.name} is over"
    if event.node:
        return f"task's pod {event.name} is on node {event.node}"
    return f"task's pod {event.name} waits" + (f": {event.complaint}" if event.complaint else "")


def _made(what: str, event: observations.CoschedulingObservation) -> str:
    return f"{what} {event.name} {'is being deleted' if event.deleting else 'is there'}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        observations.WorkerRunObserved: _run,
        observations.WorkerRunGone: "run is gone",
        observations.PlaceholderCreated: lambda e: _made("placeholder", e),
        observations.PlaceholderDeleted: "placeholder {e.name} is gone",
        observations.PlaceholderReady: "placeholder's pod {e.name} is ready on node {e.node}",
        observations.PlaceholderUnready: lambda e: (
            f"placeholder's pod {e.name} is not ready" + (f": {e.complaint}" if e.complaint else "")
        ),
        observations.PlaceholderPodGone: "placeholder's pod {e.name} is gone",
        observations.ClaimObserved: lambda e: _made("claim", e),
        observations.ClaimDeleted: "claim {e.name} is gone",
        observations.TaskBound: lambda e: (
            f"task {e.task or e.name} " + (f"follows {e.placeholder}" if e.placeholder else "follows no placeholder")
        ),
        observations.TaskGone: "TaskRun {e.name} is gone",
        observations.TaskPodObserved: _task_pod,
        observations.TaskPodGone: "task's pod {e.name} is gone",
        observations.NodeObserved: _node,
        observations.NodeGone: "node {e.name} is gone",
        observations.VolumeObserved: lambda e: (
            f"volume {e.name} is bound to claim {e.claim_namespace}/{e.claim}"
            if e.claim
            else f"volume {e.name} is free"
        ),
        observations.VolumeGone: "volume {e.name} is gone",
        observations.FlagsObserved: lambda e: f"flag coschedule is {e.data.get('coschedule', 'not set')}",
        observations.FlagsGone: "ConfigMap feature-flags is gone",
        observations.DefaultsObserved: lambda e: (
            "ConfigMap config-defaults " + ("cannot be used" if e.problems else "is there")
        ),
        observations.DefaultsGone: "ConfigMap config-defaults is gone",
        observations.SightingRefused: "{e.kind} {e.namespace}/{e.name} cannot be understood: {e.error}",
        events.ClusterChosen: "attempt {e.attempt} begins",
        events.ModePinned: lambda e: f"mode is {e.mode}" + (f", beside placeholder {e.follows}" if e.follows else ""),
        events.RunRefused: "run is to say {e.condition_reason}: {e.message}",
        events.RefusalWithdrawn: "run is to say no more that it cannot be placed",
        events.ClaimCreationDecided: "claim {e.name} is to be created for workspace {e.workspace}",
        events.PlaceholderCreationDecided: "placeholder {e.name} is to be created",
        events.PlaceholderEvicted: "placeholder's pod is to leave node {e.node}",
        events.UnfitTaskTold: "run is to say {e.condition_reason}: {e.message}",
        events.TaskEndDecided: "TaskRun {e.name} is to end: it can never run on node {e.node}",
        events.RunCompleted: "what was made for the run is to go",
        events.AttemptFenced: "an older attempt is over",
        events.PlaceholderRemovalDecided: "placeholder {e.name} is to be removed",
        events.ClaimReleaseDecided: "claim {e.name} is to be let go",
        events.ClaimRemovalDecided: "claim {e.name} is to be removed",
        events.FlagsRefused: "ConfigMap cannot be used: {e.message}",
        events.CoschedulingFailed: lambda e: f"write refused ({f'{e.code} {e.error}'.strip()})",
        events.CoschedulingUnneeded: "write changed nothing",
    }
)

R = CoschedulingReason
REASONS: Mapping[CoschedulingReason, Sentence] = {
    R.RUN_STARTED: Sentence("the run begins, and keeps its mode", "the run begins, and keeps its mode"),
    R.SEEN_HERE: Sentence("the run was seen in this cluster", "the run was seen in this cluster"),
    R.PARENT_IS_ISOLATED: Sentence(
        "the run is a task of an isolated one, and shares its placeholder",
        "it is a task of an isolated run, and shares its placeholder",
    ),
    R.RUN_FINISHED: Sentence("the run is over", "the run is over"),
    R.RUN_DELETED: Sentence("the run was deleted", "the run was deleted"),
    R.RECREATED: Sentence("another run has its name now", "another run has its name now"),
    R.WORKSPACE_HAS_A_CLAIM: Sentence("a workspace has a claim", "a workspace has a claim"),
    R.ONE_PER_RUN: Sentence("in this mode a run has one placeholder", "in its mode a run has one placeholder"),
    R.CLAIM_FROM_TEMPLATE: Sentence(
        "a workspace asks for a claim of its own", "workspace {workspace} asks for a claim"
    ),
    R.BAD_INPUT: Sentence("the run cannot be used as it is", "it cannot be used as it is: {message}"),
    R.SEVERAL_CLAIMS: Sentence("a task uses several claims, which this mode refuses", "{message}"),
    R.VOLUMES_APART: Sentence("no node reaches all of the run's volumes", "no node reaches all volumes: {message}"),
    R.NOTHING_IN_THE_WAY: Sentence("what was refused is possible now", "what was refused is possible now"),
    R.BAD_FLAGS: Sentence("a ConfigMap holds something that is none of its values", "{message}"),
    R.NODE_CORDONED: Sentence("the placeholder's node was cordoned", "node {node} was cordoned"),
    R.TAINT_NOT_TOLERATED: Sentence(
        "the placeholder's node has a taint that it does not tolerate", "node {node} has a taint: {detail}"
    ),
    R.POD_LIMIT: Sentence("the placeholder takes the last place on its node", "node {node} is full: {detail}"),
    R.TASK_EXCLUDED: Sentence("the placeholder's node can never take a task, and another one can", "{detail}"),
    R.TASK_NEVER_FITS: Sentence("a task can never run beside the others", "{message}"),
    R.TEMPLATE_CLAIM: Sentence("it was made from a template for this run alone", "it was made for this run alone"),
    R.AUTO_CLEANUP: Sentence(
        "the run asks for it (`tekton.dev/auto-cleanup-pvc`)", "the run asks for it (tekton.dev/auto-cleanup-pvc)"
    ),
    R.ATTEMPT_OVER: Sentence("the run it was made for is over", "the run it was made for is over"),
    R.CLAIM_MISSING: Sentence("the cluster lacks a claim that the run names", "the cluster lacks a claim of the run"),
    R.STORAGE_CLASS_MISSING: Sentence("the cluster lacks a storage class", "the cluster lacks a storage class"),
    R.MODE_DIFFERS: Sentence("the cluster has another mode", "the cluster has another mode"),
    R.NO_NODE_FITS: Sentence("no node holds the largest wave of tasks", "no node holds the largest wave of tasks"),
    R.NO_POD_SLOT: Sentence("no node has places for the largest wave", "no node has places for the largest wave"),
    R.PIPELINE_MISSING: Sentence(
        "the cluster lacks the Pipeline that the run names", "the cluster lacks the Pipeline of the run"
    ),
    R.TASK_MISSING: Sentence(
        "the cluster lacks a Task that the pipeline names", "the cluster lacks a Task of the pipeline"
    ),
    R.EVERY_NODE_HAS_A_RUN: Sentence("every node has a run already", "every node has a run already"),
}


def run_because(decision: events.CoschedulingDecision) -> str:
    """Return why a decision about a run was taken, to follow "because"."""
    names = ("message", "node", "detail", "workspace")
    return REASONS[decision.reason].clause.format_map({name: str(getattr(decision, name, "")) for name in names})
