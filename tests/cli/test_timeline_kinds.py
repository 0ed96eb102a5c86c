"""`timeline` of clusters, queues and nodes, between two times, and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from controlplane.audit.local import PREFIXES
from controlplane.cli.stories import KINDS
from tests.audit import stories
from tests.audit.database import keep
from tests.audit.script import Script
from tests.audit.test_actors import told
from tests.audit.test_views import query
from tests.candidates.told import Told
from tests.cli.conftest import Here
from tests.cli.test_audit_verbs import asked, fails, invoke


def whats(found: dict[str, list[dict[str, str]]]) -> list[str]:
    return [moment["what"] for moment in found["moments"]]


def test_every_kind_of_ones_own_cluster_is_named() -> None:
    assert set(PREFIXES.values()) <= set(KINDS)


@pytest.mark.parametrize(
    "words", [["workload", "team-b/sim"], ["workload/team-b/sim"], ["workloads", "team-b/sim"]], ids=" ".join
)
def test_a_workload_may_be_called_one(fleet_url: str, words: list[str]) -> None:
    assert asked(fleet_url, "timeline", *words) == asked(fleet_url, "timeline", "team-b/sim")


def test_a_cluster(fleet_url: str) -> None:
    found = asked(fleet_url, "timeline", "cluster", "north")
    assert found["workload"] == "cluster/north"
    told_ = whats(found)
    assert "is connected (v1.35.0)" in told_
    runs = query(fleet_url, "SELECT count(*) AS n, count(until) AS ended FROM audit.runs WHERE cluster = 'north'")
    assert (sum(text.endswith(" runs") for text in told_), sum(" ends (" in text for text in told_)) == (
        runs[0]["n"],
        runs[0]["ended"],
    )
    assert "team-b/job-sim-0a1b2 ends (Removed)" in told_
    positions = [moment["position"] for moment in found["moments"]]
    assert positions == sorted(positions)


async def test_a_kind_before_a_slash_is_one_unless_there_is_such_a_namespace(fleet_url: str, database_url: str) -> None:
    assert asked(fleet_url, "timeline", "cluster/north") == asked(fleet_url, "timeline", "cluster", "north")
    script = Script("north")
    script.workload("north", namespace="cluster").job().seen()
    await keep(database_url, script.recorded)
    assert asked(database_url, "timeline", "cluster/north")["workload"] == "workload/cluster/north"
    assert asked(database_url, "timeline", "cluster", "north")["workload"] == "cluster/north"


def test_a_local_queue_and_the_cluster_queue_behind_it(fleet_url: str) -> None:
    local = asked(fleet_url, "timeline", "queue", "team-b/team-b-queue")
    phases = query(fleet_url, "SELECT count(*) AS n FROM audit.workload_phases WHERE queue = 'team-b-queue'")
    assert len(local["moments"]) == phases[0]["n"]
    assert {text.split("/")[0] for text in whats(local)} == {"team-b"}
    both = asked(fleet_url, "timeline", "queue", "cq")
    assert {text.split("/")[0] for text in whats(both)} == {"team-a", "team-b"}
    assert asked(fleet_url, "timeline", "queue/team-b/team-b-queue") == local
    for words in (["localqueue/team-b/team-b-queue"], ["lq", "team-b/team-b-queue"]):
        assert asked(fleet_url, "timeline", *words) == local
    for words in (["clusterqueue/cq"], ["cq/cq"], ["clusterqueues", "cq"]):
        assert asked(fleet_url, "timeline", *words) == both


async def test_a_node_of_a_target(database_url: str) -> None:
    """What the source's log says of it: a candidate was held there and bound, and is gone."""
    story = Told("a", "b").asked().reserves("a").settle().binds("a").settle()
    story.pod_gone().settle().candidate_gone("a").settle()
    await told(database_url, story)
    found = asked(database_url, "timeline", "node", "n")
    assert [(moment["cluster"], moment["type"]) for moment in found["moments"]][-1] == ("a", "CandidateGone")
    assert {"CandidateReserved", "CandidateBound"} <= {moment["type"] for moment in found["moments"]}
    assert all(text.startswith("team/web: ") for text in whats(found))


