"""A log that an earlier version wrote says what it said, and the same follows from it."""

from __future__ import annotations

import json

from controlplane.log.codec import Codec
from controlplane.log.event import Unknown
from tests.interface.logs import FOLDER, consequences, host_of, recorded, written
from tests.support.rows import each

NAMES = sorted(file.stem for file in FOLDER.glob("*.jsonl"))


def test_there_are_logs_of_each_process() -> None:
    assert {name.rpartition("-")[0] for name in NAMES} == {"workloads", "source", "target", "local", "local-scheduler"}


@each("name", NAMES)
def test_the_same_follows(name: str) -> None:
    found = json.loads(json.dumps(consequences(name)))
    kept = json.loads((FOLDER / f"{name}.json").read_text())
    for part, value in kept.items():
        assert found[part] == value, part


@each("name", NAMES)
def test_what_is_read_is_written_again_as_it_was(name: str) -> None:
    codec = Codec(host_of(name).types)
    for line in written(name):
        event = recorded(line, codec).event
        assert not isinstance(event, Unknown), line
        again, schema, data = codec.encode(event)
        assert again == line.type
        if schema == line.schema:
            assert json.loads(data) == json.loads(line.data), line.position
