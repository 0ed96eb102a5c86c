"""Copies into the chart what it shares with the kustomizations, and writes the schema of its values.

`python -m tests.deploy.chart_files` (`make chart`) writes; the tests hold the chart to it. Helm reads nothing outside
of a chart's folder, so the manifests of which the chart is made are in it a second time, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controlplane.settings.schema import Schema, schema
from tests.deploy.manifests import ROOT

CHART = ROOT / "deploy/chart"
SHARED = (
    "alerts/prometheusrule.yaml",
    "base/*.yaml",
    "candidates/follow/clusterrole.yaml",
    "candidates/source/*.yaml",
    "candidates/target/clusterrole.yaml",
    "candidates/target/policy.yaml",
    "candidates/virtual-nodes/*.yaml",
    "candidates/webhook/webhook.yaml",
    "coscheduling/*.yaml",
    "crds/*.yaml",
    "dashboards/*.json",
    "dispatcher/*.yaml",
    "migrate/job.yaml",
    "multikueue-webhook/*.yaml",
    "pipelineruns/*/*.yaml",
    "podgroups/*.yaml",
    "postgres/rights.sql",
    "rbac/*/*.yaml",
    "scheduler/*.yaml",
    "visibility/*.yaml",
    "web/*.yaml",
)
LEFT_OUT = ("kustomization.yaml", "settings.yaml", "profiles.yaml", "namespace.yaml")


def wanted() -> dict[str, str]:
    """Return what has to be in the chart's `files`, by its path there."""
    return {
        str(path.relative_to(ROOT / "deploy")): path.read_text()
        for pattern in SHARED
        for path in sorted((ROOT / "deploy").glob(pattern))
        if path.name not in LEFT_OUT
    }


def present() -> dict[str, str]:
    """Return what is in the chart's `files`."""
    folder = CHART / "files"
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def value_names() -> set[str]:
    """Return the name of every value of the chart, with dots: those of values.yaml, and every setting."""
    found: set[str] = set()

    def walk(schema: Schema, name: str) -> None:
        found.add(name)
        for key, inner in schema.get("properties", {}).items():
            walk(inner, f"{name}.{key}" if name else key)

    walk(values_schema(), "")
    return found - {""}


OBJECT: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": OBJECT}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 1}


def _of(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _secret() -> Schema:
    return {**_of(name=TEXT, key=TEXT), "required": ["name", "key"]}


def _pods(**more: Schema) -> Schema:
    """The values of a Deployment."""
    return _of(
        enabled=FLAG,
        replicas=COUNT,
        resources=OBJECT,
        podDisruptionBudget=_of(enabled=FLAG),
        topologySpreadConstraints=OBJECTS,
        nodeSelector=OBJECT,
        tolerations=OBJECTS,
        affinity=OBJECT,
        priorityClassName=TEXT,
        podAnnotations=OBJECT,
        podLabels=OBJECT,
        extraEnv=OBJECTS,
        extraVolumes=OBJECTS,
        extraVolumeMounts=OBJECTS,
        **more,
    )


def values_schema() -> Schema:
    """Return the chart's values.schema.json. The settings are those of the program."""
    settings = schema()
    kinds: Schema = settings["properties"]["multikueue"]["properties"]["kinds"]
    monitor = _of(enabled=FLAG, interval=TEXT, labels=OBJECT)
    migrate = _of(enabled=FLAG, namespace=TEXT, secret=_secret(), certificateAuthority=_of(configMap=TEXT))
    cloud_native_pg = _of(
        enabled=FLAG,
        namespace=TEXT,
        instances=COUNT,
        imageName=TEXT,
        storage=_of(size=TEXT, storageClass=TEXT),
        walStorage=OBJECT,
        resources=OBJECT,
        synchronousStandbys={"type": "integer", "minimum": 0},
        parameters=OBJECT,
        backup=OBJECT,
        verify=FLAG,
    )
    certificate = _of(existingSecret=TEXT, caBundle=TEXT, certManager=_of(enabled=FLAG, issuerRef=OBJECT))
    found = _of(
        fullnameOverride=TEXT,
        image=_of(
            repository=TEXT,
            tag=TEXT,
            digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        ),
        imagePullSecrets=OBJECTS,
        commonLabels=OBJECT,
        controlPlane=_pods(extraRules=OBJECTS),
        settings={**settings, "required": ["run", "multikueue"]},
        worker=_of(enabled=FLAG, kinds=kinds, quota=FLAG, extraRules=OBJECTS),
        scheduler=_pods(candidates=FLAG, settings=settings, profiles=OBJECTS),
        crds=_of(candidates=FLAG),
        candidates=_of(target=FLAG),
        dispatcher=_of(policies=FLAG),
        podgroups=_of(configMap=_of(create=FLAG, namespace=TEXT)),
        coscheduling=_of(namespace=TEXT),
        database=_of(
            secret=_secret(),
            certificateAuthority=_of(configMap=TEXT),
            migrate=migrate,
            cloudNativePG=cloud_native_pg,
        ),
        webhook=_of(
            enabled=FLAG, defaultQueue=FLAG, failurePolicy={"enum": ["Ignore", "Fail"]}, certificate=certificate
        ),
        virtualNodes=_of(certificate=_of(existingSecret=TEXT)),
        visibility=_of(enabled=FLAG, certificate=certificate),
        networkPolicy=_of(
            enabled=FLAG,
            metricsFrom=OBJECTS,
            webhookFrom=OBJECTS,
            visibilityFrom=OBJECTS,
            webFrom=OBJECTS,
            egress=OBJECTS,
        ),
        metrics=_of(
            serviceMonitor=monitor,
            podMonitor=monitor,
            prometheusRule=_of(enabled=FLAG, labels=OBJECT, runbooks=TEXT),
            dashboards=_of(enabled=FLAG, labels=OBJECT, annotations=OBJECT),
        ),
    )
    found["properties"]["global"] = OBJECT
    return {"$schema": "http://json-schema.org/draft-07/schema#", **found}


def spelled(document: Any) -> str:
    """Return a document as the file has it."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _stale() -> Iterator[Path]:
    return (CHART / "files" / name for name in present().keys() - wanted().keys())


if __name__ == "__main__":
    for path in list(_stale()):
        path.unlink()
    for name, text in wanted().items():
        target = CHART / "files" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (CHART / "values.schema.json").write_text(spelled(values_schema()))
