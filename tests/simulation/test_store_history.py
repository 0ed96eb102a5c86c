"""The ring of commits: resuming, forgetting, looking back. The store's state at a version is what it was then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.clusters.protocol import ApiError
from controlplane.kube.kinds import JOBS, NAMESPACES, WORKLOADS, Json
from controlplane.simulation.apiserver.store import Store
from tests.simulation.store_kit import GADGETS, gadget, names, new_store

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["create", "patch", "delete"])), max_size=30)


def run(store: Store, steps: list[tuple[str, str]]) -> dict[int, list[Json]]:
    """Carry out those steps that are possible; return the whole state at every version."""
    states = {store.version: store.list(GADGETS)[0]}
    for name, verb in steps:
        exists = name in names(store)
        if verb == "create" and not exists:
            store.create(GADGETS, gadget(name, x=0))
        elif verb == "patch" and exists:
            store.patch(GADGETS, "default", name, {"spec": {"x": store.version}})
        elif verb == "delete" and exists:
            store.delete(GADGETS, "default", name)
        states[store.version] = store.list(GADGETS)[0]
    return states


@given(STEPS)
def test_rewinding_gives_every_state_that_was(steps: list[tuple[str, str]]) -> None:
    store = new_store()
    states = run(store, steps)
    for version, state in states.items():
        past = store.ring(GADGETS).rewind(store.records(GADGETS), version)
        assert [record.copy() for record in sorted(past, key=lambda record: record.place)] == state


@given(STEPS, st.integers(0, 30))
def test_replaying_commits_on_any_state_gives_the_present(steps: list[tuple[str, str]], start: int) -> None:
    store = new_store()
    states = run(store, steps)
    version = sorted(states)[start % len(states)]
    state = {obj["metadata"]["name"]: obj for obj in states[version]}
    ring = store.ring(GADGETS)
    for commit in ring.after(ring.seek(version), 1000):
        if commit.type == "DELETED":
            del state[commit.record.name]
        else:
            state[commit.record.name] = commit.record.copy()
    assert sorted(state) == names(store)
    assert list(dict(sorted(state.items())).values()) == store.list(GADGETS)[0]


def filled(history: int, count: int) -> Store:
    store = new_store(history=history)
    for number in range(count):
        store.create(GADGETS, gadget(f"g{number}"))
    return store


def test_a_version_within_the_ring_can_be_resumed_from() -> None:
    store = filled(history=3, count=5)
    ring = store.ring(GADGETS)
    assert [commit.record.name for commit in ring.after(ring.seek(store.version - 2), 10)] == ["g3", "g4"]
    assert [commit.record.name for commit in ring.after(ring.seek(ring.floor), 10)] == ["g2", "g3", "g4"]
    assert ring.after(ring.seek(store.version), 10) == []


def test_a_version_before_the_ring_is_gone() -> None:
    ring = filled(history=3, count=5).ring(GADGETS)
    with pytest.raises(ApiError) as error:
        ring.seek(ring.floor - 1)
    assert (error.value.status, error.value.reason) == (410, "Expired")
    assert error.value.message == f"too old resource version: {ring.floor - 1} ({ring.floor})"


def test_a_cursor_that_fell_out_is_gone() -> None:
    store = new_store(history=3)
    cursor = store.ring(GADGETS).end
    for number in range(5):
        store.create(GADGETS, gadget(f"g{number}"))
    with pytest.raises(ApiError) as error:
        store.ring(GADGETS).after(cursor, 1)
    assert error.value.status == 410


def test_compacting_forgets_everything_but_the_present() -> None:
    store = filled(history=100, count=3)
    ring = store.ring(GADGETS)
    store.compact()
    with pytest.raises(ApiError):
        ring.seek(store.version - 1)
    now = store.version
    store.create(GADGETS, gadget("late"))
    assert [commit.record.name for commit in ring.after(ring.seek(now), 10)] == ["late"]


def test_kinds_have_histories_of_their_own() -> None:
    store = filled(history=3, count=5)
    assert store.ring(GADGETS).floor > 0
    assert all(store.ring(kind).floor == 0 for kind in (JOBS, WORKLOADS, NAMESPACES))
