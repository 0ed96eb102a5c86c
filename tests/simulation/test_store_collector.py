"""Owners and dependents, namespaces and their contents."""

from __future__ import annotations

import pytest

from controlplane.clusters.protocol import ApiError
from controlplane.kube.kinds import JOBS, NAMESPACES, Json
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import CONFIG_MAPS
from tests.simulation.store_kit import GADGETS, gadget, names, new_store

HOLD = "kit.example.com/hold"


def deletions(store: Store) -> list[str]:
    seen: list[str] = []
    store.subscribe(lambda e: seen.append(e.object["metadata"]["name"]) if e.type == "DELETED" else None)
    return seen


def family(store: Store, *, blocking: bool = False) -> Json:
    """Make a grandparent, two children and a grandchild; return the grandparent."""
    top = store.create(GADGETS, gadget("top"))
    child = store.create(GADGETS, gadget("child-1", owners=[top], blocking=blocking))
    store.create(GADGETS, gadget("child-2", owners=[top], blocking=blocking))
    store.create(GADGETS, gadget("grandchild", owners=[child], blocking=blocking))
    return top


class TestOwners:
    def test_background_takes_the_owner_first(self) -> None:
        store = new_store()
        family(store)
        seen = deletions(store)
        store.delete(GADGETS, "default", "top")
        assert seen == ["top", "child-1", "child-2", "grandchild"]
        assert names(store) == []

    def test_foreground_takes_the_owner_last(self) -> None:
        store = new_store()
        family(store, blocking=True)
        seen = deletions(store)
        answer = store.delete(GADGETS, "default", "top", propagation="Foreground")
        assert seen == ["child-2", "grandchild", "child-1", "top"]
        assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert names(store) == []

    def test_foreground_waits_for_what_blocks(self) -> None:
        store = new_store()
        top = store.create(GADGETS, gadget("top"))
        held = gadget("held", owners=[top], blocking=True)
        held["metadata"]["finalizers"] = [HOLD]
        store.create(GADGETS, held)
        store.delete(GADGETS, "default", "top", propagation="Foreground")
        assert names(store) == ["held", "top"]
        assert all("deletionTimestamp" in obj["metadata"] for obj in store.list(GADGETS)[0])
        store.patch(GADGETS, "default", "held", {"metadata": {"finalizers": None}})
        assert names(store) == []

    def test_foreground_does_not_wait_for_what_does_not_block(self) -> None:
        store = new_store()
        top = store.create(GADGETS, gadget("top"))
        held = gadget("held", owners=[top])
        held["metadata"]["finalizers"] = [HOLD]
        store.create(GADGETS, held)
        store.delete(GADGETS, "default", "top", propagation="Foreground")
        assert names(store) == ["held"]

    def test_orphans_lose_their_owner_only(self) -> None:
        store = new_store()
        family(store)
        store.delete(GADGETS, "default", "top", propagation="Orphan")
        assert names(store) == ["child-1", "child-2", "grandchild"]
        assert "ownerReferences" not in store.get(GADGETS, "default", "child-1")["metadata"]
        assert "ownerReferences" in store.get(GADGETS, "default", "grandchild")["metadata"]

    def test_an_owner_that_remains_keeps_the_object(self) -> None:
        store = new_store()
        one, two = store.create(GADGETS, gadget("one")), store.create(GADGETS, gadget("two"))
        store.create(GADGETS, gadget("both", owners=[one, two]))
        store.delete(GADGETS, "default", "one")
        references = store.get(GADGETS, "default", "both")["metadata"]["ownerReferences"]
        assert [reference["name"] for reference in references] == ["two"]
        store.delete(GADGETS, "default", "two")
        assert names(store) == []

    def test_what_is_created_for_an_owner_that_is_gone_goes_too(self) -> None:
        store = new_store()
        gone = store.create(GADGETS, gadget("gone"))
        store.delete(GADGETS, "default", "gone")
        seen = deletions(store)
        made = store.create(GADGETS, gadget("late", owners=[gone]))
        assert made["metadata"]["name"] == "late"
        assert (names(store), seen) == ([], ["late"])

    def test_an_owner_in_another_namespace_counts_as_gone(self) -> None:
        store = new_store()
        elsewhere = store.create(GADGETS, gadget("elsewhere", namespace="kube-system"))
        store.create(GADGETS, gadget("a", owners=[elsewhere]))
        assert names(store) == ["elsewhere"]

    def test_a_cluster_scoped_owner_counts(self) -> None:
        store = new_store()
        node = store.get(NAMESPACES, "", "kube-system")
        store.create(GADGETS, gadget("a", owners=[node]))
        assert names(store) == ["a"]

    def test_a_successor_of_the_same_name_is_no_owner(self) -> None:
        store = new_store()
        first = store.create(GADGETS, gadget("owner"))
        held = gadget("held", owners=[first])
        held["metadata"]["finalizers"] = [HOLD]
        store.create(GADGETS, held)
        store.delete(GADGETS, "default", "owner")
        store.create(GADGETS, gadget("owner"))
        assert "deletionTimestamp" in store.get(GADGETS, "default", "held")["metadata"]

    def test_an_ownership_that_is_added_later_counts(self) -> None:
        store = new_store()
        owner = store.create(GADGETS, gadget("owner"))
        store.create(GADGETS, gadget("a"))
        references = gadget("x", owners=[owner])["metadata"]["ownerReferences"]
        store.patch(GADGETS, "default", "a", {"metadata": {"ownerReferences": references}})
        store.delete(GADGETS, "default", "owner")
        assert names(store) == []

    def test_an_ownership_that_is_taken_off_does_not(self) -> None:
        store = new_store()
        owner = store.create(GADGETS, gadget("owner"))
        store.create(GADGETS, gadget("a", owners=[owner]))
        store.patch(GADGETS, "default", "a", {"metadata": {"ownerReferences": None}})
        store.delete(GADGETS, "default", "owner")
        assert names(store) == ["a"]

    def test_a_finalizer_holds_the_dependents_until_the_owner_goes(self) -> None:
        store = new_store()
        top = gadget("top")
        top["metadata"]["finalizers"] = [HOLD]
        made = store.create(GADGETS, top)
        store.create(GADGETS, gadget("child", owners=[made]))
        store.delete(GADGETS, "default", "top")
        assert names(store) == ["child", "top"]
        store.patch(GADGETS, "default", "top", {"metadata": {"finalizers": None}})
        assert names(store) == []

    def test_dependents_may_be_of_another_kind(self) -> None:
        store = new_store()
        owner = store.create(JOBS, {"metadata": {"name": "j", "namespace": "default"}})
        store.create(GADGETS, gadget("a", owners=[owner]))
        store.delete(JOBS, "default", "j")
        assert names(store) == []


