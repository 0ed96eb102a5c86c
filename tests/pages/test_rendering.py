"""Pages of made-up answers: what comes from a cluster is text, and a small chart stays in its frame."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.audit.lanes import Bar, Lane
from controlplane.pages.templating import address, drawn, environment, spark, told
from controlplane.pages.trends import STEP, STEPS, Stretch
from controlplane.pages.views.workloads import WorkloadItem, WorkloadList

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script>\" onload=\"alert(1)\x07"


def around(**more: Any) -> dict[str, Any]:
    def link(path: str, **given: Any) -> str:
        return address(path, "", **given)

    shown = {
        "link": link, "other": lambda **given: link("/workloads", **given), "back": "/", "here": "/workloads", "path_here": "/workloads",
        "at": "", "kept": [], "log": "main", "position": 1, "stale": "", "unrecorded": "", "begun": NOW, "page": "workloads", "live": True,
        "past": True, "given": {"sort": "name"}, "path": {}, "now": NOW, "evidence": True, "everything": True,
    }  # fmt: skip
    return shown | more


def test_what_comes_from_a_cluster_is_text() -> None:
    one = WorkloadItem(
        namespace=HOSTILE, name=HOSTILE, state="Pending", queue=HOSTILE, kind=HOSTILE, owner=HOSTILE, cluster=HOSTILE,
        waits_for=HOSTILE, since=NOW, changed=NOW,
    )  # fmt: skip
    it = WorkloadList(items=[one], total=1, after="", namespaces=[HOSTILE])
    page = environment().get_template("workloads.html").render(around(it=it, stale=HOSTILE, given={"sort": HOSTILE}))
    assert "<script>alert" not in page
    assert not re.search(r'<[^>]*" onload="', page)
    lanes = [Lane(name=HOSTILE, bars=[Bar(word="running", since=NOW, until=None, text=HOSTILE, position=7)])]
    picture = drawn(HOSTILE, lanes, NOW + timedelta(hours=1), "6h")
    assert "<script" not in picture
    assert '<a href="/events/7?at=6h"' in picture
    assert "<style" not in picture


@pytest.mark.parametrize("last", [0, 1, 35, STEPS - 1])
def test_a_small_chart_stays_in_its_frame(last: int) -> None:
    stretches = [
        Stretch(
            since=NOW + number * STEP,
            placed=4 if number == last else 0,
            waited=2.5 if number == last else None,
            refused=0,
        )
        for number in range(STEPS)
    ]
    for field, said in (("placed", "4 in 6 h"), ("waited", "2.5 s on average in 6 h")):
        chart = spark(stretches, field)
        (begin, height, wide) = map(float, re.findall(r"M([\d.]+) \d+v(-[\d.]+)h([\d.]+)", chart)[0])
        assert begin >= 0
        assert begin + wide <= 120
        assert height == -24
        assert said in chart
    assert spark(stretches, "refused") == ""


def test_a_wait_is_the_average_of_all_that_were_placed() -> None:
    stretches = [
        Stretch(since=NOW, placed=3, waited=1.0, refused=0),
        Stretch(since=NOW + STEP, placed=0, waited=None, refused=0),
        Stretch(since=NOW + 2 * STEP, placed=1, waited=5.0, refused=0),
    ]
    assert told(stretches, "waited") == "2.0 s on average in 6 h"
    assert told(stretches, "placed") == "4 in 6 h"
    assert told(stretches, "refused") == "none in 6 h"


def test_an_address_has_what_says_anything() -> None:
    assert address("/workloads", "6h", namespace="a b", queue="", cluster=None) == "/workloads?namespace=a+b&at=6h"
    assert address("/workloads/a/ü?&#", "") == "/workloads/a/%C3%BC%3F%26%23"
