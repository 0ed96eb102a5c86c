"""The file of evidence: whatever is changed in it is found, with the line."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.audit.evidence import FORMAT, VERSION, Check, NotEvidence, line_of, lines_of, references, sha256
from controlplane.log.event import body_of, canonical

BODY = {"spec": {"podSets": [{"name": "main", "count": 1.5}]}, "labels": {"team": "ä\u2028"}}
REF = body_of(BODY).ref
HEADER: dict[str, Any] = {
    "format": FORMAT,
    "version": VERSION,
    "log": "main",
    "workload": "workload/default/w",
    "streams": {"job/default/w": 1, "workload/default/w": 3},
    "head": 9,
    "exported_at": "2026-01-01T00:00:00Z",
    "program": "0.1.0",
    "bodies": "included",
    "batches": "included",
    "inclusion_proof": None,
}


def event(position: int, stream: str, version: int, **more: Any) -> tuple[str, dict[str, Any]]:
    fields = {
        "position": position,
        "stream": stream,
        "version": version,
        "type": "Seen",
        "schema": 1,
        "reason": "",
        "cluster": "a",
        "data": {"uid": "u"},
        "caused_by": None,
        "trace": "",
        "observed_at": None,
        "recorded_at": "2026-01-01T00:00:00Z",
        "batch": None,
    }
    return "event", fields | more


ROWS = [
    event(2, "cluster/a", 4),
    event(3, "job/default/w", 1),
    event(4, "workload/default/w", 1, data={"template": REF, "note": "\0"}),
    event(5, "workload/default/w", 2, caused_by=2),
    event(7, "workload/default/w", 3, caused_by=4),
    ("body", {"hash": REF, "body": BODY, "redacted": False}),
]
FILE = list(lines_of(HEADER, ROWS))


def checked(lines: list[bytes]) -> Check:
    check = Check()
    for number, line in enumerate(lines, 1):
        check.add(number, line)
    check.close()
    return check


def told(rows: list[tuple[str, dict[str, Any]]], header: dict[str, Any] = HEADER) -> list[tuple[int, str]]:
    """What is wrong with rows that were hashed properly."""
    return checked(list(lines_of(header, rows))).problems


def test_a_file_as_it_was_written() -> None:
    check = checked(FILE)
    assert check.problems == []
    assert (check.events, check.bodies, check.redacted, check.first, check.last) == (5, 1, 0, 2, 7)


def test_a_line_is_what_the_reference_says() -> None:
    """By hand, as somebody would do it without this program."""
    row, digest = line_of("event", {"b": 1, "a": "x"})
    assert digest == hashlib.sha256(b'{"a":"x","b":1,"kind":"event"}').hexdigest()
    assert row == b'{"a":"x","b":1,"kind":"event","sha256":"%s"}\n' % digest.encode()


WHOLE = b"".join(FILE)


@given(at=st.integers(0, len(WHOLE) - 1), value=st.integers(0, 255))
def test_whatever_byte_is_changed_is_found(at: int, value: int) -> None:
    changed = WHOLE[:at] + bytes([value]) + WHOLE[at + 1 :]
    assert found(changed) == (changed != WHOLE)


@given(at=st.integers(0, len(WHOLE) - 1), until=st.integers(1, 300))
def test_whatever_is_cut_out_is_found(at: int, until: int) -> None:
    assert found(WHOLE[:at] + WHOLE[at + until :])


@given(at=st.integers(0, len(WHOLE)), more=st.binary(min_size=1, max_size=40))
def test_whatever_is_put_in_is_found(at: int, more: bytes) -> None:
    assert found(WHOLE[:at] + more + WHOLE[at:])


@given(order=st.permutations(range(len(FILE))))
def test_another_order_is_found(order: list[int]) -> None:
    assert found(b"".join(FILE[index] for index in order)) == (order != list(range(len(FILE))))


def found(data: bytes) -> bool:
    try:
        lines = data.split(b"\n")
        ended = [part + b"\n" for part in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
        return bool(checked(ended).problems)
    except NotEvidence:
        return True


def test_the_line_that_was_changed_is_named() -> None:
    lines = [*FILE]
    lines[4] = lines[4].replace(b'"cluster":"a"', b'"cluster":"b"')
    assert checked(lines).problems == [(5, "its SHA-256 is another one: it was changed")]
    assert [number for number, _ in checked(FILE[:3] + FILE[4:]).problems] == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("rows", "line", "says"),
    [
        ([*ROWS[:3], *ROWS[4:]], 5, "version 3 of workload/default/w follows version 1: events are missing"),
        (ROWS[1:], 4, "its cause, position 2, is not in the file before it"),
        ([*ROWS[:4], ROWS[5]], 7, "workload/default/w ends with version 3, and its last one here is 2"),
        ([ROWS[1], ROWS[0], *ROWS[2:]], 3, "position 2 does not come after 3"),
        ([*ROWS[:5], event(12, "cluster/a", 5)], 7, "position 12 is past the head 9"),
        ([*ROWS[:5], ("body", {"hash": REF, "body": {}, "redacted": False})], 7, "the body is not the one"),
        ([*ROWS[:5], ("body", {"hash": "0" * 64, "body": {}, "redacted": False})], 7, "no event before it names"),
        ([*ROWS, ("proof", {"of": 1})], 8, "a line of the kind 'proof' cannot stand here"),
        ([*ROWS, ("header", HEADER)], 8, "a line of the kind 'header' cannot stand here"),
        ([*ROWS, ("body", {"hash": REF})], 8, "its fields are not those of the format (body, redacted)"),
        ([*ROWS[:4], event("7", "workload/default/w", 3)], 6, "a field is not of its type"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_though_its_hashes_are_right(rows: list[Any], line: int, says: str) -> None:
    assert (line, True) in [(number, text.startswith(says)) for number, text in told(rows)]


def test_a_redacted_body_is_not_held_to_its_hash() -> None:
    check = checked(list(lines_of(HEADER, [*ROWS[:5], ("body", {"hash": REF, "body": {}, "redacted": True})])))
    assert (check.problems, check.redacted) == ([], 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [({"version": 2}, "version 2 of the format"), ({"inclusion_proof": {}}, "which this version cannot check")],
)
def test_what_cannot_be_checked_is_not_passed(change: dict[str, Any], says: str) -> None:
    ((line, text),) = told(ROWS, HEADER | change)
    assert (line, says in text) == (1, True)


@pytest.mark.parametrize("lines", [[b"{}\n"], [b"no\n"], [b"\xff\n"], [b"[1]\n"], [canonical({"format": "x"}) + b"\n"]])
def test_what_is_no_evidence(lines: list[bytes]) -> None:
    with pytest.raises(NotEvidence):
        checked(lines)


def test_what_may_name_a_body() -> None:
    data = {"template": REF, "kept": {"status": "a" * 64, "size": 7}, "list": [{"sized": "b" * 64}], "spec_key": "spec"}
    assert set(references(data)) == {REF, "a" * 64, "b" * 64}
    assert sha256(BODY) == REF
