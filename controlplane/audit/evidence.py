"""The file that proves the story of one Workload: how its lines are spelled, and whether they are as they were written.

In: plain values; or the lines of a file. Out: lines; or what is wrong with which of them. Every line is one JSON object
in the canonical spelling (`controlplane.log.event.canonical`), with the SHA-256 of itself without that field; the last
one has the SHA-256 over those of all lines before it. Pure: no database is needed to check a file.

A file that was changed and hashed anew cannot be told from one that was not by its own hashes. A proof of inclusion has
the batches in which the events were committed, each with the hashes of all its rows, so that the hash of the batch
follows from the events: it is the one that the log has, and that whoever kept a checkpoint of the log can check."""

from __future__ import annotations

import hashlib
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from controlplane.log.chain import BatchRow, EventRow, batch_hash, event_hash
from controlplane.log.event import canonical

FORMAT, VERSION = "controlplane-evidence", 2
_VERSIONS = (1, 2)
"""Files of version 1 have no proofs."""
_OF_ANOTHER_TYPE = (
    TypeError,
    AttributeError,
    KeyError,
    ValueError,
    OverflowError,
    struct.error,
    msgspec.MsgspecError,
    RecursionError,
)
_HASH = re.compile(r"[0-9a-f]{64}")
_FIELDS = {
    "header": {
        "format", "version", "log", "workload", "streams", "head", "exported_at", "program", "bodies", "batches",
        "inclusion_proof",
    },
    "event": {
        "position", "stream", "version", "type", "schema", "reason", "cluster", "data", "caused_by", "trace",
        "observed_at", "recorded_at", "batch",
    },
    "body": {"hash", "body", "redacted"},
    "proof": {"batch", "first", "last", "epoch", "recorded_at", "before", "hash", "rows", "texts"},
    "end": {"lines", "all"},
}  # fmt: skip


class NotEvidence(Exception):  # noqa: N818
    """The file is none of these at all."""


def sha256(value: Any) -> str:
    """Return the SHA-256 of a value's canonical spelling, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def line_of(kind: str, value: dict[str, Any]) -> tuple[bytes, str]:
    """Return a line and its hash."""
    row = {"kind": kind, **value}
    digest = sha256(row)
    return canonical({**row, "sha256": digest}) + b"\n", digest


def lines_of(header: dict[str, Any], rows: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[bytes]:
    """Yield the lines of a file: the header, rows by kind and value, and the end."""
    whole, count = hashlib.sha256(), 0
    for kind, value in (("header", header), *rows):
        line, digest = line_of(kind, value)
        whole.update(digest.encode())
        count += 1
        yield line
    yield line_of("end", {"lines": count, "all": whole.hexdigest()})[0]


def references(data: Any) -> Iterator[str]:
    """Yield what in an event's fields may be the hash of a body."""
    if isinstance(data, str):
        if _HASH.fullmatch(data):
            yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from references(value)
    elif isinstance(data, list):
        for value in data:
            yield from references(value)


