"""Deleting: preconditions, finalizers, propagation, collections."""

from __future__ import annotations

import pytest

from controlplane.kube.kinds import JOBS, NAMESPACES, Kind
from controlplane.simulation.kinds.base import CONFIG_MAPS
from tests.simulation.contract.client import WIDGETS, Api, config_map, job, version, widget

EVERY = pytest.mark.parametrize(
    ("kind", "make"), [(CONFIG_MAPS, config_map), (WIDGETS, widget)], ids=["ConfigMap", "Widget"]
)
HOLD = "example.com/hold"


async def held(api: Api, kind: Kind, obj: dict) -> dict:
    obj["metadata"]["finalizers"] = [HOLD]
    return (await api.create(kind, obj)).ok(201)


class TestDelete:
    @EVERY
    async def test_answers_a_status_with_the_uid(self, api: Api, kind: Kind, make) -> None:
        made = (await api.create(kind, make("a"))).ok(201)
        body = (await api.delete(kind, "a")).ok()
        assert (body["kind"], body["status"]) == ("Status", "Success")
        group = {"group": kind.group} if kind.group else {}
        assert body["details"] == {"name": "a", "kind": kind.plural, "uid": made["metadata"]["uid"], **group}
        (await api.get(kind, "a")).refused(404, "NotFound")

    @EVERY
    async def test_preconditions(self, api: Api, kind: Kind, make) -> None:
        made = (await api.create(kind, make("a"))).ok(201)
        newer = (await api.patch(kind, "a", {"metadata": {"labels": {"x": "y"}}})).ok()
        uid, other = made["metadata"]["uid"], "11111111-1111-1111-1111-111111111111"
        wrong_uid = await api.delete(kind, "a", {"preconditions": {"uid": other}})
        wrong_uid.refused(
            409, "Conflict", f"the UID in the precondition ({other}) does not match the UID in record ({uid})"
        )
        stale = await api.delete(kind, "a", {"preconditions": {"uid": uid, "resourceVersion": version(made)}})
        stale.refused(409, "Conflict", f"the ResourceVersion in the precondition ({version(made)}) does not match")
        (await api.get(kind, "a")).ok()
        (await api.delete(kind, "a", {"preconditions": {"uid": uid, "resourceVersion": version(newer)}})).ok()

    async def test_dry_run_deletes_nothing(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        (await api.delete(WIDGETS, "a", dryRun="All")).ok()
        (await api.get(WIDGETS, "a")).ok()

    async def test_a_deleted_name_can_be_used_again(self, api: Api) -> None:
        first = (await api.create(WIDGETS, widget("a"))).ok(201)
        (await api.delete(WIDGETS, "a")).ok()
        second = (await api.create(WIDGETS, widget("a"))).ok(201)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]

    async def test_a_namespace_terminates_first(self, api: Api) -> None:
        (await held(api, WIDGETS, widget("a")))
        body = (await api.call("DELETE", NAMESPACES.path(name=api.namespace))).ok()
        assert (body["kind"], body["status"]["phase"]) == ("Namespace", "Terminating")
        answer = await api.create(WIDGETS, widget("b"))
        text = f"unable to create new content in namespace {api.namespace} because it is being terminated"
        answer.refused(403, "Forbidden", text)


class TestFinalizers:
    @EVERY
    async def test_hold_an_object_until_the_last_is_gone(self, api: Api, kind: Kind, make) -> None:
        made = await held(api, kind, make("a"))
        marked = (await api.delete(kind, "a")).ok()
        assert marked["kind"] == kind.kind
        assert marked["metadata"]["deletionTimestamp"]
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
        assert marked["metadata"]["finalizers"] == [HOLD]
        assert int(version(marked)) > int(version(made))
        again = (await api.delete(kind, "a")).ok()
        assert version(again) == version(marked)
        (await api.create(kind, make("a"))).refused(409, "AlreadyExists")
        (await api.patch(kind, "a", {"metadata": {"finalizers": None}})).ok()
        (await api.get(kind, "a")).refused(404, "NotFound")

    async def test_the_mark_counts_as_a_generation(self, api: Api) -> None:
        await held(api, WIDGETS, widget("a"))
        assert (await api.delete(WIDGETS, "a")).ok()["metadata"]["generation"] == 2

    @EVERY
    async def test_none_can_be_added_after_the_mark(self, api: Api, kind: Kind, make) -> None:
        await held(api, kind, make("a"))
        (await api.delete(kind, "a")).ok()
        answer = await api.patch(kind, "a", {"metadata": {"finalizers": [HOLD, "example.com/late"]}})
        text = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted"
        answer.refused(422, "Invalid", text, '"example.com/late"')

    async def test_the_mark_cannot_be_taken_off(self, api: Api) -> None:
        await held(api, WIDGETS, widget("a"))
        marked = (await api.delete(WIDGETS, "a")).ok()
        patched = (await api.patch(WIDGETS, "a", {"metadata": {"deletionTimestamp": None, "labels": {"x": "y"}}})).ok()
        assert patched["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]

    async def test_a_status_write_still_works(self, api: Api) -> None:
        await held(api, WIDGETS, widget("a"))
        (await api.delete(WIDGETS, "a")).ok()
        assert (await api.patch(WIDGETS, "a", {"status": {"x": 1}}, "status")).ok()["status"] == {"x": 1}

    async def test_a_finalizer_goes_with_an_apply_that_leaves_it_out(self, api: Api) -> None:
        config = {"metadata": {"name": "a", "finalizers": [HOLD]}, "spec": {"x": 1}}
        (await api.apply(WIDGETS, "a", config, "one")).ok(201)
        (await api.delete(WIDGETS, "a")).ok()
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok()
        (await api.get(WIDGETS, "a")).refused(404, "NotFound")


class TestPropagation:
    async def test_foreground_without_dependents_of_a_controller(self, api: Api) -> None:
        """The API server alone marks the object; the garbage collector, which the simulated one has built in, lets it
        go.
        """
        await held(api, WIDGETS, widget("a"))
        marked = (await api.delete(WIDGETS, "a", {"propagationPolicy": "Foreground"})).ok()
        finalizers = marked["metadata"]["finalizers"]
        assert HOLD in finalizers
        assert api.simulated or "foregroundDeletion" in finalizers

    async def test_a_job_orphans_its_pods_unless_told_otherwise(self, api: Api) -> None:
        (await api.create(JOBS, job("a"))).ok(201)
        answered = (await api.delete(JOBS, "a")).ok()
        assert answered["kind"] == "Job"
        assert answered["metadata"]["finalizers"] == ["orphan"]
        (await api.create(JOBS, job("b"))).ok(201)
        assert (await api.delete(JOBS, "b", {"propagationPolicy": "Background"})).ok()["kind"] == "Status"
        (await api.create(JOBS, job("c"))).ok(201)
        assert (await api.delete(JOBS, "c", propagationPolicy="Background")).ok()["kind"] == "Status"


class TestCollection:
    @EVERY
    async def test_deletes_what_is_selected(self, api: Api, kind: Kind, make) -> None:
        for name, group in (("a", "x"), ("b", "x"), ("c", "y")):
            obj = make(name)
            obj["metadata"]["labels"] = {"group": group}
            (await api.create(kind, obj)).ok(201)
        (await api.call("DELETE", kind.path(api.namespace), labelSelector="group=x")).ok()
        left = (await api.list(kind, labelSelector="group")).ok()["items"]
        assert [item["metadata"]["name"] for item in left] == ["c"]