class TestNamespaces:
    def test_take_their_contents_along(self) -> None:
        store = new_store()
        store.create(NAMESPACES, {"metadata": {"name": "n"}})
        store.create(GADGETS, gadget("a", namespace="n"))
        store.create(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "n"}})
        store.create(GADGETS, gadget("b"))
        seen = deletions(store)
        answer = store.delete(NAMESPACES, "", "n")
        assert answer["status"] == {"phase": "Terminating"}
        assert seen[-1] == "n"
        assert set(seen) == {"a", "c", "n"}
        assert (names(store), names(store, NAMESPACES)) == (["b"], ["default", "kube-system"])

    def test_wait_for_what_finalizers_hold(self) -> None:
        store = new_store()
        store.create(NAMESPACES, {"metadata": {"name": "n"}})
        held = gadget("held", namespace="n")
        held["metadata"]["finalizers"] = [HOLD]
        store.create(GADGETS, held)
        store.delete(NAMESPACES, "", "n")
        with pytest.raises(ApiError) as error:
            store.create(GADGETS, gadget("late", namespace="n"))
        assert (error.value.status, error.value.reason) == (403, "Forbidden")
        store.patch(GADGETS, "n", "held", {"metadata": {"finalizers": None}})
        assert names(store, NAMESPACES) == ["default", "kube-system"]
