"""Creating, replacing, patching: preconditions, generation, the two doors of spec and status."""

from __future__ import annotations

import pytest

from controlplane.kube.kinds import EVENTS, JOBS, NAMESPACES, STRATEGIC_PATCH, Kind
from controlplane.simulation.apiserver.patches import JSON_PATCH
from controlplane.simulation.kinds.base import CONFIG_MAPS, CORE_EVENTS
from tests.simulation.contract.client import MACHINES, WIDGETS, Api, config_map, job, version, widget

EVERY = pytest.mark.parametrize(("kind", "make"), [(JOBS, job), (WIDGETS, widget)], ids=["Job", "Widget"])
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Yes",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


class TestCreate:
    @EVERY
    async def test_answers_201_with_system_metadata(self, api: Api, kind: Kind, make) -> None:
        made = (await api.create(kind, make("a"))).ok(201)
        metadata = made["metadata"]
        assert (made["apiVersion"], made["kind"]) == (kind.api_version, kind.kind)
        assert (metadata["name"], metadata["namespace"], metadata["generation"]) == ("a", api.namespace, 1)
        assert metadata["uid"]
        assert metadata["creationTimestamp"].endswith("Z")
        assert int(metadata["resourceVersion"]) > 0
        assert (await api.get(kind, "a")).ok() == made

    @EVERY
    async def test_a_name_is_taken_once(self, api: Api, kind: Kind, make) -> None:
        (await api.create(kind, make("a"))).ok(201)
        body = (await api.create(kind, make("a"))).refused(409, "AlreadyExists")
        assert body["message"] == f'{kind.name} "a" already exists'
        assert body["details"] == {"name": "a", "group": kind.group, "kind": kind.plural}

    @EVERY
    async def test_generate_name_adds_five_characters(self, api: Api, kind: Kind, make) -> None:
        obj = make("x")
        obj["metadata"] = {"generateName": "pre-"}
        names = {(await api.create(kind, obj)).ok(201)["metadata"]["name"] for _ in range(5)}
        assert len(names) == 5
        assert all(name.startswith("pre-") and len(name) == 9 for name in names)

    @EVERY
    async def test_a_name_is_required_and_checked(self, api: Api, kind: Kind, make) -> None:
        spelled = f"{kind.kind}.{kind.group}"
        nameless = (await api.create(kind, make(""))).refused(422, "Invalid")
        assert f'{spelled} "" is invalid: ' in nameless["message"]
        assert "metadata.name: Required value: name or generateName is required" in nameless["message"]
        (await api.create(kind, make("Not_A_Name"))).refused(
            422, "Invalid", 'metadata.name: Invalid value: "Not_A_Name"'
        )

    async def test_labels_are_checked(self, api: Api) -> None:
        obj = config_map("a")
        obj["metadata"]["labels"] = {"key": "no spaces"}
        (await api.create(CONFIG_MAPS, obj)).refused(422, "Invalid", 'metadata.labels: Invalid value: "no spaces"')

        obj["metadata"]["labels"] = {"not a key": "x"}
        (await api.create(CONFIG_MAPS, obj)).refused(422, "Invalid", 'metadata.labels: Invalid value: "not a key"')

    async def test_the_namespace_must_exist(self, api: Api) -> None:
        body = (await api.create(WIDGETS, widget("a"), namespace="nowhere")).refused(404, "NotFound")
        assert body["message"] == 'namespaces "nowhere" not found'

    async def test_the_namespace_of_body_and_path_must_agree(self, api: Api) -> None:
        obj = widget("a")
        obj["metadata"]["namespace"] = "default"
        (await api.create(WIDGETS, obj)).refused(400, "BadRequest", "does not match the namespace")

    async def test_a_resource_version_is_refused(self, api: Api) -> None:
        obj = widget("a")
        obj["metadata"]["resourceVersion"] = "5"
        answer = await api.create(WIDGETS, obj)
        assert answer.status == 500
        assert answer.body["message"] == "resourceVersion should not be set on objects to be created"

    @EVERY
    async def test_the_status_is_dropped(self, api: Api, kind: Kind, make) -> None:
        made = (await api.create(kind, {**make("a"), "status": {"active": 3}})).ok(201)
        assert made.get("status", {}) == {}

    async def test_a_status_without_subresource_is_kept(self, api: Api) -> None:
        obj = {"apiVersion": MACHINES.api_version, "kind": "Machine", "metadata": {"name": f"m-{api.namespace}"}}
        made = (await api.create(MACHINES, {**obj, "status": {"on": True}})).ok(201)
        assert made["status"] == {"on": True}
        assert "namespace" not in made["metadata"]

    async def test_uid_and_timestamps_are_the_servers(self, api: Api) -> None:
        obj = widget("a")
        obj["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
        metadata = (await api.create(WIDGETS, obj)).ok(201)["metadata"]
        assert metadata["uid"] != "mine"
        assert not metadata["creationTimestamp"].startswith("2001")
        assert metadata["generation"] == 1

    async def test_dry_run_stores_nothing(self, api: Api) -> None:
        made = (await api.create(WIDGETS, widget("a"), dryRun="All")).ok(201)
        assert made["metadata"]["uid"]
        (await api.get(WIDGETS, "a")).refused(404, "NotFound")

    async def test_a_job_gets_its_selector(self, api: Api) -> None:
        made = (await api.create(JOBS, job("a"))).ok(201)
        uid, spec = made["metadata"]["uid"], made["spec"]
        assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        assert spec["template"]["metadata"]["labels"] == {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": "a",
            "controller-uid": uid,
            "job-name": "a",
        }
        assert made["metadata"]["labels"] == spec["template"]["metadata"]["labels"]
        defaults = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}
        assert defaults.items() <= spec.items()
        assert (spec["suspend"], spec["podReplacementPolicy"]) == (False, "TerminatingOrFailed")

    async def test_a_job_takes_the_labels_of_its_template(self, api: Api) -> None:
        obj = job("a")
        obj["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
        assert (await api.create(JOBS, obj)).ok(201)["metadata"]["labels"]["app"] == "x"

    async def test_a_job_may_not_bring_another_jobs_selector(self, api: Api) -> None:
        spec = (await api.create(JOBS, job("a"))).ok(201)["spec"]
        copy = {**job("b"), "spec": spec}
        (await api.create(JOBS, copy)).refused(422, "Invalid", 'Job.batch "b" is invalid')

    async def test_kind_and_version_must_fit_the_path(self, api: Api) -> None:
        gadget = await api.create(WIDGETS, {**widget("a"), "kind": "Gadget"})
        gadget.refused(
            422, "Invalid", 'Gadget.contract.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget'
        )
        (await api.create(JOBS, {**job("a"), "kind": "CronJob"})).refused(400, "BadRequest")
        (await api.create(WIDGETS, {**widget("a"), "apiVersion": "other/v1"})).refused(400, "BadRequest")

    async def test_a_namespace_is_active(self, api: Api) -> None:
        found = (await api.call("GET", NAMESPACES.path(name=api.namespace))).ok()
        assert found["status"] == {"phase": "Active"}
        assert found["spec"] == {"finalizers": ["kubernetes"]}
        assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}

    async def test_an_event_is_seen_in_both_versions(self, api: Api) -> None:
        about = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "namespace": api.namespace, "uid": "u-1"}
        event = {
            "metadata": {"name": "e"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "example.com/me",
            "reportingInstance": "me-1",
            "action": "Look",
            "reason": "Looked",
            "type": "Normal",
            "regarding": about,
            "note": "all well",
        }
        (await api.create(EVENTS, event)).ok(201)
        core = (await api.get(CORE_EVENTS, "e")).ok()
        assert (core["message"], core["involvedObject"], core["reportingComponent"]) == (
            "all well",
            about,
            "example.com/me",
        )
        selector = "involvedObject.uid=u-1,involvedObject.kind=Job"
        assert len((await api.list(CORE_EVENTS, fieldSelector=selector)).ok()["items"]) == 1
        assert (await api.list(CORE_EVENTS, fieldSelector="involvedObject.uid=u-2")).ok()["items"] == []


class TestMissing:
    @EVERY
    async def test_every_verb_on_nothing_is_a_404(self, api: Api, kind: Kind, make) -> None:
        obj = make("a")
        obj["metadata"]["resourceVersion"] = "1"
        for answer in (
            await api.get(kind, "a"),
            await api.update(kind, obj),
            await api.patch(kind, "a", {"spec": {}}),
            await api.patch(kind, "a", {"status": {}}, "status"),
            await api.delete(kind, "a"),
        ):
            body = answer.refused(404, "NotFound")
            assert body["message"] == f'{kind.name} "a" not found'
            assert body["details"] == {"name": "a", "group": kind.group, "kind": kind.plural}

    async def test_what_is_not_served_is_a_404(self, api: Api) -> None:
        gadgets = Kind(WIDGETS.group, "v1", "Gadget", "gadgets")
        answer = await api.list(gadgets)
        assert answer.status == 404
        machine = {"metadata": {"name": f"m-{api.namespace}"}}
        (await api.create(MACHINES, machine | {"apiVersion": MACHINES.api_version, "kind": "Machine"})).ok(201)
        status = await api.patch(MACHINES, machine["metadata"]["name"], {"status": {}}, "status")
        assert status.status == 404


class TestUpdate:
    @EVERY
    async def test_put_replaces(self, api: Api, kind: Kind, make) -> None:
        made = (await api.create(kind, make("a"))).ok(201)
        made["metadata"]["labels"] = {"x": "y"}
        put = (await api.update(kind, made)).ok()
        assert put["metadata"]["labels"] == {"x": "y"}
        assert int(version(put)) > int(version(made))
        assert put["metadata"]["generation"] == 1

    @EVERY
    async def test_a_stale_put_is_refused(self, api: Api, kind: Kind, make) -> None:
        made = (await api.create(kind, make("a"))).ok(201)
        (await api.patch(kind, "a", {"metadata": {"labels": {"x": "y"}}})).ok()
        body = (await api.update(kind, made)).refused(409, "Conflict")
        assert body["message"] == (
            f'Operation cannot be fulfilled on {kind.name} "a": the object has been modified; '
            "please apply your changes to the latest version and try again"
        )

    async def test_a_put_without_version_passes_for_builtin_kinds_only(self, api: Api) -> None:
        (await api.create(CONFIG_MAPS, config_map("a", x="1"))).ok(201)
        assert (await api.update(CONFIG_MAPS, config_map("a", x="2"))).ok()["data"] == {"x": "2"}
        (await api.create(WIDGETS, widget("a"))).ok(201)
        answer = await api.update(WIDGETS, widget("a", x=1))
        answer.refused(422, "Invalid", "metadata.resourceVersion: Invalid value:", "must be specified for an update")

    async def test_the_name_must_fit_the_path(self, api: Api) -> None:
        made = (await api.create(WIDGETS, widget("a"))).ok(201)
        made["metadata"]["name"] = "b"
        answer = await api.call("PUT", WIDGETS.path(api.namespace, "a"), made)
        answer.refused(400, "BadRequest", "does not match the name on the URL")

    @EVERY
    async def test_another_uid_is_a_conflict_in_a_put_and_invalid_in_a_patch(self, api: Api, kind: Kind, make) -> None:
        made = (await api.create(kind, make("a"))).ok(201)
        other = "11111111-1111-1111-1111-111111111111"
        answer = await api.patch(kind, "a", {"metadata": {"uid": other}})
        answer.refused(422, "Invalid", f'metadata.uid: Invalid value: "{other}": field is immutable')
        patch = {"metadata": {"uid": other, "resourceVersion": "1"}}
        (await api.patch(kind, "a", patch)).refused(409, "Conflict", "the object has been modified")
        uid, made["metadata"]["uid"] = made["metadata"]["uid"], other
        text = f"Precondition failed: UID in precondition: {other}, UID in object meta: {uid}"
        (await api.update(kind, made)).refused(409, "Conflict", text)


class TestPatch:
    @EVERY
    async def test_merge_patch_merges_and_null_removes(self, api: Api, kind: Kind, make) -> None:
        obj = make("a")
        obj["metadata"]["annotations"] = {"keep": "1", "drop": "2"}
        (await api.create(kind, obj)).ok(201)
        patched = (await api.patch(kind, "a", {"metadata": {"annotations": {"drop": None, "new": "3"}}})).ok()
        assert patched["metadata"]["annotations"] == {"keep": "1", "new": "3"}

    @EVERY
    async def test_a_resource_version_in_a_patch_is_a_precondition(self, api: Api, kind: Kind, make) -> None:
        made = (await api.create(kind, make("a"))).ok(201)
        patch = {"metadata": {"resourceVersion": version(made), "labels": {"x": "1"}}}
        (await api.patch(kind, "a", patch)).ok()
        patch["metadata"]["labels"] = {"x": "2"}
        (await api.patch(kind, "a", patch)).refused(409, "Conflict", "the object has been modified")

    async def test_a_stale_version_counts_on_the_status_too(self, api: Api) -> None:
        made = (await api.create(WIDGETS, widget("a"))).ok(201)
        patch = {"metadata": {"resourceVersion": version(made)}, "status": {"x": 1}}
        (await api.patch(WIDGETS, "a", patch, "status")).ok()
        patch["status"] = {"x": 2}
        (await api.patch(WIDGETS, "a", patch, "status")).refused(409, "Conflict")

    async def test_json_patch(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a", list=[1, 2], x="y"))).ok(201)
        operations = [
            {"op": "test", "path": "/spec/x", "value": "y"},
            {"op": "add", "path": "/spec/list/-", "value": 3},
            {"op": "replace", "path": "/spec/list/0", "value": 0},
            {"op": "remove", "path": "/spec/x"},
        ]
        patched = (await api.patch(WIDGETS, "a", operations, content_type=JSON_PATCH)).ok()
        assert patched["spec"] == {"list": [0, 2, 3]}
        again = await api.patch(WIDGETS, "a", operations, content_type=JSON_PATCH)
        again.refused(422, "Invalid", "the server rejected our request due to an error in our request")
        missing = [{"op": "remove", "path": "/spec/none"}]
        (await api.patch(WIDGETS, "a", missing, content_type=JSON_PATCH)).refused(422, "Invalid")

    async def test_strategic_merge_is_for_builtin_kinds(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        answer = await api.patch(WIDGETS, "a", {"spec": {"x": 1}}, content_type=STRATEGIC_PATCH)
        answer.refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        (await api.create(JOBS, job("j", suspend=True))).ok(201)
        container = {"name": "main", "env": [{"name": "A", "value": "1"}]}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}, "parallelism": 2}}
        # Only what may change on a suspended Job; the container's env may not, so the list merge shows in a dry run of
        # a refusal.
        refused = await api.patch(JOBS, "j", patch, content_type=STRATEGIC_PATCH, dryRun="All")
        assert refused.status in (200, 422)
        patched = (await api.patch(JOBS, "j", {"spec": {"parallelism": 2}}, content_type=STRATEGIC_PATCH)).ok()
        assert patched["spec"]["parallelism"] == 2

    async def test_strategic_merge_merges_lists_by_key(self, api: Api) -> None:
        obj = config_map("owner")
        uid = (await api.create(CONFIG_MAPS, obj)).ok(201)["metadata"]["uid"]
        (await api.create(CONFIG_MAPS, config_map("a"))).ok(201)
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        for more in ({}, {"blockOwnerDeletion": True}):
            patch = {"metadata": {"ownerReferences": [{**reference, **more}]}}
            patched = (await api.patch(CONFIG_MAPS, "a", patch, content_type=STRATEGIC_PATCH)).ok()
        assert patched["metadata"]["ownerReferences"] == [{**reference, "blockOwnerDeletion": True}]
        patch = {"metadata": {"finalizers": ["example.com/a"]}}
        (await api.patch(CONFIG_MAPS, "a", patch, content_type=STRATEGIC_PATCH)).ok()
        patch = {"metadata": {"finalizers": ["example.com/b"]}}
        patched = (await api.patch(CONFIG_MAPS, "a", patch, content_type=STRATEGIC_PATCH)).ok()
        assert sorted(patched["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]

    async def test_the_name_cannot_change(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        (await api.patch(WIDGETS, "a", {"metadata": {"name": "b"}})).refused(400, "BadRequest")


class TestGeneration:
    @EVERY
    async def test_counts_changes_of_the_spec_only(self, api: Api, kind: Kind, make) -> None:
        (await api.create(kind, make("a", suspend=True))).ok(201)
        labelled = (await api.patch(kind, "a", {"metadata": {"labels": {"x": "y"}}})).ok()
        assert labelled["metadata"]["generation"] == 1
        changed = (await api.patch(kind, "a", {"spec": {"suspend": False}})).ok()
        assert changed["metadata"]["generation"] == 2
        status = (await api.patch(kind, "a", {"status": {"active": 1}}, "status")).ok()
        assert status["metadata"]["generation"] == 2

    async def test_without_subresource_the_status_counts(self, api: Api) -> None:
        name = f"m-{api.namespace}"
        obj = {"apiVersion": MACHINES.api_version, "kind": "Machine", "metadata": {"name": name}}
        (await api.create(MACHINES, obj)).ok(201)
        assert (await api.patch(MACHINES, name, {"status": {"x": 1}})).ok()["metadata"]["generation"] == 2

    async def test_configmaps_have_none(self, api: Api) -> None:
        assert "generation" not in (await api.create(CONFIG_MAPS, config_map("a"))).ok(201)["metadata"]


class TestStatus:
    @EVERY
    async def test_the_main_door_leaves_the_status_alone(self, api: Api, kind: Kind, make) -> None:
        (await api.create(kind, make("a"))).ok(201)
        (await api.patch(kind, "a", {"status": {"active": 1}}, "status")).ok()
        patched = (await api.patch(kind, "a", {"metadata": {"labels": {"x": "y"}}, "status": {"active": 9}})).ok()
        assert patched["status"]["active"] == 1
        assert patched["metadata"]["labels"]["x"] == "y"

    @EVERY
    async def test_the_status_door_leaves_the_spec_alone(self, api: Api, kind: Kind, make) -> None:
        made = (await api.create(kind, make("a"))).ok(201)
        put = {**made, "spec": {**made["spec"], "suspend": True}, "status": {"active": 2}}
        answered = (await api.update(kind, put, "status")).ok()
        assert answered["spec"] == made["spec"]
        assert answered["status"]["active"] == 2

    async def test_the_status_door_leaves_custom_metadata_alone(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        patch = {"metadata": {"labels": {"x": "y"}}, "status": {"n": 1}}
        patched = (await api.patch(WIDGETS, "a", patch, "status")).ok()
        assert "labels" not in patched["metadata"]

    async def test_a_uid_is_no_precondition_of_a_custom_status_patch(self, api: Api) -> None:
        """The metadata sent is dropped before anybody looks at it, except for its resourceVersion."""
        made = (await api.create(WIDGETS, widget("a"))).ok(201)
        other = "11111111-1111-1111-1111-111111111111"
        patched = (await api.patch(WIDGETS, "a", {"metadata": {"uid": other}, "status": {"n": 1}}, "status")).ok()
        assert (patched["metadata"]["uid"], patched["status"]) == (made["metadata"]["uid"], {"n": 1})
        made["metadata"]["uid"], made["metadata"]["resourceVersion"] = other, version(patched)
        (await api.update(WIDGETS, made, "status")).refused(409, "Conflict", "UID in precondition")
        (await api.create(JOBS, job("j"))).ok(201)
        patch = {"metadata": {"uid": other}, "status": {"active": 1}}
        (await api.patch(JOBS, "j", patch, "status")).refused(422, "Invalid", "metadata.uid")

    async def test_the_status_door_takes_a_jobs_labels(self, api: Api) -> None:
        (await api.create(JOBS, job("a"))).ok(201)
        patch = {"metadata": {"labels": {"x": "y"}}, "status": {"active": 1}}
        assert (await api.patch(JOBS, "a", patch, "status")).ok()["metadata"]["labels"]["x"] == "y"

    async def test_the_status_can_be_read_by_itself(self, api: Api) -> None:
        made = (await api.create(WIDGETS, widget("a"))).ok(201)
        assert (await api.call("GET", WIDGETS.path(api.namespace, "a", "status"))).ok() == made


class TestNoChange:
    @EVERY
    async def test_a_write_that_changes_nothing_keeps_the_version(self, api: Api, kind: Kind, make) -> None:
        obj = make("a")
        obj["metadata"]["labels"] = {"x": "y"}
        made = (await api.create(kind, obj)).ok(201)
        same = (await api.patch(kind, "a", {"metadata": {"labels": {"x": "y"}}})).ok()
        assert same == made
        assert (await api.update(kind, made)).ok() == made
        assert (await api.patch(kind, "a", {}, "status")).ok() == made

    async def test_an_apply_that_changes_nothing_keeps_the_version(self, api: Api) -> None:
        first = (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok(201)
        assert (await api.apply(WIDGETS, "a", {"spec": {"x": 1}}, "one")).ok() == first

    async def test_empty_labels_are_not_kept(self, api: Api) -> None:
        made = (await api.create(WIDGETS, widget("a"))).ok(201)
        patch = {"metadata": {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}}
        assert version((await api.patch(WIDGETS, "a", patch)).ok()) == version(made)
