"""Questions for `plan` in any number from a seed: `python -m tests.coscheduling.generated SEED COUNT >
questions.jsonl`.

Each has a PipelineRun, both ConfigMaps' data, and the Pipelines and Tasks that are there. They are drawn for a
comparison with Tekton's own controller: mostly runs that start, some that admission or the controller refuses, names
that are long, claims that are shared."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

MODES = ("workspaces", "pipelineruns", "isolate-pipelinerun", "disabled")
_NAMES = ("src", "cache", "shared-data", "deps", "w" * 63, "out_put", "a", "Tools")
_RUNS = ("my-pipelinerun", "r", "abc", "nightly-2026-11-21", "n" * 63, "x" * 30 + "-" + "y" * 30, "build-ab12c")
_CLAIMS = ("data", "data", "team-cache", "v1.2", "c" * 80)
_BASES = ("", "", "", "tmp", "artifacts", "b" * 60, "t" * 52, "t" * 53, "shared-volume-claim-of-the-nightly-build")
_PATHS = (
    "",
    "",
    "",
    "src",
    "a/b/",
    "a//b/../c",
    "./x",
    "../up",
    "/abs",
    "$(params.dir)",
    "$(context.pipelineRun.name)/x",
    "$(context.pipelineRun.uid)",
    "$(context.pipeline.name)-$(context.pipelineRun.namespace)",
    "$(params.dirs[1])/$(params.o.key)",
    '$(params["dir"])',
    "$(params.nested)",
    "$(params.unknown)/$(params.dir",
    "$(tasks.first.results.path)",
    "$(workspaces.src.bound)",
)
_SOURCES: tuple[Json, ...] = (
    {"emptyDir": {}},
    {"emptyDir": {"medium": "Memory"}},
    {"configMap": {"name": "settings", "items": [{"key": "$(params.dir)", "path": "p"}]}},
    {"secret": {"secretName": "token-$(params.dir)"}},
    {"projected": {"sources": [{"secret": {"name": "s-$(params.dir)"}}, {"configMap": {"name": "c"}}]}},
    {"csi": {"driver": "csi.example.com", "nodePublishSecretRef": {"name": "$(params.dir)"}}},
)
_WRONG_SOURCES: tuple[Json, ...] = (
    {},
    {"emptyDir": {}, "configMap": {"name": "c"}},
    {"persistentVolumeClaim": {"claimName": ""}},
    {"persistentVolumeClaim": {"claimName": "data"}, "volumeClaimTemplate": {"spec": {}}},
    {"configMap": {}},
    {"secret": {}},
    {"projected": {"sources": []}},
    {"csi": {"driver": ""}},
)
_STORAGE: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_AFFINITIES: tuple[Json, ...] = (
    {},
    {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
            }
        }
    },
    {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "topology.kubernetes.io/zone"}
            ]
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 5,
                    "podAffinityTerm": {
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "topologyKey": "kubernetes.io/hostname",
                    },
                }
            ]
        },
    },
    {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    },
)
_TEMPLATE_FIELDS: dict[str, tuple[Any, ...]] = {
    "nodeSelector": ({}, {"pool": "ci"}, {"kubernetes.io/os": "windows"}, {"kubernetes.io/os": "linux", "a": "b"}),
    "tolerations": ([], [{"key": "ci", "operator": "Exists", "effect": "NoSchedule"}], [{"operator": "Exists"}]),
    "imagePullSecrets": ([{"name": "pull"}], [{"name": "a"}, {"name": "b"}]),
    "securityContext": ({"fsGroup": 65532}, {"runAsNonRoot": True, "runAsUser": 1001}),
    "priorityClassName": ("high", ""),
}
_MORE_FIELDS: dict[str, tuple[Any, ...]] = {
    "affinity": _AFFINITIES,
    "schedulerName": ("volcano", ""),
    "hostNetwork": (True, False),
    "runtimeClassName": ("gvisor",),
    "env": ([{"name": "A", "value": "1"}], [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]),
    "volumes": ([{"name": "v", "emptyDir": {}}], [{"name": "w", "emptyDir": {"medium": "Memory"}}]),
    "dnsPolicy": ("None",),
    "enableServiceLinks": (False,),
    "automountServiceAccountToken": (False, True),
    "hostAliases": ([{"ip": "10.0.0.1", "hostnames": ["a"]}],),
    "hostUsers": (False,),
    "dnsConfig": ({"nameservers": ["10.0.0.1"]},),
    "topologySpreadConstraints": (
        [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}],
    ),
}


class Draw:
    """One question's dice. `odd` is how often something is drawn that is refused."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.odd = 0.2 if rng.random() < 0.2 else 0.0
        self.bound: list[str] = []

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def template(self, fields: dict[str, tuple[Any, ...]], share: float = 0.35) -> Json:
        """Draw a pod template."""
        return {name: self.rng.choice(values) for name, values in fields.items() if self.chance(share)}

    def flags(self) -> Json:
        rng, found = self.rng, {"enable-api-fields": "alpha"}
        mode = rng.choice(MODES)
        if self.chance(self.odd / 2):
            mode = rng.choice(["", "isolate-pipelineruns", "none", " workspaces"])
        if mode != "workspaces" or self.chance(0.7):
            found["coschedule"] = mode.upper() if self.chance(0.05) else mode
        if self.chance(0.4):
            found["set-security-context"] = rng.choice(["true", "true", "1", "T", "False", "0"])
        if self.chance(0.3):
            found["set-security-context-read-only-root-filesystem"] = rng.choice(["true", "TRUE", "f"])
        if self.chance(self.odd / 2):
            found["set-security-context"] = rng.choice(["yes", "", "tRUE", "on"])
        return found

    def defaults(self) -> Json:
        found: Json = {}
        if self.chance(0.3):
            found["default-pod-template"] = json.dumps(self.template(_TEMPLATE_FIELDS | _MORE_FIELDS, 0.2))
        if self.chance(0.3):
            own = self.template(_TEMPLATE_FIELDS)
            if self.chance(0.4):
                own["serviceAccountName"] = "assistant"
            found["default-affinity-assistant-pod-template"] = json.dumps(own)
        if self.chance(0.3):
            found["default-service-account"] = self.rng.choice(["bot", ""])
        return found

    def binding(self, name: str) -> Json:
        rng = self.rng
        found: Json = {"name": name}
        if path := rng.choice(_PATHS):
            found["subPath"] = path
        if self.chance(self.odd / 2):
            return found | rng.choice(_WRONG_SOURCES)
        dice = rng.random()
        if dice < 0.4:
            claim = rng.choice(_CLAIMS) if self.chance(0.9) else "claim-$(params.dir)"
            more = {"readOnly": True} if self.chance(0.1) else {}
            return found | {"persistentVolumeClaim": {"claimName": claim, **more}}
        if dice < 0.8:
            return found | {"volumeClaimTemplate": self.claim_template()}
        return found | json.loads(json.dumps(rng.choice(_SOURCES)))

    def claim_template(self) -> Json:
        meta: Json = {}
        if base := self.rng.choice(_BASES):
            meta["name"] = base
        if self.chance(0.2):
            meta["labels"] = {"team": "x"}
        if self.chance(0.2):
            meta["annotations"] = {"note": "y"}
        spec = json.loads(json.dumps(_STORAGE))
        if self.chance(0.3):
            spec["storageClassName"] = self.rng.choice(["fast", ""])
        return ({"metadata": meta} if meta else {}) | {"spec": spec}

    def bindings(self) -> list[Json]:
        names = self.rng.sample(_NAMES, self.rng.choice([0, 1, 1, 2, 2, 3, 4]))
        if names and self.chance(self.odd / 2):
            names.append(self.rng.choice(names))
        self.bound = names
        return [self.binding(name) for name in names]

    def use(self, name: str) -> Json:
        rng = self.rng
        found: Json = {"name": name}
        if self.chance(0.4):
            found = {"name": f"in-{rng.randint(0, 9)}-{name[:20]}", "workspace": name}
        if path := rng.choice(_PATHS):
            found["subPath"] = path
        return found

    def task(self, name: str, several: bool) -> tuple[Json, Json | None]:
        """Draw a pipeline's task, and the Task that it refers to."""
        rng = self.rng
        count = rng.choice([0, 1, 1, 1, 2, 3]) if several else rng.choice([0, 1, 1])
        chosen = rng.sample(sorted(set(self.bound)), min(count, len(set(self.bound))))
        if self.chance(self.odd / 3):
            chosen.append("missing")
        uses = [self.use(workspace) for workspace in chosen]
        uses = list({use["name"]: use for use in uses}.values())
        found: Json = {"name": name} | ({"workspaces": uses} if uses else {})
        dice = rng.random()
        if dice < 0.12:
            return found | {"taskRef": {"apiVersion": "example.dev/v1", "kind": "Wait", "name": "w"}}, None
        if dice < 0.17:
            inner = {"tasks": [{"name": "inner", "taskSpec": _steps("true")}]}
            inner |= {"workspaces": [{"name": use["name"]} for use in uses]} if uses else {}
            return found | {"pipelineSpec": inner}, None
        declared = [{"name": use["name"]} | ({"optional": True} if self.chance(0.2) else {}) for use in uses]
        spec = _steps("true") | ({"workspaces": declared} if declared else {})
        if dice < 0.6:
            if self.chance(0.05):
                found["matrix"] = {"params": [{"name": "m", "value": ["1", "2"]}]}
                spec["params"] = [{"name": "m"}]
            return found | {"taskRef": {"name": f"task-{name}"}}, _object("Task", f"task-{name}", spec)
        if self.bound and self.chance(0.3):
            other = rng.choice(self.bound)
            spec["steps"][0]["script"] = rng.choice(
                [f"ls $(workspaces.{other}.path)", f'ls $(workspaces["{other}"].path)', f"$(workspaces.{other}.bound)"]
            )
        return found | {"taskSpec": spec}, None

    def pipeline(self, mode: str) -> tuple[Json, list[Json]]:
        """Draw a pipeline's spec, and the Tasks that are there."""
        rng = self.rng
        several = mode != "workspaces" or self.chance(0.3)
        drawn = [self.task(f"t{at}", several) for at in range(rng.choice([1, 1, 2, 3, 4]))]
        last = [self.task(f"f{at}", several) for at in range(rng.choice([0, 0, 0, 1, 2]))]
        spec: Json = {"tasks": [task for task, _ in drawn]}
        if last:
            spec["finally"] = [task for task, _ in last]
        names = {
            use.get("workspace") or use["name"] for task, _ in (*drawn, *last) for use in task.get("workspaces", ())
        }
        declared = [{"name": name} | ({"optional": True} if self.chance(0.1) else {}) for name in sorted(names)]
        if self.chance(self.odd / 3):
            declared.append({"name": "wanted"})
        if declared:
            spec["workspaces"] = declared
        spec["params"] = [
            {"name": "dir", "default": "by-default"},
            {"name": "nested", "default": "n-$(params.dir)"},
            {"name": "dirs", "type": "array", "default": ["p", "q-$(params.dir)"]},
            {"name": "o", "type": "object", "properties": {"key": {"type": "string"}}, "default": {"key": "k"}},
        ]
        return spec, [task for _, task in (*drawn, *last) if task is not None]

    def params(self) -> list[Json]:
        values = {
            "dir": self.rng.choice(["given", "$(params.nested)", "$(context.pipelineRun.name)", "a/../b"]),
            "nested": "deep",
            "dirs": ["one", "two"],
            "o": {"key": "value"},
        }
        return [{"name": name, "value": value} for name, value in values.items() if self.chance(0.3)]

    def meta(self) -> Json:
        rng = self.rng
        found: Json = {"name": rng.choice(_RUNS), "namespace": "ci", "uid": f"{rng.getrandbits(128):032x}"}
        if self.chance(self.odd / 3):
            found["name"] = rng.choice(["a.b", "Upper", "n" * 64, "-x"])
        if self.chance(0.5):
            found["labels"] = {"team": "x", "app.kubernetes.io/instance": "mine", "tekton.dev/pipelineRun": "other"}
        if self.chance(0.3):
            found["annotations"] = {"tekton.dev/auto-cleanup-pvc": "true", "note": "n"}
        return found


