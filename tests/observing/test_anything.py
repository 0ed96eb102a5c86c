"""Whatever stands in whatever field of an object: it is recorded, refused, or concerns nobody; nothing is raised.

As a watch line on its way: decoded, told apart, observed by every controller, encoded for the log, and folded.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from controlplane.app.hosted import TYPES, HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.clusters.deltas import Poison, of_item, of_line
from controlplane.clusters.protocol import Change
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.scheduling.snapshot.view import KINDS as VIEWED
from controlplane.controllers.scheduling.snapshot.view import ClusterView
from controlplane.kube import kinds as kube
from controlplane.kube.kinds import Json, Kind
from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent, Recorded
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.router import ControllerRouter
from controlplane.settings import Settings
from tests.observing.objects import samples
from tests.support.deep import examples
from tests.support.rows import each

AT = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLES = samples()
CONTROLLERS = ["multikueue", "candidates", "podgroups", "coscheduling"]


_NESTED = re.compile(rb'"nested:(\d+)"')


def nested(depth: int) -> str:
    """What stands for so many levels, until it is spelled: Python itself would not get to the bottom of them."""
    return f"nested:{depth}"


def spelled(found: Any) -> bytes:
    raw = msgspec.json.encode(found)
    return _NESTED.sub(lambda match: b'{"a":' * int(match[1]) + b"{}" + b"}" * int(match[1]), raw)


TEXTS = st.sampled_from(
    ["", "²", "५", "9" * 5000, "-1", "1e400", "a/b", "..", "\0", "{{{{", "]" * 200, "1e999999", "\u2028", "True"]
)
NUMBERS = st.sampled_from([0, -1, 2**31, 2**63, 2**64 - 1, 1e308, -0.0])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), NUMBERS, TEXTS, st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(TEXTS, st.text(max_size=5)), inner, max_size=3)
    ),
    max_leaves=6,
)
ANYTHING = st.one_of(VALUES, st.sampled_from([90, 120, 300, 1005]).map(nested))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, found in inner:
        yield from paths(found, (*path, key))


PLACES = [(kind, path) for kind, obj in SAMPLES.items() for path in paths(obj)]


def spoiled(kind: Kind, path: tuple[Any, ...], value: Any, *, drop: bool = False) -> Json:
    found = copy.deepcopy(SAMPLES[kind])
    inner: Any = found
    for key in path[:-1]:
        inner = inner[key]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return found


def hosted() -> ControllerRouter:
    given = Settings()
    run = msgspec.structs.replace(given.run, controllers=CONTROLLERS)
    kinds = ["batch/job", "jobset.x-k8s.io/jobset", "tekton.dev/pipelinerun"]
    multikueue = msgspec.structs.replace(given.multikueue, kinds=kinds)
    candidates = msgspec.structs.replace(given.candidates, cluster="campus")
    return HostedControllers(
        msgspec.structs.replace(given, run=run, multikueue=multikueue, candidates=candidates)
    ).router


def scheduler() -> ControllerRouter:
    return SchedulerControllers(Settings(), ["controlplane-candidates"], gangs=True).router


class Watched:
    """A process that watches a cluster: what a line comes to, and what is recorded of it."""

    def __init__(self, capability: ControllerRouter) -> None:
        types = {type_: None for room in capability.registrations for type_ in room.controller.types} | dict.fromkeys(
            TYPES
        )
        self.capability, self.codec, self.position = capability, Codec(tuple(types)), 0

    def take(self, cluster: str, change: Change) -> list[str]:
        """Record a change; returns the types of the events."""
        sighting = ObjectChange(
            cluster, "inc", change.kind, change.object, change.resource_version, change.op == "gone", change.unreadable
        )
        events = self.capability.observations(sighting, AT)
        for new in events:
            self._fold(new)
        return [type(new.event).__name__ for new in events]

    def _fold(self, new: NewEvent) -> None:
        name, schema, data = self.codec.encode(new.event)
        assert b"\\u0000" not in data.replace(b"\\\\", b""), "the log cannot hold U+0000"
        assert 0 <= new.mark < 2**63
        assert all(len(body.text) < 1 << 25 for body in new.bodies)
        self.position += 1
        event = self.codec.decode(name, schema, data)
        self.capability.fold(
            Recorded(
                position=self.position,
                stream=new.stream,
                version=self.position,
                event=event,
                cluster=new.cluster,
                recorded_at=AT,
            )
        )


def line_of(kind: Kind, found: Json, op: str = "MODIFIED") -> Change | Poison:
    """What a watch line of it comes to."""
    change = of_line(kind, spelled({"type": op, "object": found}))
    assert isinstance(change, Change | Poison)
    return change


@pytest.mark.generated
@given(st.sampled_from(PLACES), ANYTHING, st.booleans(), st.booleans())
@settings(max_examples=examples(120, 1500), deadline=None, suppress_health_check=list(HealthCheck))
@example((kube.NODES, ("status", "conditions")), [1], False, False)
@example((kube.NODES, ("status",)), [], False, False)
@example((kube.PODS, ("spec",)), [], False, False)
@example((kube.PODS, ("metadata", "resourceVersion")), "9" * 5000, False, False)
@example((kube.WORKLOADS, ("metadata", "resourceVersion")), "²", False, False)
@example((kube.JOBS, ("status",)), nested(1005), False, False)
@example((kube.JOBS, ("status",)), nested(120), False, True)
@example((kube.SECRETS, ("metadata", "labels")), [1], False, False)
@example((kube.WORKLOADS, ("metadata", "annotations", "c")), "\0", False, False)
@example((kube.WORKLOADS, ("metadata", "namespace")), [], False, False)
def test_nothing_but_the_refusal_comes_out(
    place: tuple[Kind, tuple[Any, ...]], value: Any, drop: bool, gone: bool
) -> None:
    kind, path = place
    found = spoiled(kind, path, value, drop=drop)
    change = line_of(kind, found, "DELETED" if gone else "MODIFIED")
    if not isinstance(change, Change):
        return
    whole = of_line(kind, msgspec.json.encode({"type": "ADDED", "object": SAMPLES[kind]}))
    assert isinstance(whole, Change)
    for watched, clusters in ((Watched(hosted()), (MANAGEMENT, "w1")), (Watched(scheduler()), (MANAGEMENT,))):
        for cluster in clusters:
            watched.take(cluster, whole)
            watched.take(cluster, change)
        watched.capability.take_dirty()
    if kind in VIEWED:
        view = ClusterView()
        for one in (whole, change):
            view.apply(kind, one.object, gone=one.op == "gone", unreadable=one.unreadable)


@pytest.mark.generated
@given(VALUES)
@settings(max_examples=examples(50, 500), deadline=None)
@example({"metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "namespace": {}}})
@example({"metadata": {"name": "a/b", "uid": "u", "resourceVersion": "7"}})
def test_whatever_is_an_item_is_a_change_or_poison(item: Any) -> None:
    assert isinstance(of_item(kube.JOBS, orjson.loads(msgspec.json.encode(item))), Change | Poison)


@each(
    ("path", "value"),
    [
        (("status",), nested(120)),
        (("metadata", "annotations", "c"), "\0"),
        (("metadata", "resourceVersion"), "9" * 5000),
        (("status", "conditions"), [[]]),
    ],
)
@each("cluster", [MANAGEMENT, "w1"])
def test_what_cannot_be_read_is_refused_and_recorded(cluster: str, path: tuple[Any, ...], value: Any) -> None:
    change = line_of(kube.WORKLOADS, spoiled(kube.WORKLOADS, path, value))
    assert isinstance(change, Change)
    assert "ObservationRefused" in Watched(hosted()).take(cluster, change)


def test_every_sample_is_good() -> None:
    """What is spoiled here was good before: else nothing would be read that far."""
    refused: list[str] = []
    for kind, obj in SAMPLES.items():
        change = of_line(kind, msgspec.json.encode({"type": "ADDED", "object": obj}))
        assert isinstance(change, Change)
        assert not change.unreadable
        for watched, cluster in (
            (Watched(hosted()), MANAGEMENT),
            (Watched(hosted()), "w1"),
            (Watched(scheduler()), MANAGEMENT),
        ):
            refused += [
                f"{kind.name} on {cluster}: {name}"
                for name in watched.take(cluster, change)
                if name.endswith("Refused")
            ]
    assert refused == []
