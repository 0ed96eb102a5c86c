"""The file of evidence: whatever is changed in it is found, with the line."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.audit.evidence import (
    FORMAT,
    VERSION,
    EvidenceCheck,
    NotEvidence,
    line_of,
    lines_of,
    references,
    sha256,
)
from controlplane.log.chain import BatchRow, EventRow, batch_hash, event_hash
from controlplane.log.event import body_of, canonical
from tests.support.rows import each

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


def checked(lines: list[bytes]) -> EvidenceCheck:
    check = EvidenceCheck()
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


@each(
    ("rows", "line", "says"),
    [
        ([*ROWS[:3], *ROWS[4:]], 5, "version 3 of workload/default/w follows version 1: events are missing"),
        (ROWS[1:], 4, "its cause, position 2, is not in the file before it"),
        ([*ROWS[:4], ROWS[5]], 7, "workload/default/w ends with version 3, and its last one here is 2"),
        ([ROWS[1], ROWS[0], *ROWS[2:]], 3, "position 2 does not come after 3"),
        ([*ROWS[:5], event(12, "cluster/a", 5)], 7, "position 12 is past the head 9"),
        ([*ROWS[:5], ("body", {"hash": REF, "body": {}, "redacted": False})], 7, "the body is not the one"),
        ([*ROWS[:5], ("body", {"hash": "0" * 64, "body": {}, "redacted": False})], 7, "no event before it names"),
        ([*ROWS, ("other", {"of": 1})], 8, "a line of the kind 'other' cannot stand here"),
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
    [
        ({"version": 3}, "version 3 of the format"),
        ({"version": 1, "inclusion_proof": {"log_id": "x", "since": 1}}, "which this version cannot check"),
        ({"inclusion_proof": {}}, "which this version cannot check"),
    ],
)
def test_what_cannot_be_checked_is_not_passed(change: dict[str, Any], says: str) -> None:
    ((line, text),) = told(ROWS, HEADER | change)
    assert (line, says in text) == (1, True)


@pytest.mark.parametrize("lines", [[b"{}\n"], [b"no\n"], [b"\xff\n"], [b"[1]\n"], [canonical({"format": "x"}) + b"\n"]])
def test_what_is_no_evidence(lines: list[bytes]) -> None:
    with pytest.raises(NotEvidence):
        checked(lines)


def test_a_line_that_is_nested_too_deep_is_one_that_is_wrong() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n"
    with pytest.raises(NotEvidence):
        checked([deep])
    assert (2, "it is not a JSON object") in checked([FILE[0], deep, *FILE[1:]]).problems


def test_what_may_name_a_body() -> None:
    data = {"template": REF, "kept": {"status": "a" * 64, "size": 7}, "list": [{"sized": "b" * 64}], "spec_key": "spec"}
    assert set(references(data)) == {REF, "a" * 64, "b" * 64}
    assert sha256(BODY) == REF


LOG_ID, AT = "00000000-0000-0000-0000-000000000001", "2026-01-01T00:00:00Z"


def proven(rows: list[tuple[str, dict[str, Any]]]) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]:
    """Rows whose last two events are of one batch with another event between them, with its proof; and their header."""
    batch, number = "00000000-0000-0000-0000-000000000002", 4
    events = [(kind, row | {"batch": batch} if row.get("position", 0) >= 5 else row) for kind, row in rows]
    texts = {
        str(row["position"]): " " + canonical(row["data"]).decode() for kind, row in events if row.get("batch") == batch
    }
    at = datetime.fromisoformat(AT)
    mine = {
        row["position"]: event_hash(
            EventRow(row["position"], row["stream"], row["version"], "Seen", 1, texts[str(row["position"])], "", "a",
                     row["caused_by"], "", None, at)
        )
        for kind, row in events if row.get("batch") == batch
    }  # fmt: skip
    hashes = [mine.get(position, hashlib.sha256(b"of another Workload").digest()) for position in (5, 6, 7)]
    whole = batch_hash(b"x" * 32, BatchRow("main", UUID(LOG_ID), UUID(batch), 5, 7, number, at), hashes)
    proof = {
        "batch": batch,
        "first": 5,
        "last": 7,
        "epoch": number,
        "recorded_at": AT,
        "before": (b"x" * 32).hex(),
        "hash": whole.hex(),
        "rows": [one.hex() for one in hashes],
        "texts": texts,
    }
    return [*events, ("proof", proof)], HEADER | {"inclusion_proof": {"log_id": LOG_ID, "since": 5}}


def test_the_hash_of_a_batch_follows_from_the_events() -> None:
    rows, header = proven(ROWS)
    check = checked(list(lines_of(header, rows)))
    assert (check.problems, check.batches) == ([], {rows[-1][1]["batch"]: rows[-1][1]["hash"]})


@each(
    ("at", "change", "says"),
    [
        (4, {"reason": "because"}, "the event at position 7 is not the one that the batch has there"),
        (4, {"recorded_at": "2026-01-01T00:00:00.000001Z"}, "the event at position 7 is not the one"),
        (4, {"data": {"uid": "v"}}, "the text of the event at position 7 is not that of its fields"),
        (3, {"batch": LOG_ID}, "the event at position 5 is not the one"),
        (-1, {"epoch": 5}, "is not that of its rows"),
        (-1, {"before": None}, "is not that of its rows"),
        (-1, {"last": 8}, "is not that of its rows"),
        (-1, {"rows": ["00"]}, "the event at position 5 is not the one"),
        (-1, {"rows": ["no"]}, "a field is not of its type"),
        (-1, {"texts": {"5": "{"}}, "a field is not of its type"),
        (-1, {"epoch": "4"}, "a field is not of its type"),
        (4, {"schema": "1"}, "a field is not of its type"),
        (-1, {"texts": {}}, "there is no proof for the event at position 5"),
        (-1, {"texts": {"4": "{}"}}, "the batch has no event at position 4"),
    ],
)
def test_a_proof_that_is_wrong_is_told(at: int, change: dict[str, Any], says: str) -> None:
    rows, header = proven(ROWS)
    rows[at] = (rows[at][0], rows[at][1] | change)
    assert any(says in text for _, text in told(rows, header)), told(rows, header)


def test_a_proof_needs_a_header_that_announces_it() -> None:
    rows, _ = proven(ROWS)
    assert "cannot stand here" in told(rows)[0][1]
