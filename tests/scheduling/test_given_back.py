"""What a pod in flight gives back wakes those that were refused for it."""

from __future__ import annotations

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.queue.queue import QueuePlace
from controlplane.kube.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Json, Kind
from tests.scheduling.bench import Bench, ready


def show(bench: Bench, kind: Kind, name: str, spec: Json, namespace: str = "") -> None:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    bench.loop.changed(kind, {"metadata": metadata, "spec": spec}, bench.now, gone=False)


def test_devices_that_are_given_back_wake_who_waits_for_one() -> None:
    bench = ready("n")
    show(bench, DEVICE_CLASSES, "gpu", {})
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    show(bench, RESOURCE_SLICES, "of-n", {"driver": "d", "nodeName": "n", "pool": pool, "devices": [{"name": "one"}]})
    for name in ("a", "b"):
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        show(bench, RESOURCE_CLAIMS, name, {"devices": {"requests": [request]}}, "default")
    uids = [bench.pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]) for name in ("a", "b")]
    while bench.turn():
        pass
    while bench.outbox:
        bench.commit(bench.outbox[0])
    assert bench.recorded(events.SchedulingFailed)[-1].plugins == ["DynamicResources"]
    waiting = bench.loop.queue.entry(uids[1])
    assert waiting is not None
    assert waiting.place is QueuePlace.UNSCHEDULABLE
    (write,) = [write for write in bench.writes() if write.action == "PreBindDecided"]
    bench.carry_out(write, 403)
    bench.decide()
    assert bench.view.claims == {}
    assert waiting.place is not QueuePlace.UNSCHEDULABLE


def test_a_pod_whose_claim_is_not_there_is_outside_and_comes_in_with_it() -> None:
    """No cycle can help it, and no autoscaler is to add a node for it: it is not `Unschedulable`."""
    bench = ready("n")
    claims = [{"name": "c", "resourceClaimName": "late"}]
    uid = bench.pod("p", resourceClaims=claims)
    bench.settle(2)
    entry = bench.loop.queue.entry(uid)
    assert entry is not None
    assert entry.place is QueuePlace.GATED
    said = bench.condition("p")
    assert (said["reason"], said["message"]) == ("SchedulingGated", 'could not find ResourceClaim "default/late"')
    show(bench, RESOURCE_CLAIMS, "another", {"devices": {}}, "default")
    assert entry.place is QueuePlace.GATED
    show(bench, RESOURCE_CLAIMS, "late", {"devices": {}}, "default")
    assert entry.place is QueuePlace.ACTIVE
