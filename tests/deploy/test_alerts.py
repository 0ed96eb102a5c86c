"""The alerts: the same for both kinds of Prometheus, about metrics and labels that exist, and each with somewhere to
read on.
"""

from __future__ import annotations

import re
from typing import get_args

import pytest
import yaml

from controlplane.controllers.connectivity.state import Phase
from tests.deploy.manifests import ROOT, Object, one, render
from tests.deploy.queries import ADDED, METRIC, known, unknown
from tests.support.rows import each

FOLDER = "deploy/alerts"


def groups() -> list[Object]:
    found: list[Object] = yaml.safe_load((ROOT / FOLDER / "rules.yaml").read_text())["groups"]
    return found


RULES = [rule for group in groups() for rule in group["rules"]]


def test_both_files_say_the_same() -> None:
    rule = one(render(FOLDER), "PrometheusRule")
    assert rule["spec"]["groups"] == groups()
    assert rule["apiVersion"] == "monitoring.coreos.com/v1"
    assert rule["metadata"]["name"] == "controlplane"


def test_what_has_to_wake_somebody_does() -> None:
    severities = {rule["alert"].removeprefix("Controlplane"): rule["labels"]["severity"] for rule in RULES}
    assert severities == {
        "ClusterLost": "warning",
        "ClusterFlapping": "warning",
        "KubeconfigExpires": "warning",
        "MassOutage": "critical",
        "NobodyLeads": "critical",
        "LogUnreachable": "critical",
        "EffectsStuck": "warning",
        "LoopSlow": "warning",
        "DecisionsFail": "warning",
        "UnknownEvents": "warning",
    }


@each("rule", RULES, ids=lambda rule: rule["alert"])
def test_its_metrics_and_labels_exist(rule: Object) -> None:
    names = METRIC.findall(rule["expr"])
    assert names
    assert unknown(rule["expr"]) == set()
    labels = set.intersection(*(known(name) for name in names)) | ADDED
    for label in re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())):
        assert label in labels


@each("rule", RULES, ids=lambda rule: rule["alert"])
def test_it_has_its_form(rule: Object) -> None:
    assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert (ROOT / rule["annotations"]["runbook"]).is_file()
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
    assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_phase_that_is_asked_for_is_one() -> None:
    (phase,) = {value for rule in RULES for value in re.findall(r'phase="(\w+)"', rule["expr"])}
    assert phase in get_args(Phase)


def test_what_does_not_exist_is_noticed() -> None:
    for name in ("controlplane_cluster_fase", "controlplane_cluster_phase_bucket", "controlplane_loop_lag_seconds"):
        with pytest.raises(KeyError):
            known(name)


def test_a_scheduler_that_leads_its_log_does_not_stand_for_a_service_that_does_not() -> None:
    """Both have the gauge, and may be in one namespace."""
    (rule,) = (rule for rule in RULES if rule["alert"] == "ControlplaneNobodyLeads")
    assert "sum by (namespace, job) (controlplane_leader)" in rule["expr"]
    assert "$labels.job" in rule["annotations"]["summary"]
