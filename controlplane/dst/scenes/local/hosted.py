"""The controllers of one's own cluster, as the scene hosts them: their settings, what they wrote on the objects that
they made, and what is asked of them.

In: objects, events, hosted controllers. Out: what the scene and its rules have to know."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from controlplane.app.hosted import HostedControllers
from controlplane.controllers.coscheduling.controller import CoschedulingController
from controlplane.controllers.coscheduling.events import ModePinned
from controlplane.controllers.coscheduling.flags import FLAGS_NAME, FLAGS_NAMESPACE
from controlplane.controllers.coscheduling.names import COMPONENT, placeholder_name
from controlplane.controllers.coscheduling.objects import COMPONENT_LABEL, INSTANCE_LABEL, RUN_LABEL
from controlplane.controllers.podgroups import rules
from controlplane.controllers.podgroups.controller import PodGroupController
from controlplane.controllers.podgroups.objects import GROUP_NAME, MIN_MEMBER
from controlplane.controllers.podgroups.observe import PROBLEM_NOTE
from controlplane.controllers.podgroups.phases import expires_at
from controlplane.kube.kinds import Json, meta
from controlplane.log.event import Event, Unknown
from controlplane.settings import Settings
from controlplane.settings.coscheduling import CoschedulingSettings
from controlplane.settings.model import RunSettings

C = TypeVar("C")
SETTINGS = msgspec.structs.replace(
    Settings(),
    run=RunSettings(controllers=("podgroups", "coscheduling")),
    coscheduling=CoschedulingSettings(image="example.com/nop:1"),
)
RULES, RULES_KEY = (rules.NAME, rules.NAMESPACE), rules.DATA_KEY
"""Name and namespace of the ConfigMap with the rules of PodGroups, and its key."""
FLAG = (FLAGS_NAME, FLAGS_NAMESPACE)
"""Name and namespace of the ConfigMap with Tekton's flag."""


def labels_of(obj: Json) -> Json:
    """Return an object's labels."""
    return meta(obj).get("labels") or {}


def notes_of(obj: Json) -> Json:
    """Return an object's annotations."""
    return meta(obj).get("annotations") or {}


def is_placeholder(labels: Any) -> bool:
    """Whether something was made to keep the pods of a run together, or as a claim of such."""
    return bool(labels.get(COMPONENT_LABEL) == COMPONENT)


def placeholder_in(labels: Any) -> str:
    """Return the placeholder that a pod of one belongs to."""
    return str(labels.get(INSTANCE_LABEL) or "")


def run_in(labels: Any) -> str:
    """Return the run that something belongs to; "" if to none."""
    return str(labels.get(RUN_LABEL) or "")


def placeholder_of(run_name: str) -> str:
    """Return the name of a run's placeholder where there is one for the whole run."""
    return placeholder_name("", run_name)


def pinned_by(event: Event | Unknown) -> tuple[str, str] | None:
    """Return the UID of the run whose mode an event pins, and the mode; None if it pins none."""
    return (event.uid, event.mode) if isinstance(event, ModePinned) else None


def group_of(obj: Json) -> str:
    """Return the PodGroup that a pod names; "" if none."""
    return str(notes_of(obj).get(GROUP_NAME) or "")


def problem_of(pod: Json) -> str:
    """Return what a pod says of why it has no group."""
    return str(notes_of(pod).get(PROBLEM_NOTE) or "")


def asks_for(members: int) -> Json:
    """Return metadata by which an owner asks for a quorum."""
    return {"annotations": {MIN_MEMBER: str(members)}} if members else {}


def member_of(group: str) -> Json:
    """Return metadata of a pod that names its group."""
    return {"annotations": {GROUP_NAME: group}}


def groups_in(hosted: HostedControllers) -> PodGroupController:
    """Return the controller of PodGroups."""
    return _found(hosted, PodGroupController)


def falling_back(groups: PodGroupController) -> Iterator[tuple[str, datetime]]:
    """Yield the streams of groups that were admitted and did not start, and when that is taken back."""
    for stream, state in groups.index.groups.items():
        ends = expires_at(state.phase, state.since, groups.index.policy.inqueue_limit)
        if ends is not None:
            yield stream, ends


def runs_in(hosted: HostedControllers) -> CoschedulingController:
    """Return the controller that keeps the pods of runs together."""
    return _found(hosted, CoschedulingController)


def _found(hosted: HostedControllers, kind: type[C]) -> C:
    found = hosted.find(kind)
    assert found is not None
    return found
