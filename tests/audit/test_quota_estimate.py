"""When a Workload that waits would get quota, by how long runs lasted that have ended."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.audit import quota_estimate
from controlplane.audit.estimate_error import KnownRuns
from controlplane.audit.quota_estimate import Estimate, estimate, plain, sentence
from controlplane.audit.quota_runs import ALL, KIND, QUEUE, Durations, EndedRun, Group, family, kind_of, recorded
from controlplane.audit.quota_wait import answer
from controlplane.audit.reads import READ, LogReader
from controlplane.cli import cli
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.engine.explain import explain, in_line
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.kube import kinds
from controlplane.log.event import Recorded
from tests.audit.database import keep
from tests.audit.queue_history import Run, play
from tests.quota.admission.scene import NS, START, Scene
from tests.support.deep import examples
from tests.support.rows import each

A_RUN = 600.0


def known(events: Iterable[Recorded]) -> tuple[AdmissionIndex, Durations]:
    """Return what admission knows after some events, and how long runs lasted."""
    index, runs, position = AdmissionIndex(EngineSettings()), KnownRuns(), 0
    for one in events:
        runs.fold(one, index)
        index.fold(one)
        position = one.position
    return index, runs.durations(position)


def asked(scene: Scene, name: str, durations: Durations | None = None) -> Estimate:
    index, found = known(scene.log)
    wait = explain(index.engine, f"{NS}/{name}", scene.now.timestamp())
    assert wait is not None
    return estimate(index, found if durations is None else durations, f"{NS}/{name}", wait, scene.now)


def in_seconds(found: Estimate) -> tuple[float | None, float | None]:
    at, late = (None if one is None else (one - START).total_seconds() for one in (found.at, found.late))
    return at, late


def constant(count: int, every: float = 100.0) -> list[Run]:
    return [Run(number * every, f"train-{number}", A_RUN) for number in range(count)]


# --- how long runs lasted ---------------------------------------------------------------------------------------------


@each(
    ("name", "of"),
    [
        ("job-train-00-0a1b2", "job-train"),
        ("train-7", "train"),
        ("train-2026-01-31", "train"),
        ("nightly", "nightly"),
        ("job-nightly-8f3ac", "job-nightly"),
        ("web-x7k2p", "web"),
        ("model-v2", "model-v2"),
        ("7", "7"),
    ],
)
def test_names_of_a_family(name: str, of: str) -> None:
    assert family(name) == of


def test_what_asks_for_something_else_is_of_another_kind() -> None:
    small = [{"name": "main", "count": 1, "requests": {"cpu": 1000}}]
    big = [{"name": "main", "count": 1, "requests": {"cpu": 2000}}]
    assert kind_of("q", "train-1", small) == kind_of("q", "train-2", small)
    assert len({kind_of("q", "train-1", small), kind_of("q", "train-1", big), kind_of("r", "train-1", small)}) == 3


def runs(queue: str, kind: str, *seconds: float) -> list[EndedRun]:
    return [EndedRun(queue, kind, one) for one in seconds]


FIVE = (10.0, 20.0, 30.0, 40.0, 50.0)


@each(
    ("found", "lasted", "group"),
    [
        (runs("q", "k", *FIVE), -1, Group(KIND, "k", FIVE, 5)),
        (runs("q", "k", *FIVE), 30, Group(KIND, "k", (40.0, 50.0), 5)),
        # Too few are of its kind, and enough of its queue, or of all.
        (runs("q", "k", 1) + runs("q", "l", *FIVE), -1, Group(QUEUE, "q", (1.0, *FIVE), 6)),
        (runs("q", "k", 1) + runs("r", "l", *FIVE), -1, Group(ALL, "", (1.0, *FIVE), 6)),
        (runs("q", "k", 1, 2), -1, Group(KIND, "k", (1.0, 2.0), 2)),
        # All of its kind ended before; and one that has lasted little longer is about to end.
        (runs("q", "k", *FIVE) + runs("q", "l", 90), 60, Group(QUEUE, "q", (90.0,), 6)),
        (runs("q", "k", *FIVE) + runs("q", "l", 90), 54, Group(KIND, "k", (54,), 5)),
        (runs("q", "k", *FIVE), 60, None),
        ([], -1, None),
    ],
)
def test_the_runs_that_one_is_judged_by(found: list[EndedRun], lasted: float, group: Group | None) -> None:
    told = Durations(found).group("q", "k", lasted)
    assert (told and told._replace(seconds=tuple(told.seconds))) == group


# --- the estimate -----------------------------------------------------------------------------------------------------


def test_with_constant_durations_it_is_exact() -> None:
    """Four at a time, each for ten minutes: the ninth to come waits for the fifth, which began when the first ended."""
    scene = play(constant(12), until=1150)
    line = names(scene)
    later = play(constant(12), until=10_000)
    began = {
        one.stream.rpartition("/")[2]: (one.recorded_at - START).total_seconds()
        for one in later.log
        if type(one.event).__name__ == "QuotaReservationDecided"
    }
    assert len(line) == 4
    assert [in_seconds(asked(scene, name)) for name in line] == [(began[name], began[name]) for name in line]
    found = asked(scene, line[-1])
    assert [(one.group, one.workloads) for one in found.samples] == [(KIND, 7)]
    assert (found.draws, found.bounded, found.checks, found.reason) == (25, False, False, "")


SECONDS = st.lists(st.integers(1, 2000), min_size=5, max_size=30)


@pytest.mark.generated
@settings(max_examples=examples(4, 60), deadline=None)
@given(SECONDS, st.integers(0, 1500))
def test_who_is_behind_is_not_estimated_earlier_and_the_same_question_has_the_same_answer(
    seconds: list[int], lasted: int
) -> None:
    scene = waiting_scene()
    index, _ = known(scene.log)
    durations = Durations(EndedRun(f"{NS}/q", "k", float(one)) for one in seconds)
    now = scene.now + timedelta(seconds=lasted)
    found = []
    for name in ("w0", "w1", "w2", "w3", "w4"):
        wait = explain(index.engine, f"{NS}/{name}", now.timestamp())
        assert wait is not None
        found.append(estimate(index, durations, f"{NS}/{name}", wait, now))
        assert estimate(index, durations, f"{NS}/{name}", wait, now) == found[-1]
    for before, after in itertools.pairwise(found):
        assert after.at is None or (before.at is not None and before.at <= after.at)
        assert after.late is None or (before.late is not None and before.late <= after.late)
    assert all(one.at is None or one.at >= now for one in found)
    assert all(one.late is None or (one.at is not None and one.at <= one.late) for one in found)


def names(scene: Scene) -> list[str]:
    """Return who waits, in order."""
    engine = scene.controller.index.engine
    return [one.workload.name for one in in_line(engine, engine.queues.pending["q"])]


def waiting_scene() -> Scene:
    """Return four that have quota since the start, and five that came a second after one another."""
    found = play([Run(0, f"h{n}", 9e9) for n in range(4)], until=1)
    for number in range(5):
        found.workload(f"w{number}", "q")
        found.pass_time(1)
    return found


def test_the_longest_that_it_may_run_bounds_a_run() -> None:
    scene = Scene()
    scene.queue("q", "1")
    scene.workload("a", "q", maximumExecutionTimeSeconds=100)
    scene.settle()
    scene.workload("w", "q")
    scene.settle()
    durations = Durations(runs(f"{NS}/q", "k", *(FIVE[0] * 100,) * 5))
    assert in_seconds(asked(scene, "w", durations)) == (100, 100)


def test_the_time_that_it_ran_already_counts() -> None:
    scene = waiting_scene()
    scene.now = START + timedelta(seconds=300)
    durations = Durations(runs(f"{NS}/q", "k", *(100,) * 50, *(400,) * 5))
    assert in_seconds(asked(scene, "w0", durations)) == (400, 400)


@pytest.mark.parametrize(
    ("cpu", "durations", "reason"),
    [
        ("1", [], quota_estimate.NO_RUNS),
        ("1", runs(f"{NS}/q", "k", *FIVE), quota_estimate.LASTING),
        ("9", runs(f"{NS}/q", "k", *FIVE), quota_estimate.NEVER),
    ],
)
def test_where_there_is_none(cpu: str, durations: list[EndedRun], reason: str) -> None:
    scene = waiting_scene()
    scene.pass_time(1000)
    scene.workload("z", "q", cpu)
    scene.settle()
    found = asked(scene, "z", Durations(durations))
    assert (found.at, found.late, found.reason) == (None, None, reason)
    assert sentence(plain(found, scene.now)) == f"No estimate of when: {reason}."


def test_what_waits_for_something_else_has_none() -> None:
    scene = waiting_scene()
    spec = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["spec"]
    scene.put(kinds.CLUSTER_QUEUES, "q", spec={**spec, "namespaceSelector": {"matchLabels": {"a": "b"}}})
    scene.settle()
    assert asked(scene, "w0", Durations(runs(f"{NS}/q", "k", *FIVE))).reason == quota_estimate.NOT_QUOTA


def test_too_many_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = Durations(runs(f"{NS}/q", "k", *FIVE))
    monkeypatch.setattr(quota_estimate, "MOST_DECISIONS", 40)
    found = asked(waiting_scene(), "w4", durations)
    assert (found.draws < quota_estimate.DRAWS, found.bounded, found.at is not None) == (True, True, True)
    monkeypatch.setattr(quota_estimate, "MOST_DECISIONS", 3)
    assert asked(waiting_scene(), "w4", durations).reason == "4 wait before it, too many to follow"


AT = datetime.fromisoformat("2026-01-01T14:05:00+00:00")
TOLD: Sequence[tuple[dict[str, Any], str]] = [
    (
        {},
        "Estimate: admitted at about 2026-01-01 14:05 UTC (in 25m; 9 of 10 by 14:40), from 212 runs of the same queue.",
    ),
    (
        {"late": AT + timedelta(days=1), "samples": [("kind", 40), ("all", 1000)]},
        (
            "Estimate: admitted at about 2026-01-01 14:05 UTC (in 25m; 9 of 10 by 2026-01-02 14:05), from 40 runs of "
            "the same kind and 1000 runs of all queues."
        ),
    ),
    (
        {"seconds": 599.0, "late": AT + timedelta(seconds=31)},
        (
            "Estimate: admitted at about 2026-01-01 14:05:00 UTC (in 9m59s; 9 of 10 by 14:05:31), from 212 runs of "
            "the same queue."
        ),
    ),
    (
        {"late": None, "checks": True, "bounded": True},
        (
            "Estimate: quota at about 2026-01-01 14:05 UTC (in 25m; how late at most is not known), and its admission "
            "checks come after, from 212 runs of the same queue, and not all that wait were followed."
        ),
    ),
]


@pytest.mark.parametrize(("given_", "said"), TOLD)
def test_in_a_sentence(given_: dict[str, Any], said: str) -> None:
    found = {"at": AT, "seconds": 1500.0, "late": AT + timedelta(minutes=35), "reason": "", "draws": 25, "bounded": False,
             "checks": False, "samples": [("queue", 212)], **given_}  # fmt: skip
    found["samples"] = [{"group": group, "runs": count, "workloads": 1} for group, count in found["samples"]]
    assert sentence(found) == said


# --- from a log -------------------------------------------------------------------------------------------------------


async def test_it_is_read_from_the_log(database_url: str) -> None:
    scene = play(constant(12), until=1150)
    await keep(database_url, scene.log, types=READ)
    line = names(scene)
    _, durations = known(scene.log)
    with LogReader.connect(database_url) as reader:
        assert recorded(reader)._groups == durations._groups
        for name in line:
            found = answer(reader, EngineSettings(), NS, name, scene.now)
            assert found is not None
            assert found["estimate"] == plain(asked(scene, name), scene.now)
    said = ["--database-url", database_url, "why", f"{NS}/{line[0]}", "--at", scene.now.isoformat()]
    text = CliRunner().invoke(cli, said, catch_exceptions=False).stdout
    assert (
        "Estimate: admitted at about 2026-01-01 00:20:00 UTC (in 50s; 9 of 10 by 00:20:00), from 4 runs of the same "
        "kind." in text
    )
    told = json.loads(CliRunner().invoke(cli, [*said, "-o", "json"], catch_exceptions=False).stdout)["quota"][
        "estimate"
    ]
    assert (told["at"], told["seconds"], told["reason"]) == ("2026-01-01T00:20:00Z", 50.0, "")
    assert told["samples"] == [{"group": "kind", "runs": 4, "workloads": 4}]