def _steps(script: str) -> Json:
    return {"steps": [{"name": "s", "image": "busybox", "script": script}]}


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "tekton.dev/v1", "kind": kind, "metadata": {"name": name, "namespace": "ci"}, "spec": spec}


def question(seed: int) -> Json:
    """Return the question of a seed."""
    rng = random.Random(seed)
    draw = Draw(rng)
    flags, workspaces = draw.flags(), draw.bindings()
    pipeline, tasks = draw.pipeline(str(flags.get("coschedule", "workspaces")).lower())
    spec: Json = {"workspaces": workspaces} if workspaces else {}
    if params := draw.params():
        spec["params"] = params
    pipelines = []
    if draw.chance(0.3):
        spec["pipelineRef"] = {"name": "release"}
        pipelines.append(_object("Pipeline", "release", pipeline))
    else:
        spec["pipelineSpec"] = pipeline
    names = [task["name"] for task in pipeline["tasks"]]
    if draw.chance(0.3):
        own = {"podTemplate": draw.template(_TEMPLATE_FIELDS | _MORE_FIELDS, 0.2)}
        wrong = draw.chance(draw.odd / 3)
        spec["taskRunSpecs"] = [{"pipelineTaskName": "nobody" if wrong else rng.choice(names), **own}]
        if draw.chance(0.3):
            again = {"podTemplate": draw.template(_TEMPLATE_FIELDS, 0.3)}
            spec["taskRunSpecs"].append({"pipelineTaskName": rng.choice(names), **again})
    of_tasks: Json = {}
    if draw.chance(0.5):
        of_tasks["podTemplate"] = draw.template(_TEMPLATE_FIELDS | _MORE_FIELDS)
    if draw.chance(0.3):
        of_tasks["serviceAccountName"] = "runner"
    old = draw.chance(0.15)
    if old:
        for one in spec.get("taskRunSpecs", ()):
            one["taskPodTemplate"] = one.pop("podTemplate")
    if of_tasks:
        spec |= of_tasks if old else {"taskRunTemplate": of_tasks}
    if draw.chance(0.03):
        spec["status"] = "PipelineRunPending"
    if draw.chance(0.1):
        _nothing(rng, spec)
    run = {"apiVersion": f"tekton.dev/v1{'beta1' if old else ''}", "kind": "PipelineRun"}
    found: Json = {"id": seed, "run": run | {"metadata": draw.meta(), "spec": spec}, "flags": flags}
    return found | {"defaults": draw.defaults(), "pipelines": pipelines, "tasks": tasks}


def _nothing(rng: random.Random, spec: Json) -> None:
    """Say of some fields that may be absent that they are null."""
    places: list[Json] = [spec, spec.get("taskRunTemplate") or {}, spec.get("pipelineSpec") or {}]
    places += [one for name in ("workspaces", "taskRunSpecs") for one in spec.get(name, ())]
    for place in places:
        for field in (
            "workspaces",
            "params",
            "podTemplate",
            "serviceAccountName",
            "finally",
            "subPath",
            "taskRunSpecs",
        ):
            if field not in place and rng.random() < 0.2 and not (place is spec and field == "podTemplate"):
                place[field] = None
    for one in spec.get("workspaces") or ():
        for source in ("persistentVolumeClaim", "volumeClaimTemplate", "emptyDir", "csi"):
            one.setdefault(source, None)


def questions(seed: int, count: int) -> Iterator[Json]:
    """Yield questions, each with its own seed as its id."""
    return map(question, range(seed, seed + count))


def main(write: Callable[[str], Any] = sys.stdout.write) -> None:
    """Print questions from a seed and a count."""
    seed, count = (int(argument) for argument in sys.argv[1:3])
    for one in questions(seed, count):
        write(json.dumps(one, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
