"""Judges the database: whether the service can work with it, and keeps what it has written.

In: `DatabaseFacts`. Out: findings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controlplane.doctor.clocks import skew
from controlplane.doctor.facts import DatabaseFacts
from controlplane.doctor.findings import DATABASE, Finding, FindingMaker, Unread, judged
from controlplane.log.schema import MINIMUM_SERVER

_HERE = FindingMaker(DATABASE)
_RIGHTS = "deploy/postgres/roles.sql says which login has which rights; `controlplane db upgrade` grants them"
_ASK = "see that the server answers, and run this again"
SILENT = 10.0
"""Seconds without a heartbeat from the leader that are too many: another replica takes over after three."""
LONG, MANY = 3600.0, 50_000
"""Seconds for which a transaction may be open, and how many old versions of the log's head there may be. An append took
3 to 5 ms more for each 10,000, on two cores of 2026, as far as 30,000."""


def check(facts: DatabaseFacts) -> list[Finding]:
    """Return what there is to say; of a database that cannot be reached only that."""
    if facts.unreachable:
        action = "check database.url (CONTROLPLANE_DATABASE_URL, --database-url), and that the server runs"
        return [_HERE.failed("reachable", f"the database cannot be reached: {facts.unreachable}", action)]
    return judged(DATABASE, CHECKS, facts)


def _server(facts: DatabaseFacts) -> Sequence[Finding]:
    server = facts.server
    if isinstance(server, Unread):
        return [_HERE.unknown("reachable", server, _ASK)]
    version = f"PostgreSQL {server.version // 10000}"
    if server.version < MINIMUM_SERVER:
        return [_HERE.failed("reachable", f"it is {version}", f"upgrade it to {MINIMUM_SERVER // 10000} or newer")]
    return [_HERE.ok("reachable", f"it answers, and is {version}")]


def _writes(facts: DatabaseFacts) -> Sequence[Finding]:
    server = facts.server
    if isinstance(server, Unread):
        return [_HERE.unknown("primary", server, _ASK)]
    if server.standby:
        return [
            _HERE.failed(
                "primary",
                "it is a standby, which takes no writes",
                "let database.url name the primary, or several hosts with target_session_attrs=read-write",
            )
        ]
    if server.read_only:
        return [
            _HERE.failed(
                "primary",
                "default_transaction_read_only is on for this login",
                "ALTER ROLE … RESET default_transaction_read_only, or the same of the database",
            )
        ]
    return [_HERE.ok("primary", "it is the primary, and takes writes")]


def _schema(facts: DatabaseFacts) -> Sequence[Finding]:
    if isinstance(facts.revision, Unread):
        said = facts.revision.said
        if said.startswith("the schema "):
            state, _, action = said.rpartition(": ")
            return [_HERE.failed("schema", state, action)]
        return [_HERE.unknown("schema", facts.revision, "run `controlplane db check`")]
    return [_HERE.ok("schema", f"the schema is up to date ({facts.revision})")]


def _rights(facts: DatabaseFacts) -> Sequence[Finding]:
    login = facts.login
    if isinstance(login, Unread):
        return [_HERE.unknown("rights", login, _RIGHTS)]
    if login.missing:
        return [_HERE.failed("rights", f'"{login.user}" lacks {", ".join(login.missing)}', _RIGHTS)]
    if login.owns or login.beyond:
        may = "owns the schema" if login.owns else f"has {', '.join(login.beyond)}"
        return [
            _HERE.warning(
                "rights",
                f'"{login.user}" {may}, and so can change what is in the log',
                "let the service log in as controlplane_service, or set database.role to it",
            )
        ]
    return [_HERE.ok("rights", f'"{login.user}" may read and append, and change nothing')]


def _tls(facts: DatabaseFacts) -> Sequence[Finding]:
    if facts.unverified_host:
        how = "encrypted, and " if facts.encrypted is True else ""
        return [
            _HERE.warning(
                "tls",
                f"the connection to {facts.unverified_host} is {how}not verified: whoever answers as that host gets"
                " the password and the history",
                "set sslmode=verify-full and sslrootcert in database.url",
            )
        ]
    return [_HERE.ok("tls", "the certificate is verified, or the server is on this machine")]


def _durable(facts: DatabaseFacts) -> Sequence[Finding]:
    server = facts.server
    if isinstance(server, Unread):
        return [_HERE.unknown("durable", server, _ASK)]
    off = [name for name, value in sorted(server.settings.items()) if value == "off"]
    if off:
        return [
            _HERE.warning(
                "durable",
                f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: a crash of the server may lose decisions"
                " that were acted on",
                "set to on in postgresql.conf, and for this role and database",
            )
        ]
    return [_HERE.ok("durable", "what is committed survives a crash of the server")]


def _standbys(facts: DatabaseFacts) -> Sequence[Finding]:
    found = facts.standbys
    if isinstance(found, Unread):
        return [_HERE.unknown("standbys", found, _ASK)]
    many = "1 standby is" if found.connected == 1 else f"{found.connected} standbys are"
    if found.names and not found.connected:
        return [
            _HERE.failed(
                "standbys",
                f"a commit waits for {found.names}, and no standby is connected: nothing can be appended",
                "start a standby; or, if there is none any more, empty synchronous_standby_names",
            )
        ]
    if not found.connected:
        return [_HERE.ok("standbys", "no standby is connected")]
    if not found.names:
        return [
            _HERE.warning(
                "standbys",
                f"{many} connected, and a commit waits for none: one that is promoted may lack what was acted on",
                "set synchronous_standby_names, such as ANY 1 (*)",
            )
        ]
    if found.commit in ("local", "off"):
        return [
            _HERE.warning(
                "standbys",
                f"synchronous_commit is {found.commit} for this login: its commits wait for no standby, though"
                f" synchronous_standby_names is {found.names}",
                "set it to on, for this role and database too (ALTER ROLE … RESET synchronous_commit)",
            )
        ]
    return [_HERE.ok("standbys", f"{many} connected, and a commit waits for {found.names}")]


def _members(facts: DatabaseFacts) -> Sequence[Finding]:
    if isinstance(facts.members, Unread):
        return [_HERE.unknown("members", facts.members, _ASK)]
    writes = [one for one in facts.members if one.writes]
    if len(writes) > 1:
        newest = max(writes, key=lambda one: one.timeline)
        others = [one.name for one in writes if one.timeline < newest.timeline]
        named = " and ".join(f"{one.name} (timeline {one.timeline or 'unknown'})" for one in writes)
        return [
            _HERE.failed(
                "members",
                f"{len(writes)} servers of the URL take writes: {named}",
                f"stop {' and '.join(others) or 'all but one of them'}, and let it follow {newest.name} (pg_rewind)",
            )
        ]
    if silent := [one for one in facts.members if one.silent]:
        said = "; ".join(f"{one.name} does not answer: {one.silent}" for one in silent)
        return [_HERE.warning("members", said, "start it, or leave it out of database.url")]
    if not facts.members:
        return [_HERE.ok("members", "the URL names one server")]
    return [_HERE.ok("members", f"one of the {len(facts.members)} servers of the URL takes writes, and all answer")]


def _disk(facts: DatabaseFacts) -> Sequence[Finding]:
    if isinstance(facts.no_room, Unread):
        return [_HERE.unknown("disk", facts.no_room, "look at the free space of the server's volume")]
    if facts.no_room:
        return [
            _HERE.failed(
                "disk",
                f"the server's volume is full, or has less than 16 MB left: {facts.no_room}",
                "enlarge it, or make room on it (`controlplane log archive` takes old events out); what waits is "
                "appended by itself then",
            )
        ]
    return [_HERE.ok("disk", "the server could write a temporary file of 16 MB")]


def _clock(facts: DatabaseFacts) -> Sequence[Finding]:
    if isinstance(facts.server, Unread):
        return [_HERE.unknown("clock", facts.server, _ASK)]
    return [skew(_HERE, facts.server.clock)]


def _old_versions(facts: DatabaseFacts) -> Sequence[Finding]:
    found = facts.old_versions
    if isinstance(found, Unread):
        return [_HERE.unknown("transactions", found, _ASK)]
    kept = f"the log's head has {found.count:,} old versions, which each append passes by"
    if found.seconds > LONG:
        return [
            _HERE.warning(
                "transactions",
                f"{found.holder} has a transaction open for {found.seconds / 3600:.1f} h, and until it ends nothing old "
                f"is removed: {kept}",
                "end it (pg_terminate_backend), and set idle_in_transaction_session_timeout for people's logins",
            )
        ]
    if found.count > MANY:
        return [
            _HERE.warning(
                "transactions",
                f"{kept}: something keeps them from being removed",
                "look for a long transaction, a prepared one, a replication slot that nobody reads or a standby's long "
                "query (pg_stat_activity, pg_prepared_xacts, pg_replication_slots), and see that autovacuum is on",
            )
        ]
    return [_HERE.ok("transactions", "none that is shown is open for long, and nothing old is kept")]


def _lead(facts: DatabaseFacts) -> Sequence[Finding]:
    lead = facts.lead
    start = (
        "start the service (`controlplane run`), or the scheduler whose log it is (`controlplane scheduler run`), and "
        "look at its messages and at /readyz"
    )
    if isinstance(lead, Unread):
        return [_HERE.unknown("leader", lead, "see that the schema is there and the login may read it")]
    if lead is None:
        return [
            _HERE.warning(
                "leader", "nobody has opened this log yet", f"{start}; or correct database.log (scheduler.log)"
            )
        ]
    where = f"log {lead.log} ({lead.log_id}) at position {lead.position}"
    if lead.age is None:
        return [_HERE.warning("leader", f"nobody leads: {lead.holder} gave epoch {lead.epoch} back; {where}", start)]
    if lead.age > SILENT:
        silent = f"{lead.holder} leads by epoch {lead.epoch}, and sent no heartbeat for {lead.age:.0f} s; {where}"
        return [_HERE.failed("leader", silent, start)]
    since = f"{max(lead.age, 0.0):.1f} s ago"
    return [_HERE.ok("leader", f"{lead.holder} leads by epoch {lead.epoch}, heartbeat {since}; {where}")]


CHECKS: tuple[tuple[str, Callable[[DatabaseFacts], Sequence[Finding]]], ...] = (
    ("reachable", _server),
    ("primary", _writes),
    ("schema", _schema),
    ("rights", _rights),
    ("tls", _tls),
    ("durable", _durable),
    ("standbys", _standbys),
    ("members", _members),
    ("disk", _disk),
    ("transactions", _old_versions),
    ("clock", _clock),
    ("leader", _lead),
)