async def test_a_run_that_is_out_of_view_ends_where_its_cluster_was_lost(database_url: str) -> None:
    await keep(database_url, stories.lost(Script("a", "b", "c")).script.recorded)
    moments = asked(database_url, "timeline", "cluster", "c")["moments"]
    times = [moment["at"] for moment in moments]
    assert times == sorted(times)
    ends = next(moment for moment in moments if moment["what"].endswith(" ends (Lost)"))
    (lost,) = (moment for moment in moments if moment["type"] == "ClusterLost")
    assert (ends["at"], ends["position"]) == (lost["at"], lost["position"])


async def test_what_is_deleted_leaves_its_queue(database_url: str) -> None:
    script = Script("a")
    script.workload("kept").job().seen()
    script.workload("gone").job().seen(deleting=True).gone()
    script.workload("late").job().seen()
    await keep(database_url, script.recorded)
    drawn = invoke(database_url, "timeline", "queue", "default/lq", "-o", "svg").stdout
    still = {text.split(":")[0] for text in drawn.split("<title>") if " still (" in text}
    assert still == {"default/kept", "default/late"}


def test_between_two_times(fleet_url: str) -> None:
    whole = asked(fleet_url, "timeline", "team-b/sim")["moments"]
    part = asked(
        fleet_url, "timeline", "team-b/sim", "--since", "2026-01-01 12:49:24", "--until", "2026-01-01 13:09:25"
    )
    assert part["moments"] == [m for m in whole if "2026-01-01T12:49:24Z" <= m["at"] < "2026-01-01T13:09:25Z"]
    assert len(part["moments"]) == 1
    said = invoke(fleet_url, "timeline", "team-b/sim", "--since", "2026-01-05")
    assert "Nothing happened to workload/team-b/job-sim-0a1b2 in that time." in said.stderr


def test_on_one_cluster(fleet_url: str) -> None:
    whole = asked(fleet_url, "timeline", "team-b/sim")["moments"]
    north = asked(fleet_url, "timeline", "team-b/sim", "--cluster", "north")["moments"]
    assert 0 < len(north) < len(whole)
    assert north == [moment for moment in whole if moment["cluster"] == "north"]
    said = invoke(fleet_url, "timeline", "team-b/sim", "--cluster", "south")
    assert said.exit_code == 0
    assert "Nothing happened to workload/team-b/job-sim-0a1b2 on cluster south; it has to do with " in said.stderr
    assert "north" in said.stderr
    picture = invoke(fleet_url, "timeline", "team-b/sim", "--cluster", "north", "-o", "svg").stdout
    lanes = [group[0].text for group in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}g") if len(group)]
    assert lanes == ["north"]


def test_an_outage_is_told_by_the_settings_of_its_time(fleet_url: str) -> None:
    """The grace was 15 minutes then, and is 30 since."""
    lost = [m for m in asked(fleet_url, "timeline", "team-b/sim")["moments"] if m["type"] == "ClusterLost"]
    assert [moment["why"] for moment in lost] == [
        "it is taken back at 2026-01-01 13:04:24 UTC if the cluster is not back by then"
    ]


