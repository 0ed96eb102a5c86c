"""The chain of hashes: what the database makes of a batch, what an owner changes by hand and how it is told, and what
was appended before there was a chain.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from controlplane.__main__ import run as program
from controlplane.cli import cli
from controlplane.log import schema
from controlplane.log.chain import BatchRow, EventRow, batch_hash, event_hash
from controlplane.log.checkpoint import CheckpointError, read_checkpoint
from controlplane.log.event import Body, NewEvent, body_of
from controlplane.log.sealing import CannotSeal, seal
from controlplane.log.verify import NoLog, Verified, checkpoint_of, verify
from tests.audit.database import chain_anew
from tests.log.migrating import migrate
from tests.log.words import Saw, postgres_opener, request

ODD = '"quotes", ünïcode \N{SNOWMAN}, \x00, \\, \n and ' + "long " * 2000


@pytest.fixture
def owner(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(schema.libpq_url(database_url), autocommit=True) as connection:
        yield connection


async def written(url: str, count: int = 5, *bodies: Body, log: str = "main") -> None:
    """Append batches of one, two and three events."""
    async with postgres_opener(url) as opener:
        writer = opener(log)
        await writer.take_epoch("one")
        for number in range(count):
            few = [
                NewEvent(
                    stream=f"s{n}",
                    event=Saw(n=number, text=ODD if n else ""),
                    cluster="east" if n else "",
                    caused_by=number if n else 0,
                    trace="t" * n,
                    observed_at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC) if n else None,
                    bodies=bodies,
                )
                for n in range(1 + number % 3)
            ]
            await writer.append(request(*few))


def checked(owner: psycopg.Connection[Any], **more: Any) -> Verified:
    return verify(owner, "main", **more)


def told(owner: psycopg.Connection[Any], **more: Any) -> list[tuple[int, int, str]]:
    return [(one.first, one.last, one.what) for one in checked(owner, **more).wrong]


async def test_the_database_and_this_program_make_the_same_hashes(database_url: str, owner: Any) -> None:
    await written(database_url)
    log_id = owner.execute("SELECT id FROM controlplane.log_head").fetchone()[0]
    before = None
    batches = owner.execute(
        "SELECT batch, first, last, epoch, recorded_at, hash FROM controlplane.batches ORDER BY last"
    ).fetchall()
    assert len(batches) == 5
    for batch, first, last, epoch, recorded_at, hash_ in batches:
        rows = owner.execute(
            "SELECT position, stream, version, type, schema, data::text, reason, cluster, caused_by, trace, "
            "observed_at, recorded_at FROM controlplane.events WHERE position BETWEEN %s AND %s ORDER BY position",
            (first, last),
        ).fetchall()
        hashes = [event_hash(EventRow(*row)) for row in rows]
        before = batch_hash(before, BatchRow("main", log_id, batch, first, last, epoch, recorded_at), hashes)
        assert bytes(hash_) == before
    assert bytes(owner.execute("SELECT hash FROM controlplane.log_head").fetchone()[0]) == before


async def test_what_was_appended_is_verified_by_whoever_may_read_it(database_url: str, owner: Any) -> None:
    await written(database_url, 5, body_of({"a": "é"}))
    owner.execute("SET ROLE controlplane_service")
    found = checked(owner)
    assert (found.first, found.last, found.events, found.batches, found.bodies, found.wrong) == (1, 9, 9, 5, 1, [])
    later = checked(owner, since=5)
    assert (later.first, later.last, later.wrong) == (4, 9, [])
    with pytest.raises(NoLog, match="ends at position 9"):
        checked(owner, since=10)
    with pytest.raises(NoLog, match="no log other; there are main"):
        verify(owner, "other")


async def test_logs_beside_each_other_have_chains_of_their_own(database_url: str, owner: Any) -> None:
    await written(database_url)
    await written(database_url, log="other")
    assert (checked(owner).wrong, verify(owner, "other").wrong) == ([], [])


@pytest.mark.undistributed("nobody appends with a version before that knows no Citus")
async def test_the_client_s_encoding_has_no_part_in_it(database_url: str, owner: Any) -> None:
    owner.execute("SET client_encoding = 'LATIN1'")
    owner.execute("SELECT * FROM controlplane.take_epoch('main', 'old', '3 s')")
    for function, nonce in (
        ("append_events", "NULL::uuid, NULL::uuid,"),
        ("append", "NULL::uuid, NULL::uuid,"),
        ("append", ""),
    ):
        owner.execute(OLD.format(function, nonce), (1,))
    owner.execute("SET client_encoding = 'UTF8'")
    found = checked(owner)
    assert (found.first, found.last, found.wrong) == (1, 3, [])
    assert owner.execute("SELECT DISTINCT data ->> 'text' FROM controlplane.events").fetchall() == [("é",)]


OLD = (
    "SELECT * FROM controlplane.{}('main', %s, {} gen_random_uuid(), '{{1}}', '{{a}}', '{{\"\"}}', '{{0}}', "
    "'{{Saw}}', '{{1}}', ARRAY['{{\"text\":\"é\"}}'], '{{\"\"}}', '{{\"\"}}', '{{0}}', '{{\"\"}}', '{{NULL}}', "
    "'{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
)


@pytest.mark.undistributed("nobody appends with a version before that knows no Citus")
async def test_appends_of_versions_before_are_in_the_chain(database_url: str, owner: Any) -> None:
    await written(database_url)
    owner.execute("UPDATE controlplane.log_head SET nonce = NULL")
    for function, nonce in (
        ("append_events", "NULL::uuid, NULL::uuid,"),
        ("append", "NULL::uuid, NULL::uuid,"),
        ("append", ""),
    ):
        owner.execute(OLD.format(function, nonce), (1,))
    await written(database_url, 3)
    found = checked(owner)
    assert (found.first, found.last, found.wrong) == (1, 18, [])


CHANGED = "its hash is not that of its rows: an event of it, or the batch itself, was changed or exchanged"
TAMPERING = {
    "a column was changed": ("UPDATE controlplane.events SET reason = 'x' WHERE position = 5", [(4, 6, CHANGED)]),
    "the data was spelled anew": (
        "UPDATE controlplane.events SET data = (data::text || ' ')::json WHERE position = 5",
        [(4, 6, CHANGED)],
    ),
    "null became empty": ("UPDATE controlplane.events SET caused_by = 0 WHERE position = 4", [(4, 6, CHANGED)]),
    "the time was changed": (
        "UPDATE controlplane.events SET recorded_at = now() WHERE position = 9",
        [(8, 9, CHANGED)],
    ),
    "two rows were exchanged": (
        (
            "UPDATE controlplane.events SET position = CASE position WHEN 5 THEN -6 ELSE -5 END WHERE position IN (5, "
            "6); UPDATE controlplane.events SET position = -position WHERE position < 0"
        ),
        [(4, 6, CHANGED)],
    ),
    "a row was removed": (
        "DELETE FROM controlplane.events WHERE position = 6",
        [(4, 6, "2 of its 3 events are there: the others were removed")],
    ),
    "an epoch was changed": ("UPDATE controlplane.batches SET epoch = 7 WHERE first = 4", [(4, 6, CHANGED)]),
    "a hash was removed": (
        "UPDATE controlplane.batches SET hash = NULL WHERE first = 4",
        [(4, 6, "it has no hash: it was put in by hand, or its hash was removed"), (7, 7, CHANGED)],
    ),
    "a batch was removed with its rows": (
        (
            "DELETE FROM controlplane.batches WHERE first = 4; DELETE FROM controlplane.events WHERE position BETWEEN 4 "
            "AND 6"
        ),
        [(7, 7, "the batch before it ends at 3: a batch is missing, or was put in")],
    ),
    "the last batch was removed": (
        "DELETE FROM controlplane.batches WHERE first = 8; DELETE FROM controlplane.events WHERE position >= 8",
        [(8, 9, "the log's head is at 9, and its last batch ends at 7: the last batches were removed")],
    ),
    "the first batch was removed": (
        "DELETE FROM controlplane.batches WHERE first = 1; DELETE FROM controlplane.events WHERE position = 1",
        [(2, 3, "the batch before it ends at 0: a batch is missing, or was put in")],
    ),
    "a batch was put in": (
        (
            "INSERT INTO controlplane.events SELECT log, 10, stream, 99, type, schema, data, reason, cluster, "
            "caused_by, trace, observed_at, recorded_at FROM controlplane.events WHERE position = 9; INSERT INTO "
            "controlplane.batches SELECT log, 10, 10, gen_random_uuid(), epoch, recorded_at, hash FROM "
            "controlplane.batches WHERE first = 8; UPDATE controlplane.log_head SET position = 10"
        ),
        [(10, 10, CHANGED)],
    ),
    "an event was put in outside every batch": (
        (
            "INSERT INTO controlplane.events SELECT log, 12, stream, 99, type, schema, data, reason, cluster, "
            "caused_by, trace, observed_at, recorded_at FROM controlplane.events WHERE position = 9"
        ),
        [(12, 12, "the event is in no batch: it was put in by hand")],
    ),
}


@pytest.mark.parametrize("kind", TAMPERING)
async def test_what_an_owner_changes_is_told_with_its_batch(database_url: str, owner: Any, kind: str) -> None:
    await written(database_url)
    statements, expected = TAMPERING[kind]
    owner.execute(statements)
    assert told(owner) == expected
    if "outside" not in kind and "last" not in kind:
        assert checked(owner).wrong[0].epoch == (7 if "epoch" in kind else 1)


async def test_hashes_that_were_made_anew_differ_from_the_checkpoint(database_url: str, owner: Any) -> None:
    await written(database_url)
    kept = checkpoint_of(owner, "main")
    await written(database_url, 3)
    assert told(owner, checkpoint=kept) == []
    owner.execute("UPDATE controlplane.events SET reason = 'x' WHERE position = 5")
    chain_anew(owner)
    assert told(owner) == []
    ((first, last, what),) = told(owner, checkpoint=kept)
    assert (first, last) == (1, 9)
    assert what.startswith("the hash there is not that of the checkpoint")


async def test_a_log_that_was_cut_lacks_what_the_checkpoint_has(database_url: str, owner: Any) -> None:
    await written(database_url)
    kept = checkpoint_of(owner, "main")
    owner.execute(
        "DELETE FROM controlplane.batches WHERE first = 8; DELETE FROM controlplane.events WHERE position >= 8"
    )
    owner.execute(
        "UPDATE controlplane.log_head h SET position = b.last, hash = b.hash, batch = b.batch FROM "
        "controlplane.batches b WHERE b.log = h.log AND b.last = 7"
    )
    assert told(owner) == []
    ((first, last, what),) = told(owner, checkpoint=kept)
    assert (first, last, "the log ends at 7" in what) == (8, 9, True)


async def test_a_checkpoint_is_of_its_log(database_url: str, owner: Any) -> None:
    await written(database_url)
    kept = checkpoint_of(owner, "main")
    owner.execute("UPDATE controlplane.log_head SET chained_from = 4")
    assert "the chain began at 1" in told(owner, checkpoint=kept)[-1][2]
    owner.execute("UPDATE controlplane.log_head SET chained_from = 1, id = %s", (uuid.uuid4(),))
    assert "the checkpoint is of another log" in told(owner, checkpoint=kept)[-1][2]


async def test_a_body_that_was_changed_is_told_and_one_that_was_redacted_is_not(database_url: str, owner: Any) -> None:
    one, other = body_of({"a": 1}), body_of({"b": 2})
    await written(database_url, 2, one, other)
    owner.execute("UPDATE controlplane.bodies SET body = '{}', redacted = true WHERE hash = %s", (one.hash,))
    found = checked(owner)
    assert (found.bodies, found.redacted, found.bad_bodies) == (2, 1, [])
    owner.execute("UPDATE controlplane.bodies SET body = '{}', redacted = NULL WHERE hash = %s", (other.hash,))
    assert checked(owner).bad_bodies == [other.ref]


async def unchained(url: str, owner: psycopg.Connection[Any]) -> None:
    """Leave behind what versions without hashes have: batches that have none, of which the migration says where they
    end."""
    await written(url)
    owner.execute("UPDATE controlplane.batches SET hash = NULL")
    owner.execute("UPDATE controlplane.log_head SET hash = NULL, chained_from = position + 1")


async def test_what_has_no_hashes_is_not_verified_and_is_sealed_once(database_url: str, owner: Any) -> None:
    await unchained(database_url, owner)
    assert (checked(owner).first, checked(owner).chained_from, checked(owner).wrong) == (None, 10, [])
    with pytest.raises(NoLog, match="begins with the next batch, at position 10"):
        checkpoint_of(owner, "main")
    await written(database_url)
    found = checked(owner)
    assert (found.first, found.last, found.sealed, found.wrong) == (10, 18, False, [])
    kept = checkpoint_of(owner, "main")
    assert (seal(owner, "main"), seal(owner, "main")) == (5, 0)
    found = checked(owner, checkpoint=kept)
    assert (found.first, found.last, found.sealed, found.wrong) == (1, 18, True, [])
    kept = checkpoint_of(owner, "main")
    owner.execute("UPDATE controlplane.events SET reason = 'x' WHERE position = 5")
    assert told(owner) == [(4, 6, CHANGED)]
    owner.execute("UPDATE controlplane.batches SET hash = NULL WHERE last < 10")
    assert told(owner) == []
    assert seal(owner, "main") == 5
    assert told(owner) == []
    ((_, _, what),) = told(owner, checkpoint=kept)
    assert "what was sealed before it, was changed" in what


async def test_what_lacks_events_is_not_sealed(database_url: str, owner: Any) -> None:
    await unchained(database_url, owner)
    owner.execute("DELETE FROM controlplane.events WHERE position = 5")
    with pytest.raises(CannotSeal, match="after position 3"):
        seal(owner, "main")
    assert owner.execute("SELECT count(hash) FROM controlplane.batches").fetchone() == (0,)


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--database-url", url, "log", *arguments])


async def test_the_command_line_verifies_against_a_signed_checkpoint(
    database_url: str, owner: Any, tmp_path: Path
) -> None:
    await written(database_url, 5, body_of({"a": 1}))
    key, other, short, kept = (tmp_path / name for name in ("key", "other", "short", "kept.json"))
    key.write_text("0123456789abcdef\n")
    other.write_text("fedcba9876543210\n")
    short.write_text("short\n")
    kept.write_text(run(database_url, "checkpoint", "--sign", str(key)).stdout)
    assert read_checkpoint(kept).position == 9
    done = run(database_url, "verify", "--checkpoint", str(kept), "--key", str(key))
    assert done.exit_code == 0
    assert done.stdout == (
        "The log main is as it was appended, and as the checkpoint at 9 says (signed): positions 1 to 9, 9 events in "
        "5 batches.\n"
        "1 bodies have the hashes that they are named by.\n"
    )
    for arguments, code, words in (
        (("verify", "--checkpoint", str(kept), "--key", str(other)), 1, "was signed with another key"),
        (("verify", "--checkpoint", str(kept), "--key", str(short)), 2, "has 5 bytes"),
        (("verify", "--key", str(key)), 2, "name its file with --checkpoint"),
        (("verify", "--checkpoint", str(key)), 1, "is no checkpoint"),
        (("checkpoint", "--log", "other"), 5, "no log other; there are main"),
    ):
        failed = run(database_url, *arguments)
        assert (getattr(failed.exception, "code", failed.exit_code), words in str(failed.exception)) == (code, True)
    changed = json.loads(kept.read_text()) | {"position": 8}
    kept.write_text(json.dumps(changed))
    with pytest.raises(CheckpointError, match="changed after it was signed"):
        read_checkpoint(kept).check(b"0123456789abcdef")


async def test_the_command_line_tells_what_is_wrong_and_what_to_do(
    database_url: str, owner: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await written(database_url)
    owner.execute("UPDATE controlplane.events SET reason = 'x' WHERE position = 5")
    failed = run(database_url, "verify")
    said = str(failed.exception)
    assert "the log main is not as it was appended:\n  positions 4 to 6, epoch 1, 20" in said
    assert CHANGED in said
    assert "Compare with a checkpoint" in said
    assert program(["--database-url", database_url, "log", "verify", "-o", "json"]) == 1
    (deviation,) = json.loads(capsys.readouterr().out)["deviations"]
    assert (deviation["first"], deviation["last"], deviation["epoch"]) == (4, 6, 1)


async def test_the_command_line_seals(database_url: str, owner: Any) -> None:
    await unchained(database_url, owner)
    assert "has nothing with a hash yet: its chain begins at position 10" in run(database_url, "verify").stdout
    await written(database_url, 1)
    assert "`controlplane log seal` gives it hashes" in run(database_url, "verify").stdout
    assert run(database_url, "seal").stdout == "5 batches of the log main were sealed.\n"
    assert run(database_url, "seal").stdout == "There is nothing to seal in the log main.\n"
    assert "What is before position 10 was sealed later" in run(database_url, "verify").stdout


def test_the_hash_of_a_batch_rests_on_everything_of_it() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    row = BatchRow("main", uuid.UUID(int=1), uuid.UUID(int=2), 1, 2, 3, at)
    hashes = {batch_hash(before, row, rows) for before in (None, b"", b"a") for rows in ([], [b"a"], [b"b"])}
    hashes |= {batch_hash(None, row._replace(**{name: value}), []) for name, value in (
        ("log", "other"), ("log_id", row.batch), ("batch", row.log_id), ("first", 5), ("last", 5), ("epoch", 5),
        ("recorded_at", datetime(2026, 1, 2, tzinfo=UTC)),
    )}  # fmt: skip
    assert len(hashes) == 16


async def test_the_migration_begins_the_chain_and_the_way_back_ends_it(empty_database_url: str) -> None:
    migrate(empty_database_url, "0011")
    await written(empty_database_url)
    for chained_from in (10, 28):
        migrate(empty_database_url, "0012")
        with psycopg.connect(schema.libpq_url(empty_database_url), autocommit=True) as owner:
            assert checked(owner).first is None
            await written(empty_database_url)
            found = checked(owner)
            assert (found.first, found.last, found.wrong) == (chained_from, chained_from + 8, [])
            assert seal(owner, "main") == (chained_from - 1) // 9 * 5
            assert checked(owner).first == 1
        migrate(empty_database_url, "0011", back=True)
        await written(empty_database_url)
