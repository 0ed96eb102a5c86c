"""Grafana's dashboards: every query asks for metrics and labels that are served, and every metric is shown
somewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations

import pytest

from controlplane.telemetry import metrics
from tests.deploy.manifests import ROOT, Object
from tests.deploy.queries import METRIC, known, unknown

PATHS = sorted((ROOT / "deploy/dashboards").glob("*.json"))
BOARDS: dict[str, Object] = {path.stem: json.loads(path.read_text()) for path in PATHS}
# Kueue's own names for what is shown under ours; and what is a fact of the process rather than a curve.
NOT_SHOWN = {"controlplane_build_info"} | {
    name for name, *_ in metrics.table if name.startswith(("kueue_", "multikueue_"))
}


def queries(board: Object) -> Iterator[tuple[str, str, str]]:
    """Yield each query with its panel's title and the legend."""
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


def test_there_is_one_of_each() -> None:
    assert list(BOARDS) == ["dispatch", "fleet", "log", "scheduler"]
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_its_queries_ask_for_what_is_served(name: str) -> None:
    asked = 0
    for title, query, legend in queries(BOARDS[name]):
        asked += len(METRIC.findall(query))
        assert unknown(query) == set(), (title, query)
        assert query.count("(") == query.count(")")
        labels = set().union(*(known(metric) for metric in METRIC.findall(query))) | {"pod", "namespace"}
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels, (title, legend)
    assert asked > 5


@pytest.mark.parametrize("name", BOARDS)
def test_its_variables_are_there_and_used(name: str) -> None:
    board = BOARDS[name]
    text = json.dumps(board["panels"])
    declared = {one["name"] for one in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z_]+)", text)) - {"__rate_interval"} <= declared | {"__rate_interval"}
    for one in board["templating"]["list"]:
        assert f"${one['name']}" in text or f"${{{one['name']}}}" in text
        if one["type"] == "query":
            assert unknown(one["query"]["query"].removeprefix("label_values(").rpartition(",")[0]) == set()
            assert one["allValue"] == ".*", "a Prometheus without the operator adds no namespace"


@pytest.mark.parametrize("name", BOARDS)
def test_its_panels_lie_beside_each_other(name: str) -> None:
    panels = BOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_every_metric_is_shown_somewhere() -> None:
    text = json.dumps(list(BOARDS.values()))
    assert [name for name, *_ in metrics.table if name not in text and name not in NOT_SHOWN] == []


def test_a_metric_that_is_not_served_is_noticed() -> None:
    with pytest.raises(KeyError):
        unknown("rate(controlplane_no_such_total[5m])")
    assert unknown('controlplane_leader{cluster="a"}') == {"cluster"}
    assert unknown("sum by (cluster) (controlplane_leader)") == {"cluster"}
