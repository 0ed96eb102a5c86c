"""The store by direct calls: what the HTTP contract cannot see."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.clusters.protocol import ApiError
from controlplane.kube.kinds import APPLY_PATCH, EVENTS, JOBS, NAMESPACES, SECRETS, Json, Kind
from controlplane.simulation.apiserver.errors import status_body
from controlplane.simulation.apiserver.store import Store, StoreEvent
from controlplane.simulation.kinds.base import CORE_EVENTS, PODS
from tests.simulation.store_kit import GADGETS, Clock, gadget, names, new_store
from tests.support.rows import each


def recorded(store: Store) -> list[tuple[str, str, str]]:
    """Return the growing list of what subscribers are told: type, name, resourceVersion."""
    seen: list[tuple[str, str, str]] = []
    store.subscribe(lambda e: seen.append((e.type, e.object["metadata"]["name"], e.resource_version)))
    return seen


def a_life(store: Store) -> list[Json]:
    """Run one sequence of writes and return every answer."""
    answers = [store.create(GADGETS, {"metadata": {"generateName": "g-", "namespace": "default"}, "spec": {"x": 1}})]
    name = answers[0]["metadata"]["name"]
    answers.append(store.patch(GADGETS, "default", name, {"status": {"n": 1}}, subresource="status"))
    answers.append(
        store.patch(GADGETS, "default", name, {"spec": {"y": 2}}, content_type=APPLY_PATCH, field_manager="m")
    )
    answers.append(store.delete(GADGETS, "default", name))
    return answers


def test_the_same_calls_give_the_same_objects() -> None:
    assert a_life(new_store()) == a_life(new_store())


def test_a_fresh_cluster_has_its_namespaces() -> None:
    assert names(new_store(), NAMESPACES) == ["default", "kube-system"]


class TestAliasing:
    def test_what_goes_in_may_be_changed_afterwards(self) -> None:
        store, obj = new_store(), gadget("a", nested={"x": [1]})
        store.create(GADGETS, obj)
        obj["spec"]["nested"]["x"].append(2)
        assert store.get(GADGETS, "default", "a")["spec"] == {"nested": {"x": [1]}}

    @each("verb", ["create", "get", "list", "update", "patch", "event"])
    def test_what_comes_out_may_be_changed(self, verb: str) -> None:
        store = new_store()
        heard: list[Json] = []
        store.subscribe(lambda event: heard.append(event.object))
        made = store.create(GADGETS, gadget("a", nested={"x": [1]}))
        out: dict[str, Any] = {
            "create": lambda: made,
            "get": lambda: store.get(GADGETS, "default", "a"),
            "list": lambda: store.list(GADGETS)[0][0],
            "update": lambda: store.update(GADGETS, made),
            "patch": lambda: store.patch(GADGETS, "default", "a", {"metadata": {"labels": {"x": "y"}}}),
            "event": lambda: heard[-1],
        }
        out[verb]()["spec"]["nested"]["x"].append(2)
        assert store.get(GADGETS, "default", "a")["spec"] == {"nested": {"x": [1]}}

    def test_a_patch_may_be_changed_afterwards(self) -> None:
        store = new_store()
        store.create(GADGETS, gadget("a"))
        patch = {"spec": {"list": [1]}}
        store.patch(GADGETS, "default", "a", patch)
        patch["spec"]["list"].append(2)
        assert store.get(GADGETS, "default", "a")["spec"]["list"] == [1]


class TestSubscribers:
    def test_hear_every_commit_in_order(self) -> None:
        store = new_store()
        seen = recorded(store)
        store.create(GADGETS, gadget("a"))
        store.patch(GADGETS, "default", "a", {"spec": {"x": 1}})
        store.patch(GADGETS, "default", "a", {"spec": {"x": 1}})
        store.delete(GADGETS, "default", "a")
        assert seen == [("ADDED", "a", "3"), ("MODIFIED", "a", "4"), ("DELETED", "a", "5")]

    def test_hear_nothing_once_they_have_left(self) -> None:
        store = new_store()
        seen: list[StoreEvent] = []
        leave = store.subscribe(seen.append)
        store.create(GADGETS, gadget("a"))
        leave()
        leave()
        store.create(GADGETS, gadget("b"))
        assert len(seen) == 1

    def test_may_write_and_all_hear_one_order(self) -> None:
        store = new_store()

        def react(event: StoreEvent) -> None:
            if event.type == "ADDED" and event.kind == GADGETS and event.object["metadata"]["name"] == "a":
                store.create(GADGETS, gadget("b"))
                store.delete(GADGETS, "default", "b")

        store.subscribe(react)
        seen = recorded(store)
        store.create(GADGETS, gadget("a"))
        assert [(type_, name) for type_, name, _ in seen] == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "b")]
        assert [version for *_, version in seen] == sorted(version for *_, version in seen)

    def test_one_that_fails_fails_the_write_and_not_the_next(self) -> None:
        store = new_store()
        seen = recorded(store)

        def fail(event: StoreEvent) -> None:
            raise RuntimeError(event.type)

        leave = store.subscribe(fail)
        with pytest.raises(RuntimeError, match="ADDED"):
            store.create(GADGETS, gadget("a"))
        leave()
        store.create(GADGETS, gadget("b"))
        assert [name for _, name, _ in seen] == ["a", "b"]


class TestAdmission:
    def test_a_hook_may_refuse(self) -> None:
        store = new_store()

        def refuse(op: str, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
            raise ApiError(403, "Forbidden", f"{op} {kind.kind} {subresource} {old is not None} {new is not None}")

        made = store.create(GADGETS, gadget("a"))
        store.admission.append(refuse)
        refused = {
            "create Gadget  False True": lambda: store.create(GADGETS, gadget("b")),
            "update Gadget  True True": lambda: store.update(GADGETS, made),
            "update Gadget status True True": lambda: store.patch(
                GADGETS, "default", "a", {"status": {"x": 1}}, subresource="status"
            ),
            "delete Gadget  True False": lambda: store.delete(GADGETS, "default", "a"),
        }
        for message, attempt in refused.items():
            with pytest.raises(ApiError) as error:
                attempt()
            assert error.value.message == message
        assert store.get(GADGETS, "default", "a") == made

    def test_a_hook_may_change_what_is_stored_and_nothing_else(self) -> None:
        store = new_store()

        def stamp(op: str, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
            if new is not None and kind == GADGETS:
                new["spec"].setdefault("seen", []).append(op)

        store.admission.append(stamp)
        store.create(GADGETS, gadget("a"))
        before = store.record(GADGETS, "default", "a")
        store.patch(GADGETS, "default", "a", {"status": {"x": 1}}, subresource="status")
        assert before.copy()["spec"] == before.obj["spec"] == {"seen": ["create"]}
        assert store.get(GADGETS, "default", "a")["spec"] == {"seen": ["create", "update"]}

    def test_what_the_system_deletes_is_not_asked_about(self) -> None:
        store = new_store()
        owner = store.create(GADGETS, gadget("owner"))
        store.create(GADGETS, gadget("owned", owners=[owner]))
        asked: list[str] = []
        store.admission.append(lambda op, kind, subresource, old, new: asked.append((old or {})["metadata"]["name"]))
        store.delete(GADGETS, "default", "owner")
        assert (asked, names(store)) == (["owner"], [])


class TestWriting:
    def test_times_are_utc_seconds(self) -> None:
        clock = Clock()
        store = new_store(clock)
        clock.advance(61.9)
        assert store.create(GADGETS, gadget("a"))["metadata"]["creationTimestamp"] == "2026-01-01T00:01:01Z"

    def test_managed_fields_keep_their_time_while_nothing_changes(self) -> None:
        clock = Clock()
        store = new_store(clock)
        first = store.patch(GADGETS, "default", "a", {"spec": {"x": 1}}, content_type=APPLY_PATCH, field_manager="m")
        clock.advance(60)
        again = store.patch(GADGETS, "default", "a", {"spec": {"x": 1}}, content_type=APPLY_PATCH, field_manager="m")
        assert again == first
        changed = store.patch(GADGETS, "default", "a", {"spec": {"x": 2}}, content_type=APPLY_PATCH, field_manager="m")
        assert changed["metadata"]["managedFields"][0]["time"] == "2026-01-01T00:01:00Z"

    def test_a_generated_name_that_is_taken_is_drawn_again(self) -> None:
        uids = iter(["n1", "n2", "same", "same", "other", "x", "y"])
        store = Store("s", kinds=new_store().served.values(), now=Clock(), new_uid=lambda: next(uids))
        obj = {"metadata": {"generateName": "g-", "namespace": "default"}}
        first, second = store.create(GADGETS, obj), store.create(GADGETS, obj)
        assert first["metadata"]["name"] != second["metadata"]["name"]

    def test_a_long_generated_name_is_cut(self) -> None:
        obj = {"metadata": {"generateName": "g" * 80, "namespace": "default"}}
        assert len(new_store().create(GADGETS, obj)["metadata"]["name"]) == 63

    def test_a_dry_run_leaves_no_trace(self) -> None:
        store = new_store()
        store.create(GADGETS, gadget("a"))
        before, seen = store.version, recorded(store)
        store.create(GADGETS, gadget("b"), dry_run=True)
        assert store.patch(GADGETS, "default", "a", {"spec": {"x": 1}}, dry_run=True)["spec"] == {"x": 1}
        store.update(GADGETS, {**store.get(GADGETS, "default", "a"), "spec": {"z": 1}}, dry_run=True)
        store.delete(GADGETS, "default", "a", dry_run=True)
        assert (store.version, seen, names(store)) == (before, [], ["a"])
        assert store.get(GADGETS, "default", "a")["spec"] == {}

    def test_a_kind_that_is_not_served(self) -> None:
        store = new_store(kinds=[])
        with pytest.raises(ApiError) as error:
            store.create(JOBS, gadget("a"))
        assert (error.value.status, error.value.reason) == (404, "NotFound")

    def test_core_events_are_kept_as_their_newer_selves(self) -> None:
        store = new_store()
        with pytest.raises(ApiError):
            store.list(CORE_EVENTS)
        assert store.list(EVENTS)[0] == []

    def test_without_the_namespace_kind_any_namespace_will_do(self) -> None:
        store = new_store(kinds=[served for served in new_store().served.values() if served.kind == GADGETS])
        assert store.create(GADGETS, gadget("a", namespace="anywhere"))["metadata"]["resourceVersion"] == "1"

    def test_a_namespace_is_needed(self) -> None:
        with pytest.raises(ApiError, match="an empty namespace may not be set during creation"):
            new_store().create(GADGETS, {"metadata": {"name": "a"}})

    def test_what_is_not_json_is_refused(self) -> None:
        for broken in ({"metadata": {"name": "a"}, "spec": object()}, {"metadata": []}, []):
            with pytest.raises(ApiError) as error:
                new_store().create(GADGETS, broken)  # type: ignore[arg-type]
            assert error.value.status == 400

    def test_a_secret_is_encoded(self) -> None:
        secret = {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"k": "v"}}
        made = new_store().create(SECRETS, secret)
        assert (made["type"], made["data"], "stringData" in made) == ("Opaque", {"k": "dg=="}, False)

    def test_a_pod_is_pending(self) -> None:
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {}}
        assert new_store().create(PODS, pod)["status"] == {"phase": "Pending"}


class TestListing:
    def test_is_ordered_and_selected(self) -> None:
        store = new_store()
        for name, label in (("b", "x"), ("a", "x"), ("c", "y")):
            obj = gadget(name)
            obj["metadata"]["labels"] = {"l": label}
            store.create(GADGETS, obj)
        assert names(store) == ["a", "b", "c"]
        found, version = store.list(GADGETS, "default", "l=x")
        assert ([obj["metadata"]["name"] for obj in found], version) == (["a", "b"], "5")
        assert store.list(GADGETS, "kube-system")[0] == []


class TestErrors:
    def test_carry_what_a_status_says(self) -> None:
        with pytest.raises(ApiError) as error:
            new_store().get(GADGETS, "default", "a")
        assert status_body(error.value) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": 'gadgets.kit.example.com "a" not found',
            "reason": "NotFound",
            "details": {"name": "a", "group": "kit.example.com", "kind": "gadgets"},
            "code": 404,
        }

    def test_plain_errors_become_a_status_too(self) -> None:
        body = status_body(ApiError(429, "TooManyRequests", "slow down", 3))
        assert (body["code"], body["details"]) == (429, {"retryAfterSeconds": 3})


class TestRestore:
    def test_takes_the_place_of_everything(self) -> None:
        old = new_store()
        owner = old.create(GADGETS, gadget("owner"))
        old.create(GADGETS, gadget("owned", owners=[owner]))
        kept = [(kind, record.copy()) for kind in (NAMESPACES, GADGETS) for record in old.records(kind)]
        new = new_store()
        new.create(GADGETS, gadget("other"))
        new.restore(kept, old.version)
        assert (names(new), new.version) == (["owned", "owner"], old.version)
        new.delete(GADGETS, "default", "owner")
        assert names(new) == []
