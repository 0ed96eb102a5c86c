"""A group of pods with several roles: which of the pods that come in the places of others are created."""

from __future__ import annotations

import pytest

from tests.multikueue.grouped import TWO, Pods

LEADS, WORKS = {"role": "1ead"}, {"role": "w0rk"}


@pytest.mark.parametrize("order", [("q-0", "q-1"), ("q-1", "q-0")])
def test_of_several_roles_that_one_is_not_done_again_which_has_succeeded(order: tuple[str, str]) -> None:
    """It was told by number: a worker was made again that was done, and the leader was not."""
    group = Pods("a", names=("p-0", "p-1", "p-2")).running()
    group.pod("p-0", **WORKS).pod("p-1", **WORKS).pod("p-2", **LEADS)
    group.copy("a", "p-1", status=TWO, finished=True, inactive=True, succeeded=True, **WORKS)
    group.copy("a", "p-2", status=TWO, finished=True, inactive=True, **LEADS)
    group.pod_gone("p-1").pod_gone("p-2")
    works, leads = order
    group.pod(works, **WORKS).pod(leads, **LEADS).workload(**group.owned("p-0", "q-0", "q-1"))
    assert group.writes() == [("JobCreation", leads)]
    assert group.writes() == []


def test_the_place_of_one_that_has_succeeded_is_not_taken_by_another_role() -> None:
    """The pod in the place of the leader came first, and waited for the one in the place of the worker."""
    group = Pods("a", names=("p-0", "p-1", "p-2")).running()
    group.pod("p-0", **WORKS).pod("p-1", **WORKS).pod("p-2", **LEADS)
    group.copy("a", "p-1", status=TWO, finished=True, inactive=True, succeeded=True, **WORKS)
    group.copy("a", "p-2", status=TWO, finished=True, inactive=True, **LEADS)
    group.pod_gone("p-1").pod_gone("p-2").pod("q-2", **LEADS).workload(**group.owned("p-0", "q-2"))
    assert group.writes() == [("JobCreation", "q-2")]
    group.pod("q-1", **WORKS).workload(**group.owned("p-0", "q-1", "q-2"))
    assert group.writes() == []


@pytest.mark.parametrize("unknown", ["q-1", "p-1"])
def test_where_a_role_is_not_known_as_many_are_not_done_again_as_have_succeeded(unknown: str) -> None:
    """What an earlier version recorded, and pods that Kueue does not look after here, say nothing of it."""
    group = Pods("a", names=("p-0", "p-1", "p-2")).running()
    done = {} if unknown == "p-1" else WORKS
    group.copy("a", "p-1", status=TWO, finished=True, inactive=True, succeeded=True, **done)
    group.copy("a", "p-2", status=TWO, finished=True, inactive=True, **LEADS)
    group.pod_gone("p-1").pod_gone("p-2")
    group.pod("q-1", **({} if unknown == "q-1" else WORKS)).pod("q-2", **LEADS)
    group.workload(**group.owned("p-0", "q-1", "q-2"))
    assert group.writes() == [("JobCreation", "q-1")]
