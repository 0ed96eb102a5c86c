"""The objects that people of the scene create, as manifests.

In: a name and a number or two. Out: specs. Pods of people's owners ask the scheduler's profile for gangs, those of
Tekton the other one."""

from __future__ import annotations

from typing import Final

from controlplane.dst.scenes.local.processes import PROFILES
from controlplane.kube.kinds import Json
from controlplane.simulation.controllers.jobs import DURATION
from controlplane.simulation.controllers.tekton import FAILS

GANGS, OTHERS = PROFILES

BY_DEPLOYMENT = "podgroup-level-rules:\n- {apiversion: apps/v1, kind: deployment}\n"
BY_ALL = BY_DEPLOYMENT + "- {apiversion: batch/v1, kind: job}\n- {apiversion: argoproj.io/v1alpha1, kind: workflow}\n"
DOCUMENTS: Final = (
    "podgroup-level-rules: []\n",
    BY_ALL,
    "podgroup-level-rules:\n- {apiversion: argoproj.io/v1alpha1, kind: workflow, adjust-level: -1}\n",
    "podgroup-level-rules:\n- {apiversion: example.com/v1, kind: nowhere}\n",
    "podgroup-level-rules:\n- {apiversion: apps/v1, kind: deployment, adjust-level: 3}\n",
    "podgroup-level-rules:\n- {apiversion: tekton.dev/v1, kind: pipelinerun}\n",
    "podgroup-level-rules: [nonsense\n",
)
"""The rules' documents, by the number that a step says; two of them are bad."""

MODES: Final = ("pipelineruns", "workspaces", "isolate-pipelinerun", "disabled", "isolate-pipelineruns", "PipelineRuns")
"""Values of Tekton's flag; one of them is none."""

TOO_MUCH: Final = "20"
"""CPUs that no node of the scene has, those that come at the end included."""

TEMPLATE: Final[Json] = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}


def pod_template(app: str, cpu: str = "500m", **annotations: str) -> Json:
    """Return a template of pods for the gangs' profile."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    metadata: Json = {"labels": {"app": app}, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": {"schedulerName": GANGS, "containers": [container]}}


def owner(app: str, replicas: int, cpu: str = "500m") -> Json:
    """Return the spec of a Deployment or a StatefulSet."""
    return {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": app}},
        "serviceName": app,
        "template": pod_template(app, cpu),
    }


def job(app: str, pods: int, seconds: float) -> Json:
    """Return the spec of a Job."""
    template = pod_template(app, "500m", **{DURATION: f"{seconds:.0f}s"})
    template["spec"]["restartPolicy"] = "Never"
    return {"parallelism": pods, "completions": pods, "template": template}


def run(tasks: int, claims: tuple[str, ...], *, parallel: bool, scheduler: str = "") -> Json:
    """Return the spec of a PipelineRun whose tasks share workspaces: `claims` are names of claims, "" for a
    template's.
    """
    spaces = [f"ws-{number}" for number in range(len(claims))]
    body = []
    for number in range(tasks):
        used = [spaces[number % len(spaces)]] if spaces else []
        task: Json = {
            "name": f"t{number}",
            "retries": 1,
            "taskSpec": {"workspaces": [{"name": space} for space in used], "steps": []},
            "workspaces": [{"name": space, "workspace": space} for space in used],
        }
        if number and not parallel:
            task["runAfter"] = [f"t{number - 1}"]
        body.append(task)
    bindings = [
        {
            "name": space,
            **({"persistentVolumeClaim": {"claimName": claim}} if claim else {"volumeClaimTemplate": TEMPLATE}),
        }
        for space, claim in zip(spaces, claims, strict=True)
    ]
    template = {"taskRunTemplate": {"podTemplate": {"schedulerName": scheduler}}} if scheduler else {}
    pipeline = {"workspaces": [{"name": space} for space in spaces], "tasks": body}
    return {"pipelineSpec": pipeline, "workspaces": bindings, **template}


def too_big(spec: Json) -> None:
    """Let the last task of a run ask for more than any node has."""
    step = {"name": "step", "image": "task", "computeResources": {"requests": {"cpu": TOO_MUCH}}}
    spec["pipelineSpec"]["tasks"][-1]["taskSpec"]["steps"] = [step]


def paced(seconds: float, fails: int = 0) -> Json:
    """Return metadata of a run: how long each task takes, and how often it fails first."""
    return {"annotations": {DURATION: f"{seconds:.0f}s", **({FAILS: str(fails)} if fails else {})}}
