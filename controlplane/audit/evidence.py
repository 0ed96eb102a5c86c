"""The file that proves the story of one Workload: how its lines are spelled, and whether they are as they were written.

In: plain values; or the lines of a file. Out: lines; or what is wrong with which of them. Every line is one JSON object
in the canonical spelling (`controlplane.log.event.canonical`), with the SHA-256 of itself without that field; the last
one has the SHA-256 over those of all lines before it. Pure: no database is needed to check a file.

A file that was changed and hashed anew cannot be told from one that was not: for that a proof is needed that the log
has these events. Its place is `inclusion_proof` in the first line, which is null in this version."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from controlplane.log.event import canonical

FORMAT, VERSION = "controlplane-evidence", 1
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


class Check:
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
            "end": self._end,
        }
        try:
            checks[str(kind)](number, row)
        except (TypeError, AttributeError, KeyError):  # it was compared or counted, and is of another type
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
        except (msgspec.DecodeError, UnicodeDecodeError):
            row = None
        if not isinstance(row, dict):
            self._wrong(number, "it is not a JSON object")
            return None
        if canonical(row) + b"\n" != line:
            self._wrong(number, "it is not in the canonical spelling: it was changed")
        elif row.get("sha256") != sha256({name: value for name, value in row.items() if name != "sha256"}):
            self._wrong(number, "its SHA-256 is another one: it was changed")
        return row

    def _header(self, number: int, row: dict[str, Any]) -> None:
        self.header = row
        if row["version"] != VERSION:
            self._wrong(number, f"version {row['version']} of the format: this program checks version {VERSION}")
        if row["inclusion_proof"] is not None:
            self._wrong(number, "it has a proof of inclusion, which this version cannot check")

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

    def _end(self, number: int, row: dict[str, Any]) -> None:
        self._ended = True
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
