"""A pod whose node is gone, where a log of the same cluster saw that: it is not said to run, nor to be gone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.audit.local import explain_history, history_of
from controlplane.audit.reads import READ, LogReader
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.controllers.coscheduling.observations import NodeGone, NodeObserved
from controlplane.controllers.quota.admission.topology_events import AdmissionNodeGone, AdmissionPodGone
from controlplane.controllers.scheduling.events import PendingPodGone
from controlplane.log.event import Event, NewEvent
from controlplane.runtime.explanation import Explanation
from tests.audit.scheduled import BIND, HELD, OWN, WAITING, pod
from tests.audit.script import write

PLACED = [(OWN, event) for event in (WAITING, HELD, BIND, pod(node="n1"))]
GONE: Event = NodeGone(namespace="", name="n1", uid="n")
ANOTHER: Event = NodeObserved(namespace="", name="n1", uid="second", resource_version="2")
THERE: Event = NodeObserved(namespace="", name="n1", uid="n", resource_version="1")


async def told(
    url: str, *seen: tuple[str, Event], log: str = "main", incarnation: str = "home", after: Any = ()
) -> Explanation:
    """`seen` in a log of a cluster, once the pod is on its node; `after` in the scheduler's."""
    await append(url, [(cluster_stream(MANAGEMENT), ClusterConnected(incarnation="home")), *PLACED], "scheduler")
    await append(url, [(cluster_stream(MANAGEMENT), ClusterConnected(incarnation=incarnation)), *seen], log)
    await append(url, after, "scheduler")
    with LogReader.connect(url, log="scheduler") as reader:
        found = history_of(reader, "pod", "default", "web")
        assert found is not None
        return explain_history(found)


async def append(url: str, events: Any, log: str) -> None:
    if events:
        await write(
            url, [NewEvent(stream=stream, event=event, cluster=MANAGEMENT) for stream, event in events], log, READ
        )


@pytest.mark.parametrize(
    ("stream", "event"),
    [("node/n1", GONE), ("admission/node/n1", AdmissionNodeGone(namespace="", name="n1", uid="n"))],
)
async def test_its_node_is_gone(database_url: str, stream: str, event: Event) -> None:
    said = await told(database_url, (stream, event))
    assert (said.standing.word, said.standing.waits_for) == ("Lost", "the pod to be seen to go")
    assert said.sentence.startswith("Its node n1 is gone since 20")
    assert (
        "(by position 2 of the log main), and the pod was not seen to go. Whether it still runs is not known."
        in said.sentence
    )
    assert "What was known of it last: It is on node n1" in said.sentence


async def test_in_its_own_log(database_url: str) -> None:
    said = await told(database_url, after=[("node/n1", GONE)])
    assert said.standing.word == "Lost"
    assert "of the log scheduler)" in said.sentence


async def test_whose_other_pods_are_gone_by_now(database_url: str) -> None:
    """Admission tells of a node and of the pods on it in one stream."""
    stream = "admission/node/n1"
    gone = AdmissionNodeGone(namespace="", name="n1", uid="n")
    said = await told(database_url, (stream, gone), (stream, AdmissionPodGone(namespace="x", name="other", uid="o")))
    assert said.standing.word == "Lost"
    assert "(by position 2 of the log main)" in said.sentence


@pytest.mark.parametrize(
    ("seen", "more"),
    [
        ([], {}),
        ([("node/n1", GONE), ("node/n1", THERE)], {}),
        ([("node/n1", ANOTHER), ("node/n1", GONE)], {}),
        ([("node/n2", GONE)], {}),
        ([("node/n1", GONE)], {"incarnation": "another"}),
        ([("node/n1", GONE)], {"incarnation": ""}),
    ],
    ids=[
        "nothing",
        "came back",
        "another one of its name",
        "another node",
        "another cluster",
        "a cluster that nobody knows",
    ],
)
async def test_where_that_is_not_known(database_url: str, seen: Any, more: Any) -> None:
    said = await told(database_url, *seen, **more)
    assert said.standing.word == "Running"
    assert said.sentence.endswith("What becomes of a pod on its node, and of the node, is not recorded here.")


async def test_a_node_that_went_before_it_came_is_another_one(database_url: str) -> None:
    await append(
        database_url, [(cluster_stream(MANAGEMENT), ClusterConnected(incarnation="home")), ("node/n1", GONE)], "main"
    )
    said = await told(database_url, log="other")
    assert said.standing.word == "Running"


@pytest.mark.parametrize("end", [PendingPodGone(uid="u"), pod(node="n1", over=True)], ids=["gone", "ended"])
async def test_a_pod_that_has_ended_is_not_lost(database_url: str, end: Event) -> None:
    said = await told(database_url, ("node/n1", GONE), after=[(OWN, end)])
    assert said.standing.word in ("Deleted", "Finished")


async def test_another_pod_of_its_name_was_on_the_node_before(database_url: str) -> None:
    first = msgspec.structs.replace(pod(node="n1"), uid="first")
    home = (cluster_stream(MANAGEMENT), ClusterConnected(incarnation="home"))
    await append(database_url, [home, (OWN, first)], "scheduler")
    await append(database_url, [home, ("node/n1", GONE)], "main")
    await append(database_url, [(OWN, PendingPodGone(uid="first"))], "scheduler")
    said = await told(database_url, log="other")
    assert said.standing.word == "Running", "the node was seen to go before this pod came, and a pod is on it again"
