"""The chart as Helm renders it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from controlplane.job_kinds import JOB_KINDS
from tests.deploy.chart_files import CHART
from tests.deploy.manifests import Object, documents, one, render, rights

HELM = shutil.which("helm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
helm = pytest.mark.skipif(
    HELM is None, reason="helm is neither on PATH nor in the development dependencies of this platform"
)
GOLDEN = Path(__file__).parent / "golden"
EVERYTHING = {
    "settings": {
        "run": {"controllers": ["multikueue", "candidates", "podgroups", "coscheduling"]},
        "multikueue": {
            "kinds": ["batch/job", "pod", "statefulset", "tekton.dev/pipelinerun"],
            "quotaAutomation": "yes",
            "clusterProfile": {"enabled": "yes"},
        },
        "quota": {"mode": "builtin", "objectRetention": {"afterDeactivated": "720h"}},
        "candidates": {"cluster": "campus", "virtualNodes": {"enabled": "yes"}},
        "web": {"serve": "yes", "address": "0.0.0.0", "authentication": "token"},
        "coscheduling": {"image": "nop:1"},
    },
    "image": {"repository": "registry.example.com/controlplane", "digest": f"sha256:{'0' * 64}"},
    "controlPlane": {"extraRules": [{"apiGroups": ["render.example.com"], "resources": ["renders"], "verbs": ["get"]}]},
    "worker": {"enabled": True, "kinds": ["batch/job", "tekton.dev/pipelinerun"], "quota": True},
    "scheduler": {"enabled": True},
    "crds": {"candidates": True},
    "candidates": {"target": True},
    "dispatcher": {"policies": True},
    "podgroups": {"configMap": {"create": True}},
    "database": {"migrate": {"enabled": True}},
    "webhook": {
        "enabled": True,
        "defaultQueue": True,
        "certificate": {"existingSecret": "admission", "caBundle": "Q0E="},
    },
    "visibility": {"enabled": True, "certificate": {"existingSecret": "visibility", "caBundle": "Q0E="}},
    "virtualNodes": {"certificate": {"existingSecret": "kubelet"}},
    "networkPolicy": {"enabled": True, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    },
}
CLOUD_NATIVE = {
    "database": {"cloudNativePG": {"enabled": True, "storage": {"size": "100Gi"}}},
    "webhook": {"enabled": True, "defaultQueue": True, "certificate": {"certManager": {"enabled": True}}},
}


def run(*words: str, values: Object | None = None) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    given = ["--values", "-"] if values is not None else []
    return subprocess.run(
        [HELM, *words, *given], input=json.dumps(values), capture_output=True, text=True, check=False, cwd="/"
    )


def template(
    values: Object | None = None, release: str = "controlplane", namespace: str = "kueue-system"
) -> list[Object]:
    return documents(_rendered(json.dumps(values or {}, sort_keys=True), release, namespace))


@cache
def _rendered(values: str, release: str, namespace: str) -> str:
    """Several tests look at the same objects: Helm makes them once, and each reads objects of its own."""
    done = run("template", release, str(CHART), "--namespace", namespace, values=json.loads(values))
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(values: Object) -> str:
    done = run("template", "controlplane", str(CHART), values=values)
    assert done.returncode != 0
    return done.stderr


def bare(item: Object) -> Object:
    """An object without what Helm and kustomize add to it: labels, selectors by them, hashes of names, annotations."""
    text = json.dumps(item)
    for hashed in ("controlplane-settings-", "controlplane-scheduler-"):
        at = text.find(hashed)
        while at >= 0 and text[at + len(hashed) : at + len(hashed) + 10].isalnum():
            text = text[: at + len(hashed) - 1] + text[at + len(hashed) + 10 :]
            at = text.find(hashed, at + 1)
    found: Object = json.loads(text)

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: strip(inner)
                for key, inner in value.items()
                if key not in ("labels", "matchLabels", "annotations", "selector", "imagePullPolicy")
                and not (key == "creationTimestamp" and inner is None)
            }
        return [strip(inner) for inner in value] if isinstance(value, list) else value

    stripped: Object = strip(found)
    return stripped


def by_name(items: Iterable[Object]) -> dict[tuple[str, str], Object]:
    return {(item["kind"], bare(item)["metadata"]["name"]): bare(item) for item in items}


def kinds_of(place: str, kinds: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The rights for jobs that some kinds need, out of the kustomization that has them for all."""
    wanted = {
        f"{kind.kind.group or 'core'}/{kind.kind.plural}"
        for name, kind in JOB_KINDS.items()
        if kind.integration in kinds
    }
    everything = rights(one(render(f"deploy/rbac/{place}"), "ClusterRole", f"controlplane-{place}-jobs"))
    return {key: verbs for key, verbs in everything.items() if key.removesuffix("/status") in wanted}
