"""How a Workload waited for quota, interval by interval."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
from click.testing import CliRunner

from controlplane.audit.quota_past import WaitInterval, intervals, missing, others, plain, worth_telling
from controlplane.audit.quota_story import OF_WORKLOAD
from controlplane.audit.reads import READ
from controlplane.cli import cli
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import events as admission
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.controllers.quota.engine.reasons import MissingQuota
from controlplane.log.event import Event, Recorded
from tests.audit.database import keep
from tests.audit.samples import sample
from tests.docs.without_kueue import scene
from tests.quota.admission.scene import NS, START
from tests.support.rows import each

UNUSED = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, {} more needed"


def seen(*conditions: tuple[str, str, str], **fields: Any) -> Event:
    said = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    given = {"active": True, "deleting": False, "status": {"conditions": said}, **fields}
    return sample(admission.AdmissionWorkloadObserved, **given)


def waits(message: str = "", why: str = "WaitingForQuota", victims: Sequence[str] = ()) -> Event:
    return sample(admission.WorkloadInadmissible, why=why, message=message, cluster_queue="cq", victims=list(victims))


RESERVED = sample(admission.QuotaReservationDecided)
PREEMPTED = sample(admission.WorkloadPreemptionDecided, preemptor="team/urgent")
OVERTAKEN = sample(admission.QuotaPosted, reason=AdmissionReason.RESERVATION_OVERTAKEN)
GONE = sample(admission.AdmissionWorkloadGone)
HAS = seen(("QuotaReserved", "True", "QuotaReserved"))
EVICTED = seen(("Evicted", "True", "Preempted"), ("QuotaReserved", "False", "Pending"))


def log(*events: Event) -> list[Recorded]:
    """Return events of a Workload, a second apart."""
    return [
        Recorded(
            position=number,
            stream=f"{OF_WORKLOAD}team/w",
            version=number,
            event=event,
            cluster=MANAGEMENT,
            recorded_at=START + timedelta(seconds=number - 1),
        )
        for number, event in enumerate(events, start=1)
    ]


def told(found: Sequence[WaitInterval]) -> list[tuple[Any, ...]]:
    return [
        (
            int((one.since - START).total_seconds()),
            None if one.until is None else int((one.until - START).total_seconds()),
            one.reason,
            missing(one),
            others(one),
        )
        for one in found
    ]


FOUR, SEVEN = "4 of cpu in flavor default", "7 of cpu in flavor default"
TABLE: Sequence[tuple[str, Sequence[Event], Sequence[tuple[Any, ...]]]] = [
    ("never waited", [seen(), RESERVED, HAS], [(0, 1, "", "", "")]),
    (
        "another amount",
        [seen(), waits(UNUSED.format(4)), waits(UNUSED.format(7)), RESERVED, HAS],
        [(0, 1, "", "", ""), (1, 2, "WaitingForQuota", FOUR, ""), (2, 3, "WaitingForQuota", SEVEN, "")],
    ),
    (
        "equal neighbours are one, and the condition that says the same is no other",
        [
            seen(),
            waits(UNUSED.format(4)),
            seen(("QuotaReserved", "False", "WaitingForQuota")),
            waits(UNUSED.format(4)),
            seen(("QuotaReserved", "False", "PendingEvaluation")),
        ],
        [(0, 1, "", "", ""), (1, None, "WaitingForQuota", FOUR, "")],
    ),
    (
        "a victim that is being evicted is the same one",
        [
            waits(UNUSED.format(4), "WaitingForPreemptedWorkloads", ["team/a"]),
            waits(UNUSED.format(4), "WaitingForPreemptedWorkloads", ["team/a is being evicted"]),
        ],
        [(0, None, "WaitingForPreemptedWorkloads", FOUR, "team/a preempted for it")],
    ),
    (
        "a queue that is stopped",
        [
            seen(),
            waits(UNUSED.format(4)),
            seen(("QuotaReserved", "False", "Suspended")),
            seen(("QuotaReserved", "False", "PendingEvaluation")),
        ],
        [
            (0, 1, "", "", ""),
            (1, 2, "WaitingForQuota", FOUR, ""),
            (2, 3, "Suspended", "", ""),
            (3, None, "PendingEvaluation", "", ""),
        ],
    ),
    (
        "preempted, and waits again",
        [HAS, PREEMPTED, HAS, EVICTED, waits(UNUSED.format(4)), RESERVED, HAS, EVICTED],
        [
            (3, 4, "Pending", "", "it was preempted for team/urgent"),
            (4, 5, "WaitingForQuota", FOUR, "it was preempted for team/urgent"),
            (7, None, "Pending", "", ""),
        ],
    ),
    ("a reservation that was overtaken", [seen(), RESERVED, OVERTAKEN], [(0, 1, "", "", ""), (2, None, "", "", "")]),
    (
        "a reservation that is not seen yet",
        [seen(), RESERVED, seen(), HAS],
        [(0, 1, "", "", "")],
    ),
    ("deactivated", [seen(), seen(active=False)], [(0, 1, "", "", "")]),
    ("finished", [seen(), seen(("Finished", "True", "Succeeded"))], [(0, 1, "", "", "")]),
    ("gone, and another one of its name", [seen(), GONE, seen()], [(0, 1, "", "", ""), (2, None, "", "", "")]),
    (
        "another one of its name, which a list shows before it says that the one before is gone",
        [HAS, PREEMPTED, EVICTED, waits(UNUSED.format(4)), seen(uid="second"), GONE, waits(UNUSED.format(7))],
        [
            (2, 3, "Pending", "", "it was preempted for team/urgent"),
            (3, 4, "WaitingForQuota", FOUR, "it was preempted for team/urgent"),
            (4, 6, "", "", ""),
            (6, None, "WaitingForQuota", SEVEN, ""),
        ],
    ),
    ("nothing", [], []),
]


@each(("events", "wanted"), [one[1:] for one in TABLE], ids=[one[0] for one in TABLE])
def test_intervals(events: Sequence[Event], wanted: Sequence[tuple[Any, ...]]) -> None:
    assert told(intervals(log(*events))) == list(wanted)


def test_what_lasted_no_time_is_left_out_and_its_neighbours_are_one() -> None:
    events = log(seen(), waits(UNUSED.format(4)), waits(UNUSED.format(7)), waits(UNUSED.format(4)))
    events[2:] = [msgspec.structs.replace(one, recorded_at=events[2].recorded_at) for one in events[2:]]
    assert [one[2:4] for one in told(intervals(events))] == [("", ""), ("WaitingForQuota", FOUR)]


def test_who_never_waited_for_a_second_has_nothing_to_tell() -> None:
    short = log(seen(), RESERVED)
    short[1] = msgspec.structs.replace(short[1], recorded_at=START + timedelta(milliseconds=20))
    assert len(intervals(short)) == 1
    assert worth_telling(intervals(short)) == []
    assert worth_telling(intervals(log(seen()))) == intervals(log(seen()))


def test_of_a_scene_with_a_preemption() -> None:
    events = scene(earlier=0).log
    found = {
        name: told(intervals(one for one in events if one.stream == f"{OF_WORKLOAD}{NS}/{name}"))
        for name in ("nightly", "urgent", "train", "report")
    }
    assert found == {
        "nightly": [(240, None, "WaitingForQuota", FOUR, f"it was preempted for {NS}/urgent")],
        "urgent": [(180, 240, "WaitingForPreemptedWorkloads", FOUR, f"{NS}/nightly preempted for it")],
        "train": [
            (120, 240, "WaitingForQuota", "8 of cpu in flavor default", ""),
            (240, None, "WaitingForQuota", SEVEN, ""),
        ],
        "report": [],
    }


def test_intervals_follow_one_another() -> None:
    events = scene(earlier=0).log
    for name in ("nightly", "urgent", "train"):
        found = intervals(one for one in events if one.stream == f"{OF_WORKLOAD}{NS}/{name}")
        assert all(one.until is not None and one.until <= after.since for one, after in itertools.pairwise(found))


async def test_why_tells_them(database_url: str) -> None:
    await keep(database_url, scene(earlier=0).log, types=READ)
    asked = ["--database-url", database_url, "why", f"{NS}/nightly"]
    text = CliRunner().invoke(cli, asked, catch_exceptions=False).stdout
    assert "WAITED FROM (UTC)" in text
    assert "it was preempted for team/urgent" in text
    (one,) = json.loads(CliRunner().invoke(cli, [*asked, "-o", "json"], catch_exceptions=False).stdout)["waited"]
    assert one["missing"] == [{"flavor": "default", "resource": "cpu", "amount": "4", "never": False}]
    assert (one["since"], one["until"], one["cluster_queue"]) == ("2026-01-01T00:04:00Z", None, "batch")
    assert (one["preemptor"], one["victims"]) == ("team/urgent", [])
    # As of a time only what was recorded by then is told: it had quota.
    then = json.loads(
        CliRunner().invoke(cli, [*asked, "--at", "2026-01-01T00:02:00Z", "-o", "json"], catch_exceptions=False).stdout
    )
    assert (then["state"], then["waited"]) == ("Admitted", [])
    admitted = CliRunner().invoke(cli, ["--database-url", database_url, "why", f"{NS}/report"], catch_exceptions=False)
    assert "WAITED" not in admitted.stdout


def test_plain_values_have_all_fields() -> None:
    (one,) = intervals(log(waits(UNUSED.format(4))))
    assert set(plain(one)) == set(one.__struct_fields__)
    assert one.missing == (MissingQuota("default", "cpu", "4"),)
