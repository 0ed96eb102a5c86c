"""Chunks to lines, lines to deltas, lists to differences: the pure part of following a kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.clusters.deltas import Bookmark, KnownObject, Poison, WatchFailure, of_item, of_line, vanished
from controlplane.clusters.lines import LineSplitter, LineTooLong
from controlplane.clusters.listing import Listing, remember, suspect
from controlplane.clusters.protocol import Change
from controlplane.kube.kinds import JOBS, WORKLOADS
from tests.clusters.miniapi import line, obj
from tests.support.rows import each

pieces = st.lists(st.binary(min_size=0, max_size=12).map(lambda b: b.replace(b"\n", b"x")), max_size=12)


@given(pieces, st.lists(st.integers(1, 9), max_size=40))
def test_lines_do_not_depend_on_how_the_stream_is_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"unfinished"
    splitter, found = LineSplitter(), []
    for size in [*cuts, len(stream)]:
        chunk, stream = stream[:size], stream[size:]
        found += splitter.feed(chunk)
    assert found == [line for line in lines if line.strip()]


def test_a_line_without_end_is_refused() -> None:
    splitter = LineSplitter(limit=100)
    splitter.feed(b"x" * 100)
    with pytest.raises(LineTooLong):
        splitter.feed(b"x")


def test_changes_lose_managed_fields_and_know_their_kind() -> None:
    found = of_line(JOBS, line("MODIFIED", obj("a", 7)))
    assert isinstance(found, Change)
    assert (found.op, found.resource_version, found.object["kind"], found.object["apiVersion"]) == (
        "modified",
        "7",
        "Job",
        "batch/v1",
    )
    assert "managedFields" not in found.object["metadata"]


@each(
    ("entries", "manager"),
    [
        ([], ""),
        (None, ""),
        ("none", ""),
        ([{"manager": "kubectl", "time": "2026-01-01T00:00:00Z"}], "kubectl"),
        ([{"manager": "b", "time": "2026-01-02T00:00:00Z"}, {"manager": "a", "time": "2026-01-01T00:00:00Z"}], "b"),
        ([{"manager": "a", "time": "2026-01-01T00:00:00Z"}, {"manager": "b", "time": "2026-01-01T00:00:00Z"}], "b"),
        (
            [
                {"manager": "a", "time": "2026-01-01T00:00:00Z"},
                {"manager": "kueue", "time": "2026-01-02T00:00:00Z", "subresource": "status"},
            ],
            "a",
        ),
        ([{"manager": 7, "time": "2026-01-01T00:00:00Z"}, {"manager": "a"}, "a", {"time": "2026"}], ""),
    ],
)
def test_who_wrote_the_object_last_is_said_whatever_the_entries_are(entries: Any, manager: str) -> None:
    seen = obj("a", 7)
    seen["metadata"]["managedFields"] = entries
    found = of_line(JOBS, line("MODIFIED", seen))
    assert isinstance(found, Change)
    assert found.manager == manager


def test_lines_that_are_no_change() -> None:
    assert of_line(JOBS, line("BOOKMARK", {"metadata": {"resourceVersion": "9"}})) == Bookmark("9")
    assert isinstance(of_line(JOBS, line("ERROR", {"code": 410})), WatchFailure)


@each(
    "raw",
    [
        b"{",
        b"null",
        b"[]",
        b"<html>",
        b"\xff",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":[]}',
        b'{"type":"ADDED","object":{}}',
        b'{"type":"ADDED","object":{"metadata":null}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":1,"uid":"u","resourceVersion":"1"}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
        b'{"type":"ODD","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}}',
        b'{"type":7,"object":{}}',
        b"[" * 5000,
    ],
)
def test_poison_lines(raw: bytes) -> None:
    assert isinstance(of_line(JOBS, raw), Poison)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda x: (
        st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(["type", "object", "metadata", "name", "uid"]), x)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["ADDED", "DELETED", "ERROR", "BOOKMARK", "X"]), json_values)
def test_no_line_is_beyond_it(type_: str, value: Any) -> None:
    of_line(WORKLOADS, json.dumps({"type": type_, "object": value}).encode())
    of_line(WORKLOADS, json.dumps(value).encode())
    of_item(WORKLOADS, value)


def test_a_vanished_object_keeps_only_its_identity() -> None:
    assert vanished(WORKLOADS, "u", KnownObject("ns", "a", "3"), "9") == Change(
        "gone",
        WORKLOADS,
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "a", "namespace": "ns", "uid": "u"},
        },
        "9",
    )


names = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"), max_size=6)


@given(names, names, st.integers(1, 7))
def test_a_listing_turns_what_was_known_into_what_is_there(
    before: dict[str, str], now: dict[str, str], size: int
) -> None:
    known = {name + uid: KnownObject("ns", name, "1") for name, uid in before.items()}
    start = dict(known)
    listing, ops = Listing(WORKLOADS, known), []
    items = [obj(name, 5, name + uid) for name, uid in now.items()]
    for at in range(0, len(items), size):
        deltas = listing.page(items[at : at + size], "9")
        remember(known, deltas)
        ops += deltas
    ops += listing.gone("9")
    remember(known, listing.gone("9"))
    assert set(known) == {name + uid for name, uid in now.items()}
    gone = {delta.object["metadata"]["uid"] for delta in ops if isinstance(delta, Change) and delta.op == "gone"}
    assert gone == set(start) - set(known)
    for name, uid in now.items():  # the object that had the name goes before the one that has it comes
        order = [
            (d.op, d.object["metadata"]["uid"])
            for d in ops
            if isinstance(d, Change) and d.object["metadata"]["name"] == name
        ]
        assert order[-1] == ("listed", name + uid)


@pytest.mark.parametrize("changed", [5, 11])
def test_an_end_that_is_told_again_is_no_newer_than_what_took_its_place(changed: int) -> None:
    """The log may have both, and takes no version of an object twice: the end alone would be news, and the last word on
    the name.
    """
    known = {"old": KnownObject("ns", "a", "1")}
    taken: dict[str, int] = {}
    named: dict[str, str] = {}
    for version, at in (("9", 5), ("12", changed)):
        deltas = Listing(WORKLOADS, known).page([obj("a", at, "new")], version)
        suspect(known, deltas)  # the connection broke while the log took it
        for delta in deltas:
            assert isinstance(delta, Change)
            uid, mark = delta.object["metadata"]["uid"], int(delta.resource_version)
            if mark > taken.get(uid, 0):
                taken[uid] = mark
                named["a"] = "" if delta.op == "gone" else uid
    assert named == {"a": "new"}


def test_nothing_is_gone_by_a_list_that_could_not_be_read_whole() -> None:
    listing = Listing(WORKLOADS, {"uid-a": KnownObject("ns", "a", "1")})
    listing.page([{"metadata": {"name": "a"}}], "9")
    assert listing.gone("9") == []
    assert len(listing.poisons) == 1
