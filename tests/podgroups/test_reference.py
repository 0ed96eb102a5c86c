"""The reference names every reason, warning and event of this room, and the manifests hold the sample rules and exactly
these rights.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from controlplane.controllers.podgroups.events import EVENTS
from controlplane.controllers.podgroups.reasons import Oddity, PodGroupReason
from controlplane.controllers.podgroups.rules import DEFAULT_DOCUMENT, read_config_map, read_text
from tests.deploy.manifests import one, render, rights

ROOT = Path(__file__).resolve().parents[2]
SEE = ("get", "list", "watch")


def first_column(heading: str) -> set[str]:
    sections = re.split(r"^## ", (ROOT / "docs/reference/podgroups.md").read_text(), flags=re.MULTILINE)
    (section,) = [one for one in sections if one.startswith(f"{heading}\n")]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


def test_every_word_is_there() -> None:
    assert first_column("Reasons") == set(PodGroupReason)
    assert first_column("Warnings") == set(Oddity)
    assert first_column("Events") == {event.__name__ for event in EVENTS}


def test_the_manifests_hold_the_sample_rules() -> None:
    sample = read_config_map(one(render("deploy/podgroups"), "ConfigMap"))
    assert sample == read_text(DEFAULT_DOCUMENT)
    documented = re.search(r"```yaml\n(.+?)```", (ROOT / "docs/reference/podgroups.md").read_text(), re.DOTALL)
    assert documented is not None
    assert {*read_text(documented[1]).entries} <= {*sample.entries}


def test_the_rights() -> None:
    objects = render("deploy/podgroups")
    assert rights(one(objects, "ClusterRole", "controlplane-podgroups")) == {
        "core/pods": (*SEE[:2], "patch", "watch"),
        "scheduling.volcano.sh/podgroups": tuple(sorted((*SEE, "create", "patch"))),
        "apps/deployments": SEE,
        "apps/replicasets": SEE,
        "apps/statefulsets": SEE,
        "batch/jobs": SEE,
        "core/nodes": SEE,
        "core/namespaces[kube-system]": ("get",),
        "events.k8s.io/events": ("create",),
    }
    assert rights(one(objects, "Role")) == {
        "core/configmaps[volcano-controller-configmap]": tuple(sorted((*SEE, "patch")))
    }
    owners = one(objects, "ClusterRole", "controlplane-podgroup-owners")
    (selector,) = owners["aggregationRule"]["clusterRoleSelectors"]
    parts = [item for item in objects if item["metadata"].get("labels") == selector["matchLabels"]]
    assert owners["rules"] == []
    assert len(parts) == 2
    assert {verbs for part in parts for verbs in rights(part).values()} == {("get",)}
    assert "*" not in yaml.safe_dump([item["rules"] for item in objects if item["kind"] == "ClusterRole"])
