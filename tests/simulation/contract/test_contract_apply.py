"""Server-side apply: who owns what, who is in whose way, and what goes when somebody lets go."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.kube.kinds import APPLY_PATCH, JOBS, Json
from controlplane.simulation.kinds.base import CONFIG_MAPS
from tests.simulation.contract.client import WIDGETS, Api, config_map, job, version, widget


def entries(obj: Json) -> dict[tuple[str, str, str], Any]:
    """Return the field sets by manager, operation and subresource."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


def condition(type_: str, status: str = "True", **more: str) -> Json:
    return {"type": type_, "status": status, **more}


class TestOwnership:
    async def test_apply_creates_with_201_and_then_updates(self, api: Api) -> None:
        made = (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok(201)
        assert (made["spec"], made["metadata"]["generation"]) == ({"x": 1}, 1)
        changed = (await api.apply(WIDGETS, "a", {"spec": {"x": 2}}, "one")).ok(200)
        assert (changed["spec"], changed["metadata"]["generation"]) == ({"x": 2}, 2)
        assert entries(changed) == {("one", "Apply", ""): {"f:spec": {"f:x": {}}}}

    async def test_a_field_manager_is_required(self, api: Api) -> None:
        body = {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": {"name": "a"}}
        answer = await api.patch(WIDGETS, "a", body, content_type=APPLY_PATCH)
        answer.refused(422, "Invalid", "fieldManager: Required value: is required for apply patch")

    async def test_force_is_for_apply_only(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        answer = await api.patch(WIDGETS, "a", {"spec": {"x": 1}}, force="true")
        answer.refused(422, "Invalid", "force: Forbidden: may not be specified for non-apply patch")

    async def test_managed_fields_must_not_be_sent(self, api: Api) -> None:
        made = (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok(201)
        metadata = {"name": "a", "managedFields": made["metadata"]["managedFields"]}
        answer = await api.apply(WIDGETS, "a", {"metadata": metadata}, "one")
        answer.refused(400, "BadRequest", "metadata.managedFields must be nil")

    async def test_the_user_agent_is_the_manager_of_other_writes(self, api: Api) -> None:
        made = (await api.create(WIDGETS, widget("a", x=1))).ok(201)
        assert entries(made) == {("contract", "Update", ""): {"f:spec": {".": {}, "f:x": {}}}}
        patched = (await api.patch(WIDGETS, "a", {"spec": {"y": 2}}, fieldManager="two")).ok()
        assert entries(patched) == {
            ("contract", "Update", ""): {"f:spec": {".": {}, "f:x": {}}},
            ("two", "Update", ""): {"f:spec": {"f:y": {}}},
        }

    async def test_an_update_takes_what_it_changes(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1, "y": 1}}, "one")).ok(201)
        patched = (await api.patch(WIDGETS, "a", {"spec": {"x": 2}}, fieldManager="two")).ok()
        assert entries(patched) == {
            ("one", "Apply", ""): {"f:spec": {"f:y": {}}},
            ("two", "Update", ""): {"f:spec": {"f:x": {}}},
        }

    async def test_the_doors_are_separate_owners(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a", x=1), fieldManager="one")).ok(201)
        patched = (await api.patch(WIDGETS, "a", {"status": {"n": 1}}, "status", fieldManager="one")).ok()
        assert entries(patched)["one", "Update", "status"] == {"f:status": {".": {}, "f:n": {}}}

    async def test_labels_and_configmaps(self, api: Api) -> None:
        obj = config_map("a", k="v")
        obj["metadata"]["labels"] = {"x": "y"}
        made = (await api.create(CONFIG_MAPS, obj, fieldManager="one")).ok(201)
        assert entries(made) == {
            ("one", "Update", ""): {
                "f:data": {".": {}, "f:k": {}},
                "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
            }
        }

    async def test_status_is_not_owned_through_the_main_door(self, api: Api) -> None:
        made = (await api.apply(WIDGETS, "a", {"spec": {"x": 1}, "status": {"n": 1}}, "one")).ok(201)
        assert "status" not in made
        assert entries(made) == {("one", "Apply", ""): {"f:spec": {"f:x": {}}}}

    async def test_spec_is_not_owned_through_the_status_door(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a", x=1))).ok(201)
        config = {"spec": {"x": 2}, "status": {"n": 1}}
        applied = (await api.apply(WIDGETS, "a", config, "one", "status")).ok()
        assert (applied["spec"], applied["status"]) == ({"x": 1}, {"n": 1})
        assert entries(applied)["one", "Apply", "status"] == {"f:status": {"f:n": {}}}

    async def test_a_status_of_nothing_is_not_created(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"status": {"n": 1}}, "one", "status")).refused(404, "NotFound")


class TestConflict:
    async def test_another_appliers_field(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok(201)
        body = (await api.apply(WIDGETS, "a", {"spec": {"x": 2}}, "two")).refused(409, "Conflict")
        assert body["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.x'
        assert body["details"] == {
            "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.x"}]
        }
        assert (await api.get(WIDGETS, "a")).ok()["spec"] == {"x": 1}

    async def test_an_updaters_field(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a", x=1), fieldManager="one")).ok(201)
        body = (await api.apply(WIDGETS, "a", {"spec": {"x": 2}}, "two")).refused(409, "Conflict")
        assert 'conflict with "one" using contract.example.com/v1: .spec.x' in body["message"]

    async def test_the_same_name_through_an_update_is_somebody_else(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a", x=1), fieldManager="one")).ok(201)
        (await api.apply(WIDGETS, "a", {"spec": {"x": 2}}, "one")).refused(409, "Conflict")

    async def test_several_fields(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1, "y": 1}}, "one")).ok(201)
        body = (await api.apply(WIDGETS, "a", {"spec": {"x": 2, "y": 2}}, "two")).refused(409, "Conflict")
        assert body["message"] == 'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.x\n- .spec.y'

    async def test_in_a_list_with_keys(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        (await api.apply(WIDGETS, "a", {"status": {"conditions": [condition("A")]}}, "one", "status")).ok()
        mine = {"status": {"conditions": [condition("A", "False")]}}
        body = (await api.apply(WIDGETS, "a", mine, "two", "status")).refused(409, "Conflict")
        assert '.status.conditions[type="A"].status' in body["message"]
        assert 'conflict with "one" with subresource "status"' in body["message"]

    async def test_the_same_value_is_shared(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok(201)
        shared = (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "two")).ok()
        assert entries(shared) == {
            ("one", "Apply", ""): {"f:spec": {"f:x": {}}},
            ("two", "Apply", ""): {"f:spec": {"f:x": {}}},
        }

    async def test_force_takes_the_field(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1, "y": 1}}, "one")).ok(201)
        forced = (await api.apply(WIDGETS, "a", {"spec": {"x": 2}}, "two", force="true")).ok()
        assert forced["spec"] == {"x": 2, "y": 1}
        assert entries(forced) == {
            ("one", "Apply", ""): {"f:spec": {"f:y": {}}},
            ("two", "Apply", ""): {"f:spec": {"f:x": {}}},
        }

    async def test_a_stale_resource_version(self, api: Api) -> None:
        made = (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok(201)
        config = {"metadata": {"name": "a", "resourceVersion": version(made)}, "spec": {"x": 2}}
        (await api.apply(WIDGETS, "a", config, "one")).ok()
        config["spec"] = {"x": 3}
        (await api.apply(WIDGETS, "a", config, "one")).refused(409, "Conflict", "the object has been modified")

    async def test_a_uid_of_something_gone(self, api: Api) -> None:
        config = {"metadata": {"name": "a", "uid": "11111111-1111-1111-1111-111111111111"}, "spec": {"x": 2}}
        (await api.apply(WIDGETS, "a", config, "one")).refused(409, "Conflict", "uid mismatch")

    async def test_another_uid(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok(201)
        config = {"metadata": {"name": "a", "uid": "11111111-1111-1111-1111-111111111111"}, "spec": {"x": 2}}
        (await api.apply(WIDGETS, "a", config, "one")).refused(422, "Invalid", "metadata.uid", "field is immutable")
        # A custom kind's status takes no metadata: the uid is no precondition there.
        (await api.apply(WIDGETS, "a", {**config, "status": {"n": 1}}, "one", "status")).ok()

    async def test_a_resource_version_of_something_gone(self, api: Api) -> None:
        config = {"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {"x": 2}}
        (await api.apply(WIDGETS, "a", config, "one")).ok(201)


class TestLettingGo:
    async def test_what_nobody_else_owns_goes(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1, "y": {"z": 1}}}, "one")).ok(201)
        assert (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok()["spec"] == {"x": 1}

    async def test_what_somebody_else_owns_stays(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1, "y": 1}}, "one")).ok(201)
        (await api.apply(WIDGETS, "a", {"spec": {"y": 1}}, "two")).ok()
        kept = (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok()
        assert kept["spec"] == {"x": 1, "y": 1}
        gone = (await api.apply(WIDGETS, "a", {}, "two")).ok()
        assert gone["spec"] == {"x": 1}

    async def test_what_the_same_name_updated_stays(self, api: Api) -> None:
        """A field written by merge patch survives an apply that leaves it out, even under the same name."""
        (await api.create(WIDGETS, widget("a"))).ok(201)
        config: Json = {"status": {"clusterName": "x", "n": 1}}
        (await api.apply(WIDGETS, "a", config, "one", "status")).ok()
        (await api.patch(WIDGETS, "a", {"status": {"clusterName": "y"}}, "status", fieldManager="one")).ok()
        kept = (await api.apply(WIDGETS, "a", {"status": {"n": 1}}, "one", "status")).ok()
        assert kept["status"] == {"n": 1, "clusterName": "y"}

    async def test_a_null_removes_whoever_owns_it(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1, "y": 1}}, "one")).ok(201)
        patched = (await api.patch(WIDGETS, "a", {"spec": {"y": None}}, fieldManager="two")).ok()
        assert patched["spec"] == {"x": 1}
        assert entries(patched) == {("one", "Apply", ""): {"f:spec": {"f:x": {}}}}

    async def test_items_of_a_list_with_keys(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        both = {"status": {"conditions": [condition("A"), condition("B")]}}
        (await api.apply(WIDGETS, "a", both, "one", "status")).ok()
        mine = {"status": {"conditions": [condition("C"), condition("B")]}}
        merged = (await api.apply(WIDGETS, "a", mine, "two", "status")).ok()
        assert {c["type"] for c in merged["status"]["conditions"]} == {"A", "B", "C"}
        left = (await api.apply(WIDGETS, "a", {"status": {"n": 1}}, "one", "status")).ok()
        assert {c["type"] for c in left["status"]["conditions"]} == {"B", "C"}
        assert entries(left)["two", "Apply", "status"] == {
            "f:status": {
                "f:conditions": {
                    'k:{"type":"B"}': {".": {}, "f:type": {}, "f:status": {}},
                    'k:{"type":"C"}': {".": {}, "f:type": {}, "f:status": {}},
                }
            }
        }

    async def test_fields_within_an_item(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        (await api.apply(WIDGETS, "a", {"status": {"conditions": [condition("A")]}}, "one", "status")).ok()
        extra = {"status": {"conditions": [{"type": "A", "note": "n"}]}}
        (await api.apply(WIDGETS, "a", extra, "two", "status")).ok()
        left = (await api.apply(WIDGETS, "a", {"status": {"n": 1}}, "one", "status")).ok()
        assert left["status"]["conditions"] == [{"type": "A", "note": "n"}]

    @pytest.mark.parametrize("emptied", [{"spec": {}}, {}])
    async def test_everything(self, api: Api, emptied: Json) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok(201)
        left = (await api.apply(WIDGETS, "a", emptied, "one")).ok()
        assert left.get("spec", {}) == {}
        assert ("one", "Apply", "") in entries(left) or emptied == {}

    async def test_atomic_lists_are_replaced(self, api: Api) -> None:
        (await api.apply(WIDGETS, "a", {"spec": {"list": [1, 2]}}, "one")).ok(201)
        assert (await api.apply(WIDGETS, "a", {"spec": {"list": [3]}}, "one")).ok()["spec"] == {"list": [3]}
        (await api.apply(WIDGETS, "a", {"spec": {"list": [4]}}, "two")).refused(409, "Conflict", ".spec.list")

    async def test_finalizers_are_a_set(self, api: Api) -> None:
        for manager in ("one", "two"):
            config = {"metadata": {"name": "a", "finalizers": [f"example.com/{manager}"]}}
            applied = await api.apply(WIDGETS, "a", config, manager)
            assert applied.status in (200, 201)
        assert applied.body["metadata"]["finalizers"] == ["example.com/one", "example.com/two"]
        left = (await api.apply(WIDGETS, "a", {}, "one")).ok()
        assert left["metadata"]["finalizers"] == ["example.com/two"]

    async def test_a_jobs_conditions_are_one_value(self, api: Api) -> None:
        (await api.create(JOBS, job("a", suspend=True))).ok(201)
        mine = {"status": {"conditions": [condition("example.com/Mine")]}}
        theirs = {"status": {"conditions": [condition("example.com/Theirs")]}}
        (await api.apply(JOBS, "a", mine, "one", "status")).ok()
        refused = await api.apply(JOBS, "a", theirs, "two", "status")
        refused.refused(409, "Conflict", 'conflict with "one" with subresource "status": .status.conditions')


class TestAdmission:
    """What Kueue's core and MultiKueue rest on: a status that several write by apply, each with its own part."""

    CORE, CHECK = "kueue-admission", "kueue.x-k8s.io/multikueue"
    ADMITTED: Json = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]},
        "conditions": [condition("QuotaReserved")],
        "admissionChecks": [{"name": "mk", "state": "Pending"}, {"name": "other", "state": "Ready"}],
    }

    async def write(self, api: Api, status: Json, manager: str) -> Json:
        return (await api.apply(WIDGETS, "a", {"status": status}, manager, "status", force="true")).ok()

    async def test_names_applied_with_the_whole_set_go_by_being_left_out(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        await self.write(api, self.ADMITTED, self.CORE)
        await self.write(api, {**self.ADMITTED, "nominatedClusterNames": ["a", "b"]}, self.CORE)
        selected = await self.write(api, {**self.ADMITTED, "clusterName": "a"}, self.CORE)
        assert "nominatedClusterNames" not in selected["status"]
        assert selected["status"]["clusterName"] == "a"
        assert (await self.write(api, self.ADMITTED, self.CORE))["status"] == self.ADMITTED

    async def test_names_that_were_merged_stay_until_they_are_null_and_leave_no_owner(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        await self.write(api, self.ADMITTED, self.CORE)
        names: Json = {"clusterName": "a", "nominatedClusterNames": ["b"]}
        (await api.patch(WIDGETS, "a", {"status": names}, "status", fieldManager="older")).ok()
        kept = await self.write(api, {**self.ADMITTED, **names}, self.CORE)
        assert names.items() <= (await self.write(api, self.ADMITTED, self.CORE))["status"].items()
        assert ("older", "Update", "status") in entries(kept)
        nulls = {"status": dict.fromkeys(names)}
        cleared = (await api.patch(WIDGETS, "a", nulls, "status", fieldManager="older")).ok()
        assert cleared["status"] == self.ADMITTED
        assert ("older", "Update", "status") not in entries(cleared)
        await self.write(api, {**self.ADMITTED, "clusterName": "b"}, self.CORE)
        assert (await self.write(api, self.ADMITTED, self.CORE))["status"] == self.ADMITTED

    async def test_one_check_is_applied_alone_and_taken_over_by_the_core(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        await self.write(api, self.ADMITTED, self.CORE)
        retry = {"admissionChecks": [{"name": "mk", "state": "Retry", "message": "gone"}]}
        said = await self.write(api, retry, self.CHECK)
        assert said["status"] == {
            **self.ADMITTED,
            "admissionChecks": [*retry["admissionChecks"], {"name": "other", "state": "Ready"}],
        }
        reset = {"name": "mk", "state": "Pending", "message": "Reset to Pending", "retryCount": 1}
        taken = await self.write(
            api, {**self.ADMITTED, "admissionChecks": [reset, self.ADMITTED["admissionChecks"][1]]}, self.CORE
        )
        assert taken["status"]["admissionChecks"][0] == reset
        left = entries(taken)[self.CHECK, "Apply", "status"]
        assert left == {"f:status": {"f:admissionChecks": {'k:{"name":"mk"}': {".": {}, "f:name": {}}}}}

    async def test_a_status_door_leaves_labels_to_whoever_wrote_them(self, api: Api) -> None:
        """Kueue's apply carries labels, ours does not: neither owns them there."""
        obj = widget("a")
        obj["metadata"]["labels"] = {"team": "blue"}
        (await api.create(WIDGETS, obj)).ok(201)
        config = {"metadata": {"name": "a", "labels": {"team": "blue"}}, "status": self.ADMITTED}
        (await api.apply(WIDGETS, "a", config, self.CORE, "status", force="true")).ok()
        assert (await self.write(api, self.ADMITTED, self.CORE))["metadata"]["labels"] == {"team": "blue"}
