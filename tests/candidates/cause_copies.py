"""The same of the objects that follow a pod: stories and rows."""

from __future__ import annotations

from collections import Counter

from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS, PODS
from controlplane.controllers.candidates.references import controller as copies
from controlplane.controllers.candidates.references.controller import ReferenceController
from controlplane.controllers.candidates.references.decide import NamedObject
from controlplane.controllers.candidates.references.events import (
    COPY_EVENTS,
    CopyDecided,
    CopyDropped,
    CopyGone,
    CopyObserved,
    NamedMissing,
    NamedObserved,
)
from controlplane.controllers.candidates.source import controller as placing
from controlplane.controllers.candidates.source import events
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.delegate_status import DELEGATED, FOLLOWED
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import POD_GROUPS
from controlplane.runtime.hosting import Registration
from controlplane.runtime.router import ControllerRouter
from tests.candidates.cause_stories import R, Row
from tests.candidates.stage import NS
from tests.candidates.test_capabilities import Process
from tests.candidates.told import Told

REFS = [NamedObject("Secret", "keys"), NamedObject("ConfigMap", "files")]


class Following(Told):
    """Pods that name a Secret and a ConfigMap, which follow them."""

    def __init__(self, *targets: str) -> None:
        super().__init__(*targets)
        self.copies = ReferenceController(self.placing)
        self.process = Process(
            ControllerRouter(
                [
                    Registration("candidates", self.placing, placing.OWNS, placing.HEARS),
                    Registration("copies", self.copies, copies.OWNS, copies.HEARS, identities="copies"),
                ]
            ),
            (*SourceController.types, *COPY_EVENTS),
        )
        self.process.versions = Counter()
        self._tell(*targets)

    def _tell(self, *targets: str) -> None:
        self.connect(MANAGEMENT, PODS.name, CANDIDATE_TARGETS.name, POD_GROUPS.name)
        for name in targets:
            self.target(name).connect(name)

    def named(self, name: str, kind: str, version: str = "1") -> Following:
        head = {"namespace": NS, "name": name, "uid": f"u-{name}", "resource_version": version}
        self.put(f"named/{kind}/{NS}/{name}", NamedObserved(**head, kind=kind))
        return self

    def missing(self, name: str, kind: str) -> Following:
        self.put(f"named/{kind}/{NS}/{name}", NamedMissing(namespace=NS, name=name, kind=kind, message="there is none"))
        return self

    def copied(self, name: str, kind: str, followed: str = "1") -> Following:
        head = {"namespace": NS, "name": name, "uid": f"c-{name}", "resource_version": self._version()}
        self.put(f"copies/a/{NS}", CopyObserved(**head, kind=kind, mark="home", followed=followed), "a")
        return self

    def copy_gone(self, name: str, kind: str) -> Following:
        self.put(f"copies/a/{NS}", CopyGone(namespace=NS, name=name, uid=f"c-{name}", kind=kind), "a")
        return self

    def noise(self) -> Told:
        """The other of the two changes, and another pod names the same."""
        self.named("files", "ConfigMap", "9")
        return super().noise()


def following() -> Following:
    told = Following("a")
    told.bound("a", references=REFS)
    told.named("keys", "Secret").named("files", "ConfigMap").settle()
    told.copied("files", "ConfigMap").copied("keys", "Secret").settle()
    return told


def unseen() -> Following:
    """The pod has a place, and what it names was not looked at yet."""
    told = Following("a", "b")
    told.permitted("a", references=REFS[:1])
    return told


def known_here() -> Following:
    """Another pod of the namespace names the same, and has it in another target."""
    told = unseen().named("keys", "Secret")
    told.settle()
    return told.copied("keys", "Secret")


COPIES: list[Row] = [
    (
        CopyDecided,
        R.NAMED_BY_DELEGATE,
        lambda: (
            known_here().asked("other", references=REFS[:1]).reserves("b", "other").settle().cause(events.PermitGranted)
        ),
    ),
    (CopyDecided, R.NAMED_BY_DELEGATE, lambda: unseen().named("keys", "Secret").cause()),
    (CopyDecided, R.NAMED_BY_DELEGATE, lambda: following().named("keys", "Secret", "2").cause()),
    (CopyDecided, R.NAMED_BY_DELEGATE, lambda: following().copy_gone("keys", "Secret").cause()),
    (CopyDropped, R.NOT_NAMED, lambda: following().pod_gone().cause()),
    (CopyDropped, R.NOT_NAMED, lambda: following().missing("keys", "Secret").cause()),
    (events.StatusShown, R.STATUS_CHANGED, lambda: lacking().cause()),
    (events.StatusShown, R.STATUS_CHANGED, lambda: obstructed().named("keys", "Secret", "5").cause()),
]


def told_where(told: Following) -> Following:
    """The pod says where it is bound."""
    last = [row.event for row in told.rows if isinstance(row.event, events.StatusShown)][-1]
    hints = [row.event.hints for row in told.rows if isinstance(row.event, events.DelegateHinted)][-1]
    delegated = Condition(type=DELEGATED, status="True", message=last.mark)
    told.pod(hints=hints, conditions=[delegated, Condition(type="PodScheduled", status="True", message=last.message)])
    told.settle()
    return told


def lacking() -> Following:
    """What the pod names is gone, and then its copy."""
    told = told_where(following()).missing("keys", "Secret")
    told.settle()
    return told.copy_gone("keys", "Secret")


def obstructed() -> Following:
    """The pod says that something cannot follow it."""
    told = lacking()
    told.settle()
    last = [row.event for row in told.rows if isinstance(row.event, events.StatusShown)][-1]
    followed = Condition(type=FOLLOWED, status="False", message=last.obstacles)
    delegated = Condition(type=DELEGATED, status="True", message=last.mark)
    scheduled = Condition(type="PodScheduled", status="True", message=last.message)
    told.pod(conditions=[delegated, scheduled, followed]).settle()
    return told