class EvidenceCheck:
    """Checks a file line by line. `problems` are those found: the number of the line, and what is wrong with it."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.problems: list[tuple[int, str]] = []
        self.events, self.bodies, self.redacted = 0, 0, 0
        self.first, self.last = 0, 0
        self._whole, self._lines, self._ended = hashlib.sha256(), 0, False
        self._versions: dict[str, int] = {}
        self._named: set[str] = set()
        self._positions: set[int] = set()
        self._events: dict[int, dict[str, Any]] = {}
        self.batches: dict[str, str] = {}
        """The hashes of the batches whose proof is right, by their ids."""

    def add(self, number: int, line: bytes) -> None:
        """Take the next line; `NotEvidence` if the first one shows that the file is none of these."""
        row = self._row(number, line)
        if number == 1 and (row is None or row.get("format") != FORMAT):
            raise NotEvidence(f'its first line is not a header of the format "{FORMAT}"')
        if row is None:
            return
        if self._ended:
            self._wrong(number, "it comes after the end")
        kind = row.get("kind")
        expected = _FIELDS.get(str(kind))
        if expected is None or (kind == "header") != (number == 1):
            self._wrong(number, f"a line of the kind {kind!r} cannot stand here")
            return
        if {"kind", "sha256", *expected} != row.keys():
            odd = sorted({"kind", "sha256", *expected} ^ row.keys())
            self._wrong(number, f"its fields are not those of the format ({', '.join(odd)})")
            return
        checks: dict[str, Callable[[int, dict[str, Any]], None]] = {
            "header": self._header,
            "event": self._event,
            "body": self._body,
            "proof": self._proof,
            "end": self._end,
        }
        try:
            checks[str(kind)](number, row)
        except _OF_ANOTHER_TYPE:  # it was compared or counted, and is of another type
            self._wrong(number, "a field is not of its type")
        if kind != "end":
            self._whole.update(str(row["sha256"]).encode())
            self._lines += 1

    def close(self) -> None:
        """Take note that the file has no more lines."""
        if not self._ended:
            self._wrong(self._lines + 1, "the file ends before its end: lines are missing")

    @property
    def streams(self) -> list[str]:
        """The streams of which all events are in the file."""
        return sorted(self.header.get("streams", {}))

    def _wrong(self, number: int, text: str) -> None:
        self.problems.append((number, text))

    def _row(self, number: int, line: bytes) -> dict[str, Any] | None:
        """Return a line's object, after its spelling and its hash were checked; None if it has none."""
        try:
            row = msgspec.json.decode(line)
            spelled = canonical(row)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            row = spelled = None
        if not isinstance(row, dict) or spelled is None:
            self._wrong(number, "it is not a JSON object")
            return None
        if spelled + b"\n" != line:
            self._wrong(number, "it is not in the canonical spelling: it was changed")
        elif row.get("sha256") != sha256({name: value for name, value in row.items() if name != "sha256"}):
            self._wrong(number, "its SHA-256 is another one: it was changed")
        return row

    def _header(self, number: int, row: dict[str, Any]) -> None:
        self.header = row
        if row["version"] not in _VERSIONS:
            self._wrong(number, f"version {row['version']} of the format: this program checks versions up to {VERSION}")
        proof = row["inclusion_proof"]
        if proof is not None and (row["version"] == 1 or proof.keys() != {"log_id", "since"}):
            self._wrong(number, "it has a proof of inclusion, which this version cannot check")
            self.header = {**row, "inclusion_proof": None}

    def _event(self, number: int, row: dict[str, Any]) -> None:
        position, stream, version = row["position"], row["stream"], row["version"]
        if position <= self.last:
            self._wrong(number, f"position {position} does not come after {self.last}")
        if position > self.header["head"]:
            self._wrong(number, f"position {position} is past the head {self.header['head']} of the log")
        before = self._versions.get(stream, 0)
        whole = stream in self.header["streams"]
        if version <= before or (whole and version != before + 1):
            self._wrong(number, f"version {version} of {stream} follows version {before}: events are missing")
        cause = row["caused_by"]
        if cause is not None and (cause not in self._positions or cause >= position):
            self._wrong(number, f"its cause, position {cause}, is not in the file before it")
        self._versions[stream] = version
        self._positions.add(position)
        if self.header["inclusion_proof"] is not None and position >= self.header["inclusion_proof"]["since"]:
            self._events[position] = row
        self._named.update(references(row["data"]))
        self.first, self.last = self.first or position, position
        self.events += 1

    def _body(self, number: int, row: dict[str, Any]) -> None:
        self.bodies += 1
        if row["hash"] not in self._named:
            self._wrong(number, f"no event before it names the body {row['hash']}")
        if row["redacted"]:
            self.redacted += 1
        elif sha256(row["body"]) != row["hash"]:
            self._wrong(number, f"the body is not the one that has the hash {row['hash']}")

    def _proof(self, number: int, row: dict[str, Any]) -> None:
        """Make the hash of a batch anew: of the events that the file has, and of the hashes of all others."""
        proof, first, rows = self.header["inclusion_proof"], row["first"], [bytes.fromhex(one) for one in row["rows"]]
        if proof is None:
            self._wrong(number, "a line of the kind 'proof' cannot stand here")
            return
        for position, text in row["texts"].items():
            event, at = self._events.pop(int(position), None), int(position) - first
            if event is None or not first <= int(position) <= row["last"]:
                self._wrong(number, f"the batch has no event at position {position} that comes before it")
            elif canonical(msgspec.json.decode(text)) != canonical(event["data"]):
                self._wrong(number, f"the text of the event at position {position} is not that of its fields")
            elif event["batch"] != row["batch"] or [_event_hash(event, text)] != rows[at : at + 1]:
                self._wrong(number, f"the event at position {position} is not the one that the batch has there")
        batch = BatchRow(
            self.header["log"],
            uuid.UUID(proof["log_id"]),
            uuid.UUID(row["batch"]),
            first,
            row["last"],
            row["epoch"],
            datetime.fromisoformat(row["recorded_at"]),
        )
        before = None if row["before"] is None else bytes.fromhex(row["before"])
        if len(rows) != row["last"] - first + 1 or batch_hash(before, batch, rows).hex() != row["hash"]:
            self._wrong(number, f"the hash of the batch {row['batch']} is not that of its rows")
        else:
            self.batches[row["batch"]] = row["hash"]

    def _end(self, number: int, row: dict[str, Any]) -> None:
        self._ended = True
        if self._events:
            self._wrong(number, f"there is no proof for the event at position {min(self._events)}")
        for stream, version in self.header["streams"].items():
            if self._versions.get(stream, 0) != version:
                self._wrong(
                    number,
                    f"{stream} ends with version {version}, and its last one here is {self._versions.get(stream, 0)}",
                )
        if row["lines"] != self._lines:
            self._wrong(number, f"{row['lines']} lines were written before it, and {self._lines} are there")
        elif row["all"] != self._whole.hexdigest():
            self._wrong(number, "the SHA-256 over all lines is another one: lines were changed or exchanged")


def _event_hash(event: dict[str, Any], text: str) -> bytes:
    observed = event["observed_at"]
    return event_hash(
        EventRow(
            event["position"],
            event["stream"],
            event["version"],
            event["type"],
            event["schema"],
            text,
            event["reason"],
            event["cluster"],
            event["caused_by"],
            event["trace"],
            None if observed is None else datetime.fromisoformat(observed),
            datetime.fromisoformat(event["recorded_at"]),
        )
    )