@pytest.mark.parametrize(
    ("words", "lanes"),
    [
        (["team-b/sim"], ["management", "east", "north", "west"]),
        (["cluster", "north"], ["connection", "team-b/job-sim-0a1b2", "team-a/job-safe-0a1b2"]),
        (
            ["queue", "team-b/team-b-queue"],
            [f"team-b/job-{name}-0a1b2" for name in ("etl", "fit", "sim", "odd", "next")],
        ),
        (["pod", "team/web"], ["management", "east", "north", "west"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_picture(here: Here, fleet_url: str, words: list[str], lanes: list[str]) -> None:
    ended = here("timeline", *words, "-o", "svg", database_url=fleet_url, database_role="controlplane_reader")
    assert ended.returncode == 0
    root = ET.fromstring(ended.stdout.encode())
    svg = "{http://www.w3.org/2000/svg}"
    named = [title.text for group in root.iter(f"{svg}g") if (title := group.find(f"{svg}title")) is not None]
    assert named == lanes


def test_the_picture_of_a_part(fleet_url: str) -> None:
    part = invoke(
        fleet_url, "timeline", "team-b/sim", "-o", "svg", "--since", "2026-01-01 12:00", "--until", "2026-01-01 13:00"
    ).stdout
    assert "lost from 2026-01-01 12:49:24" in part
    assert "west" not in part
    empty = invoke(fleet_url, "timeline", "team-b/sim", "-o", "svg", "--until", "2025-12-31")
    assert "Nothing happened to workload/team-b/job-sim-0a1b2 in that time." in empty.stderr
    assert ET.fromstring(empty.stdout).tag.endswith("svg")


def test_text_is_the_table(fleet_url: str) -> None:
    table = invoke(fleet_url, "timeline", "team-b/sim", "-o", "text").stdout
    assert table == invoke(fleet_url, "timeline", "team-b/sim").stdout
    assert invoke(fleet_url, "-o", "json", "timeline", "team-b/sim", "-o", "text").stdout == table


BAD: list[tuple[list[str], int, str]] = [
    (["cluster", "north", "--cluster", "north", "-o", "svg"], 2, "the lanes of this picture are not clusters"),
    (["cluster", "nort"], 5, "there is no cluster nort in the log main; did you mean north?"),
    (["queue", "team-a/team-b-queue"], 5, "did you mean team-b/team-b-queue"),
    (["queue", "zzz"], 5, "there is no queue zzz in the log main"),
    (["cluster/nort"], 5, "there is no cluster nort in the log main; did you mean north?"),
    (["node", "n2"], 5, "there is no node n2 in the log main; did you mean n?"),
    (["workload", "team-b/sam"], 5, "did you mean team-b/sim?"),
    (["clutser", "north"], 2, 'nothing is told of the kind "clutser": did you mean cluster?'),
    (["zzz", "north"], 2, "there are workload, cluster, queue, node"),
    (["cluster", "north", "west"], 2, "is not one thing"),
    (["team-b/sim", "--since", "soon"], 2, '--since: "soon" is not a time'),
    (["team-b/sim", "--since", "1h", "--until", "2h"], 2, "nothing is between"),
    ([], 2, "Missing argument"),
]


@pytest.mark.parametrize(
    ("words", "code", "says"), BAD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bad_input(capsys: pytest.CaptureFixture[str], fleet_url: str, words: list[str], code: int, says: str) -> None:
    found, said = fails(capsys, fleet_url, "timeline", *words)
    assert (found, says in said) == (code, True), said


@pytest.mark.parametrize("kind", ["cluster", "queue", "node"])
async def test_a_log_that_is_empty_or_another(capsys: pytest.CaptureFixture[str], database_url: str, kind: str) -> None:
    code, said = fails(capsys, database_url, "timeline", kind, "x")
    assert (code, "the log main is empty" in said) == (5, True)
    script = Script("a")
    await keep(database_url, script.recorded, "second")
    code, said = fails(capsys, database_url, "timeline", kind, "x")
    assert (code, "the logs of this database are second: choose one with --log" in said) == (5, True)


def test_a_schema_that_is_not_there(capsys: pytest.CaptureFixture[str], empty_database_url: str) -> None:
    code, said = fails(capsys, empty_database_url, "timeline", "cluster", "a")
    assert (code, "run `controlplane db upgrade`" in said) == (4, True)
