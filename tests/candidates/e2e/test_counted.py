"""What a source process counts of its targets, over HTTP: once, by whoever leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.candidates.e2e.stage import Stage
from tests.outages.stage import Replica

Make = Callable[..., Awaitable[Stage]]


def counted(replica: Replica) -> dict[str, float]:
    """The counts of a process that are not zero, by name and labels."""
    found = {}
    for family in replica.metrics.registry.collect():
        if family.name.startswith("controlplane_candidates_"):
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_sum")) and sample.value:
                    name = sample.name.removeprefix("controlplane_candidates_")
                    found[" ".join([name, *sample.labels.values()])] = sample.value
    return found


async def test_a_pod_on_its_way_is_counted_and_by_the_next_leader_only_from_there(stage: Make) -> None:
    it = await stage("east", "west")
    it.targets["west"].room = 0
    first = it.replicas[-1]
    it.submit()
    await it.placed(where="east")
    await it.until(lambda: "bound_total east" in counted(first), "seen bound")
    found = counted(first)
    assert found.pop("refused_total west NoNode", 1) == 1, "it may be gone before it could say so"
    assert found == {
        "offered_total east": 1,
        "offered_total west": 1,
        "reserved_total east": 1,
        "permitted_total east Bind": 1,
        "bound_total east": 1,
        "placement_seconds_count east": 1,
    }
    await it.kill()
    second = await it.up()
    it.targets["east"].show("Running", startTime="2026-01-01T00:00:00Z")
    await it.until(lambda: (it.pod() or {})["status"]["phase"] == "Running", "the delegate's status")
    assert counted(second) == {}
    it.targets["west"].room, it.targets["east"].room = 100, 0
    it.cut("east")
    await it.until(lambda: "bound_total west" in counted(second), "placed anew, and seen to be")
    found = counted(second)
    assert (found["lost_total east TargetLost"], found["bound_total west"]) == (1, 1)
    assert found["placement_seconds_count west"] == 1
    assert "bound_total east" not in found
