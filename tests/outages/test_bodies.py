"""What a user keeps to himself is on the workers and not in the log, whatever happens; and how much a tenant can write
into it.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from controlplane.job_kinds import adapters_for
from controlplane.job_kinds.base import MADE_FOR
from controlplane.kube.kinds import JOBS, MULTIKUEUE_CONFIGS, WORKLOADS, Json, meta
from controlplane.runtime.bodies import Bodies
from tests.multikueue.kep693.rig import user_job
from tests.outages.stage import NS, Stage
from tests.support.deep import examples

Make = Callable[..., Awaitable[Stage]]

PRIVATE = "hunter2"
PATCHES, LARGE = examples(12, 82), 200_000


def private_job(name: str) -> Json:
    """A job with something private wherever users put it."""
    job = copy.deepcopy(user_job(name, NS, **{"example.com/note": PRIVATE}))
    pod = job["spec"]["template"]
    pod["metadata"] = {"annotations": {"example.com/note": PRIVATE}}
    pod["spec"]["containers"][0] |= {
        "command": ["train", f"--token={PRIVATE}"],
        "args": [PRIVATE],
        "env": [{"name": "B", "value": PRIVATE}, {"name": "A", "value": PRIVATE}, {"name": "C"}],
    }
    return job


def made_of(on: Stage, name: str) -> Json:
    """The copy of a job as it has always been made: of the job itself."""
    job = on.job(name=name)
    workload = on.workload(name=name)
    assert job is not None
    assert workload is not None
    (adapter,) = (found for found in adapters_for(["batch/job"]).values() if found.kind == JOBS)
    whole: Json = adapter.clone(_whole(job), NS, name, str(meta(workload)["name"]), "multikueue")
    whole["metadata"]["annotations"][MADE_FOR] = on.identity
    return whole


def _whole(job: Json) -> Json:
    metadata = meta(job)
    return {"labels": metadata["labels"], "annotations": metadata["annotations"], "spec": job["spec"]}


def check_copy(on: Stage, cluster: str, name: str) -> None:
    """Nothing is left out of a copy, and nothing private is in the log."""
    found, wanted = on.remote_job(cluster, name), made_of(on, name)
    assert meta(found)["annotations"] == meta(wanted)["annotations"]
    assert found["spec"]["template"]["spec"]["containers"] == wanted["spec"]["template"]["spec"]["containers"]
    assert found["spec"]["template"]["metadata"]["annotations"] == wanted["spec"]["template"]["metadata"]["annotations"]
    clone, workload = on.workload(on.worker(cluster), name=name), on.workload(name=name)
    assert clone is not None
    assert workload is not None
    assert clone["spec"]["podSets"] == workload["spec"]["podSets"]
    assert PRIVATE in str(clone["spec"])
    check_log(on)


def check_log(on: Stage) -> None:
    for column, table in (("body", "bodies"), ("data", "events")):
        rows = on.query(f"SELECT {column} FROM controlplane.{table} WHERE {column}::text LIKE %s", f"%{PRIVATE}%")
        assert rows == []


async def test_a_copy_has_all_of_its_job_and_the_log_has_not(stage: Make) -> None:
    on = await stage("a", "b", roomy=("a",))
    on.manager.store.create(JOBS, private_job("train"))
    await on.running("a")
    check_copy(on, "a", "train")
    assert on.said("JobObserved")[0]["kept"], "what was stored has another hash"
    on.end("a")
    await on.done()
    check_log(on)


async def test_a_copy_that_was_decided_on_before_a_crash_is_made_after_it(stage: Make, monkeypatch: Any) -> None:
    """The decision is in the log, its content is in no memory any more: it is that of the live object again."""
    on = await stage("a", "b", roomy=("a",))
    with monkeypatch.context() as patch:
        # Nothing that could make a copy is at hand, for as long as the first process lives.
        async def nothing(self: Bodies, refs: Any) -> dict[str, bytes]:
            return {}

        patch.setattr(Bodies, "get", nothing)
        patch.setattr(Bodies, "missed", lambda self, refs: 2)
        on.manager.store.create(JOBS, private_job("train"))
        await on.until(lambda: on.said("CloneDecided"), "decided")
        await on.kill()
        assert not on.left()
    await on.up()
    await on.running("a")
    check_copy(on, "a", "train")
    on.end("a")
    await on.done()


@pytest.mark.deep
async def test_a_job_that_changed_in_between_is_made_as_it_is_now(stage: Make, monkeypatch: Any) -> None:
    """What the decision names is nowhere any more: it is taken anew, and the copy is that of the job as it now is."""
    on = await stage("a", "b", roomy=("a",))

    async def nothing(self: Bodies, refs: Any) -> dict[str, bytes]:
        return {}

    with monkeypatch.context() as patch:
        patch.setattr(Bodies, "get", nothing)
        patch.setattr(Bodies, "missed", lambda self, refs: 2)
        on.manager.store.create(JOBS, private_job("train"))
        await on.until(lambda: on.said("CloneDecided"), "decided")
        await on.kill()
    workload = on.workload(name="train")
    assert workload is not None
    on.manager.store.patch(
        WORKLOADS, NS, str(meta(workload)["name"]), {"metadata": {"annotations": {"example.com/note": PRIVATE * 2}}}
    )
    on.manager.store.patch(JOBS, NS, "train", {"metadata": {"annotations": {"example.com/more": PRIVATE}}})
    await on.up()
    await on.running("a")
    check_copy(on, "a", "train")
    assert "example.com/more" in meta(on.remote_job("a"))["annotations"]
    clone = on.workload(on.worker("a"), name="train")
    assert clone is not None
    assert meta(clone)["annotations"]["example.com/note"] == PRIVATE * 2


async def test_a_memory_that_holds_nothing_is_enough(stage: Make, monkeypatch: Any) -> None:
    """What has left the memory is looked at again where it was seen."""
    monkeypatch.setattr(Bodies, "_put", lambda self, ref, text: None)
    on = await stage("a", "b", roomy=("a",))
    on.manager.store.create(JOBS, private_job("train"))
    await on.running("a")
    check_copy(on, "a", "train")
    on.end("a")
    await on.done()


def volume(on: Stage) -> tuple[int, int, int, int]:
    """Events and their bytes, bodies and their bytes."""
    (row,) = on.query(
        "SELECT (SELECT count(*) FROM controlplane.events), (SELECT sum(octet_length(data::text)) FROM "
        "controlplane.events), (SELECT count(*) FROM controlplane.bodies), (SELECT sum(octet_length(body::text)) FROM "
        "controlplane.bodies)"
    )
    return tuple(int(number) for number in row)  # type: ignore[return-value]


@pytest.mark.deep
@pytest.mark.generated
async def test_patches_of_a_large_annotation_are_small_events(stage: Make) -> None:
    """Patches of a 200 kB annotation: no body, and one small event each."""
    on = await stage("a", "b", roomy=("a",))
    on.manager.store.create(JOBS, private_job("train"))
    await on.running("a")
    await on.until(lambda: on.said("StatusRelayDecided"), "relayed")
    await on.quiet(0.5)
    before, patched = volume(on), []
    for number in range(PATCHES):
        note = {"example.com/large": f"{number:06}" + "x" * LARGE}
        on.manager.store.patch(JOBS, NS, "train", {"metadata": {"annotations": note}})
        patched.append(_version(on))
        await on.until(lambda: patched[-1] in _recorded(on), "recorded")
    events, size, bodies, stored = (after - was for after, was in zip(volume(on), before, strict=True))
    print(f"attack: {events} events of {size} bytes, {bodies} bodies of {stored} bytes")
    assert (bodies, stored) == (0, 0)
    # The job's own changes, which a slow machine may tell of only now, are not counted.
    times = Counter(said["resource_version"] for said in on.said("JobObserved"))
    assert [times[version] for version in patched] == [1] * PATCHES
    assert size < 1024 * events


def _version(on: Stage) -> str:
    return str(meta(on.job() or {})["resourceVersion"])


def _recorded(on: Stage) -> set[str]:
    return {said["resource_version"] for said in on.said("JobObserved")}


@pytest.mark.generated
async def test_patches_of_a_refused_object_are_small_events(stage: Make) -> None:
    on = await stage("a", "b", roomy=("a",))
    config = {"metadata": {"name": "broken"}, "spec": {"clusters": "a"}}
    on.manager.store.create(
        MULTIKUEUE_CONFIGS, {**config, "apiVersion": MULTIKUEUE_CONFIGS.api_version, "kind": "MultiKueueConfig"}
    )
    await on.until(lambda: len(on.said("ObservationRefused")) == 1, "refused")
    before = volume(on)
    for number in range(PATCHES):
        note = {"example.com/large": f"{number:06}" + "x" * LARGE}
        on.manager.store.patch(MULTIKUEUE_CONFIGS, "", "broken", {"metadata": {"annotations": note}})
        await on.until(lambda wanted=number + 2: len(on.said("ObservationRefused")) == wanted, "recorded")
    events, size, bodies, stored = (after - was for after, was in zip(volume(on), before, strict=True))
    print(f"refused: {events} events of {size} bytes, {bodies} bodies of {stored} bytes")
    assert len(on.said("ObservationRefused")) == PATCHES + 1
    assert size < 1024 * events
    assert bodies <= 1, "annotations, where there were none"
    assert stored < 1024
