"""Pods that are being deleted before their Workload has a cluster: what comes in their place is dispatched."""

from __future__ import annotations

from tests.multikueue.grouped import RUNS, Pods


def test_a_group_is_not_started_whose_pods_are_kept_by_a_finalizer_alone() -> None:
    """Kueue deletes the pods of a group that it evicts, and reserved quota again before others were in their place:
    each start was taken back, five minutes after the one before, without an end."""
    group = Pods("a", names=("p-0", "p-1"))
    for name in group.names_:
        group.pod(name, deleting=True)
    assert group.writes() == []
    for old, new in (("p-0", "q-0"), ("p-1", "q-1")):
        group.pod(new)
        group.pod_gone(old)
    group.workload(**group.owned("q-0", "q-1"))
    assert "Clone" in [name for name, _ in group.writes()]


def test_nothing_is_started_for_pods_that_are_deleted_while_clusters_are_asked() -> None:
    group = Pods("a", names=("p-0", "p-1")).admitted("a")
    for name in group.names_:
        group.pod(name, deleting=True)
    group.clone("a", RUNS)
    assert group.names() == ["Removal Workload a"]


def test_what_is_started_already_goes_on() -> None:
    """The pods run on the worker, and nothing was written of that yet."""
    group = Pods("a", names=("p-0", "p-1")).admitted("a")
    group.decide()
    for name in group.names_:
        group.copy("a", name)
        group.pod(name, deleting=True)
    assert [name for name in group.names() if name.startswith("Removal")] == []
