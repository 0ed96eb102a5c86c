"""What was made again under its name stays known when the end of the one before is told after it, as it is where nobody
knew whether an append had come about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from controlplane.controllers.candidates.nodes import events as virtual_nodes
from controlplane.controllers.candidates.source import targets
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.candidates.target import events as of_target
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.coscheduling import observations as coscheduling
from controlplane.controllers.coscheduling.claim_volumes import ClaimVolumes
from controlplane.controllers.coscheduling.controller import CoschedulingController, CoschedulingPolicy
from controlplane.controllers.coscheduling.feasibility import events as feasibility
from controlplane.controllers.coscheduling.feasibility.workers import WorkerCapacity
from controlplane.controllers.coscheduling.flags import Flags
from controlplane.controllers.coscheduling.tekton_config import TektonConfig
from controlplane.controllers.quota.admission import events as admission
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.log.event import Event, Recorded
from controlplane.runtime.observations import ObjectObserved, ObjectVanished
from tests.support.rows import each

AT = datetime(2026, 1, 1, tzinfo=UTC)
NEW = {"name": "one", "uid": "new", "resource_version": "9"}


class Known(NamedTuple):
    """What folds events, and what it knows of the object."""

    fold: Callable[[Recorded], object]
    known: Callable[[], object]


def _namespaces() -> Known:
    index = AdmissionIndex(EngineSettings())
    return Known(index.fold, lambda: index.engine.snapshot.namespaces.get("one"))


def _volumes() -> Known:
    volumes: Any = ClaimVolumes()
    return Known(lambda recorded: volumes.fold(recorded, "one"), lambda: volumes._volumes.get("one"))


def _worker(kind: str) -> Callable[[], Known]:
    def make() -> Known:
        worker = WorkerCapacity("a")
        return Known(worker.fold, lambda: getattr(worker, kind).get("one"))

    return make


def _nodes() -> Known:
    controller = CoschedulingController(CoschedulingPolicy(), "me")
    return Known(controller.fold, lambda: controller.nodes.get("one"))


def _flags() -> Known:
    config = TektonConfig(old_worker=False)
    return Known(config.fold, lambda: config.flags if config.flags != Flags() else None)


def _defaults() -> Known:
    config = TektonConfig(old_worker=False)
    return Known(config.fold, lambda: config.defaults or None)


def _worker_flags() -> Known:
    worker: Any = WorkerCapacity("a")
    return Known(worker.fold, lambda: worker._flags if worker._flags != Flags() else None)


def _targets() -> Known:
    controller = SourceController(SourcePolicy(cluster="home"), "me")
    return Known(controller.fold, lambda: controller._own.get("ns", {}).get("one"))


def _sources() -> Known:
    controller = SourceController(SourcePolicy(cluster="home"), "me", labelled=True)
    return Known(controller.fold, lambda: controller._namespaces.get("one"))


def _virtual_nodes() -> Known:
    controller = SourceController(SourcePolicy(cluster="home"), "me")
    return Known(controller.fold, lambda: controller.nodes.get("a"))


def _invitations() -> Known:
    controller = TargetController(TargetPolicy())
    return Known(controller.fold, lambda: controller.invitations.get("invitation/ns/one"))


ROWS: dict[str, tuple[Callable[[], Known], str, ObjectObserved, type[ObjectVanished]]] = {
    "a namespace": (
        _namespaces,
        "admission/namespace/one",
        admission.AdmissionNamespaceObserved(**NEW, labels={"team": "a"}),
        admission.AdmissionNamespaceGone,
    ),
    "a node": (
        _nodes,
        "node/one",
        coscheduling.NodeObserved(**NEW, cordoned=True),
        coscheduling.NodeGone,
    ),
    "a target": (
        _targets,
        "candidatetarget/ns/one",
        targets.CandidateTargetObserved(**NEW, namespace="ns", cluster="a"),
        targets.CandidateTargetGone,
    ),
    "a namespace that sends": (
        _sources,
        "sourcenamespace/one",
        targets.SourceNamespaceObserved(**NEW),
        targets.SourceNamespaceGone,
    ),
    "a virtual Node": (
        _virtual_nodes,
        "virtualnode/a",
        virtual_nodes.VirtualNodeObserved(**NEW, target="a", status=virtual_nodes.VirtualNodeStatus()),
        virtual_nodes.VirtualNodeGone,
    ),
    "an invitation": (
        _invitations,
        "invitation/ns/one",
        of_target.InvitationObserved(**NEW, namespace="ns", cluster="home"),
        of_target.InvitationGone,
    ),
    "the feature flags": (
        _flags,
        "coscheduling/flags",
        coscheduling.FlagsObserved(**NEW, data={"coschedule": "pipelineruns"}),
        coscheduling.FlagsGone,
    ),
    "the defaults": (
        _defaults,
        "coscheduling/defaults",
        coscheduling.DefaultsObserved(**NEW, defaults="a" * 64),
        coscheduling.DefaultsGone,
    ),
    "the feature flags of a worker": (
        _worker_flags,
        "worker/a/flags",
        feasibility.WorkerFlagsObserved(**NEW, data={"coschedule": "pipelineruns"}),
        feasibility.WorkerFlagsGone,
    ),
    "a volume": (
        _volumes,
        "volume/one",
        coscheduling.VolumeObserved(**NEW, claim_namespace="ns", claim="data"),
        coscheduling.VolumeGone,
    ),
    "a node of a worker": (
        _worker("_nodes"),
        "worker/a/node/one",
        feasibility.WorkerNodeObserved(**NEW, allocatable={"cpu": "1"}),
        feasibility.WorkerNodeGone,
    ),
    "a storage class of a worker": (
        _worker("_classes"),
        "worker/a/class/one",
        feasibility.WorkerClassObserved(**NEW, late=True),
        feasibility.WorkerClassGone,
    ),
}


def _recorded(position: int, stream: str, event: Event) -> Recorded:
    return Recorded(position=position, stream=stream, version=position, event=event, observed_at=AT, recorded_at=AT)


@each("row", ROWS.values(), ids=ROWS)
def test_what_is_gone_is_so_by_its_uid(
    row: tuple[Callable[[], Known], str, ObjectObserved, type[ObjectVanished]],
) -> None:
    make, stream, seen, gone = row
    it = make()
    it.fold(_recorded(1, stream, seen))
    known = it.known()
    assert known is not None
    for position in (2, 3):
        it.fold(_recorded(position, stream, gone(namespace=seen.namespace, name="one", uid="old")))
        assert it.known() == known
    it.fold(_recorded(4, stream, gone(namespace=seen.namespace, name="one", uid="new")))
    assert it.known() is None
