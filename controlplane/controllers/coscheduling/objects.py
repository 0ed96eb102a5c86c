"""Reads the Tekton and Kubernetes objects that placement looks at: a PipelineRun, its pipeline, its workspaces.

In: objects as dicts (`tekton.dev/v1`, or v1beta1 with its older field names). Out: values, with parameters filled in
where Tekton does it before it creates anything; `InputRefused` names the field that does not fit. What the values mean
for placeholders is said elsewhere."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.controllers.coscheduling.placement.substitution import Values, filled_binding, param_values
from controlplane.controllers.coscheduling.placement.template_merge import check_template, merged
from controlplane.controllers.coscheduling.problems import InputRefused, label
from controlplane.controllers.coscheduling.reader import ObjectReader
from controlplane.kube.kinds import PIPELINE_RUNS, Json, Kind, meta
from controlplane.values import Value

TASK_RUNS = Kind("tekton.dev", "v1", "TaskRun", "taskruns")
PIPELINES = Kind("tekton.dev", "v1", "Pipeline", "pipelines")
STATEFUL_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets")
CLAIMS = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PODS = Kind("", "v1", "Pod", "pods")
NODES = Kind("", "v1", "Node", "nodes", namespaced=False)
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")

RUN_LABEL, TASK_LABEL, WORKSPACE_LABEL = "tekton.dev/pipelineRun", "tekton.dev/pipelineTask", "tekton.dev/workspace"
TASK_RUN_LABEL = "tekton.dev/taskRun"
INSTANCE_LABEL, COMPONENT_LABEL = "app.kubernetes.io/instance", "app.kubernetes.io/component"
AUTO_CLEANUP = "tekton.dev/auto-cleanup-pvc"
TEKTON = "tekton.dev/pipeline"
"""What `spec.managedBy` says where Tekton's own controller is meant; absent means the same."""

SOURCES = ("persistentVolumeClaim", "volumeClaimTemplate", "emptyDir", "configMap", "secret", "projected", "csi")


class Binding(msgspec.Struct, frozen=True):
    """A workspace of a run: what stands behind it. `body` is the binding with its parameters filled in."""

    index: int
    name: str
    body: Json
    sources: tuple[str, ...]

    @property
    def claim(self) -> str:
        """The existing claim behind it, "" if it is something else."""
        found = self.body.get("persistentVolumeClaim")
        return str(found.get("claimName") or "") if isinstance(found, dict) else ""

    @property
    def template(self) -> Json | None:
        """The template of the claim behind it, None if it is something else. An existing claim goes first, as in
        Tekton.
        """
        found = self.body.get("volumeClaimTemplate")
        return found if isinstance(found, dict) and not self.claim else None

    @property
    def base(self) -> str:
        """The first part of the name of the template's claim; "" if it gives none."""
        return str(meta(self.template or {}).get("name") or "")

    @property
    def has_claim(self) -> bool:
        """Whether a claim stands behind it; emptyDir, configMap, secret, projected and csi are none."""
        return bool(self.claim) or self.template is not None

    @property
    def sub_path(self) -> str:
        """The path below the volume."""
        return str(self.body.get("subPath") or "")


class TaskSpecs(msgspec.Struct, frozen=True):
    """What a run says for the pods of one task; of several entries the later go first, filled in from the earlier."""

    pod_template: Json | None = None
    compute_resources: Json | None = None


class PipelineRun(Value):
    """A PipelineRun. `uid` may be "" in a dry run of one that does not exist yet. `params` is what its parameters stand
    for; `resolver` fetches its pipeline where that has no name. `parent` is the run whose task it is, "" if none;
    `follows` the placeholder of another run that it shares, "" if it has its own."""

    namespace: str
    name: str
    uid: str
    labels: dict[str, str]
    annotations: dict[str, str]
    bindings: tuple[Binding, ...]
    pod_template: Json | None
    service_account: str
    task_specs: dict[str, TaskSpecs]
    params: list[Json]
    pipeline_name: str
    pipeline_spec: Json | None
    stored_spec: Json | None
    status: str
    managed_by: str
    done: bool
    deleting: bool
    resolver: str = ""
    parent: str = ""
    parent_uid: str = ""
    follows: str = ""

    @property
    def label(self) -> str:
        """How sentences call it."""
        return label("PipelineRun", self.namespace, self.name)

    @property
    def foreign(self) -> bool:
        """Whether another controller than Tekton's own answers for it: then nothing of it runs here."""
        return self.managed_by not in ("", TEKTON)

    @property
    def waits(self) -> bool:
        """Whether its controller returns before it would create anything: pending, or being cancelled."""
        return self.status in ("PipelineRunPending", "Cancelled")

    @property
    def auto_cleanup(self) -> bool:
        """Whether it asks for its template claims to go when it is done."""
        return self.annotations.get(AUTO_CLEANUP) == "true"

    def owner(self, *, controller: bool = True) -> Json:
        """Return the owner reference that makes an object go with the run."""
        reference: Json = {"apiVersion": PIPELINE_RUNS.api_version, "kind": PIPELINE_RUNS.kind}
        reference |= {"name": self.name, "uid": self.uid}
        return reference | ({"controller": True, "blockOwnerDeletion": True} if controller else {})


def read_run(obj: Json) -> PipelineRun:
    """Read a PipelineRun; `InputRefused` says which field does not fit."""
    reader = ObjectReader(label("PipelineRun", str(meta(obj).get("namespace") or "default"), _shown_name(obj)))
    metadata, spec, status = reader.section(obj, "metadata"), reader.section(obj, "spec"), reader.section(obj, "status")
    old = str(obj.get("apiVersion", "")).endswith("/v1beta1")
    run_template = spec if old else reader.section(spec, "taskRunTemplate", "spec")
    where = "spec" if old else "spec.taskRunTemplate"
    params = reader.items(spec, "params", "spec")
    values = param_values(params)
    name = reader.text(metadata, "name", "metadata")
    if not name:
        given = reader.text(metadata, "generateName", "metadata")
        what = f'only generateName "{given}" is set' if given else "it is not set"
        todo = "give the run the name under which it exists or is to be created: names of placeholders follow from it"
        raise InputRefused(reader.problem("metadata.name", what, todo))
    reference = reader.section(spec, "pipelineRef", "spec")
    pod_template = reader.optional(run_template, "podTemplate", where)
    check_template(pod_template or {}, reader.object, f"{where}.podTemplate")
    parent, parent_uid = parent_of(obj)
    return PipelineRun(
        namespace=reader.text(metadata, "namespace", "metadata") or "default",
        name=name,
        uid=reader.text(metadata, "uid", "metadata"),
        labels=reader.texts(metadata, "labels", "metadata"),
        annotations=reader.texts(metadata, "annotations", "metadata"),
        bindings=_bindings(reader, spec, values),
        pod_template=pod_template,
        service_account=reader.text(run_template, "serviceAccountName", where),
        task_specs=_task_specs(reader, spec, old=old),
        params=params,
        pipeline_name=reader.text(reference, "name", "spec.pipelineRef"),
        resolver=reader.text(reference, "resolver", "spec.pipelineRef"),
        pipeline_spec=reader.optional(spec, "pipelineSpec", "spec"),
        stored_spec=reader.optional(status, "pipelineSpec", "status"),
        status=reader.text(spec, "status", "spec"),
        managed_by=reader.text(spec, "managedBy", "spec"),
        done=_done(reader.items(status, "conditions", "status")),
        deleting=bool(metadata.get("deletionTimestamp")),
        parent=parent,
        parent_uid=parent_uid,
    )


def parent_of(obj: Json) -> tuple[str, str]:
    """Return name and UID of the run whose task a run is, both "" if it is nobody's."""
    owner = controller_of(obj)
    if owner.get("kind") != PIPELINE_RUNS.kind:
        return "", ""
    return str(owner.get("name") or ""), str(owner.get("uid") or "")


def _shown_name(obj: Json) -> str:
    metadata = meta(obj)
    return str(metadata.get("name") or metadata.get("generateName") or "(without a name)")


def _done(conditions: list[Json]) -> bool:
    return any(entry.get("type") == "Succeeded" and entry.get("status") in ("True", "False") for entry in conditions)


def _bindings(reader: ObjectReader, spec: Json, values: Values) -> tuple[Binding, ...]:
    found = []
    for number, item in enumerate(reader.items(spec, "workspaces", "spec")):
        path = f"spec.workspaces[{number}]"
        for source in SOURCES:
            reader.optional(item, source, path)
        reader.text(item, "subPath", path)
        reader.text(reader.section(item, "persistentVolumeClaim", path), "claimName", f"{path}.persistentVolumeClaim")
        template = reader.section(item, "volumeClaimTemplate", path)
        inner = f"{path}.volumeClaimTemplate"
        template_meta = reader.section(template, "metadata", inner)
        reader.text(template_meta, "name", f"{inner}.metadata")
        reader.texts(template_meta, "labels", f"{inner}.metadata")
        reader.section(template, "spec", inner)
        sources = tuple(source for source in SOURCES if item.get(source) is not None)
        found.append(Binding(number, reader.text(item, "name", path), filled_binding(item, values), sources))
    return tuple(found)


def _task_specs(reader: ObjectReader, spec: Json, *, old: bool) -> dict[str, TaskSpecs]:
    found: dict[str, TaskSpecs] = {}
    for number, item in enumerate(reader.items(spec, "taskRunSpecs", "spec")):
        path = f"spec.taskRunSpecs[{number}]"
        template = reader.optional(item, "taskPodTemplate" if old else "podTemplate", path)
        resources = reader.optional(item, "computeResources", path)
        name = reader.text(item, "pipelineTaskName", path)
        check_template(template or {}, reader.object, f"spec.taskRunSpecs[{name}].podTemplate")
        before = found.get(name)
        found[name] = TaskSpecs(merged(template, before.pod_template if before else None), resources)
    return found


def conditions_of(obj: Json, kind: str) -> Json:
    """Return the condition of a type in an object's status, empty where there is none."""
    found = (obj.get("status") or {}).get("conditions") or []
    return next((entry for entry in found if isinstance(entry, dict) and entry.get("type") == kind), {})


def controller_of(obj: Json) -> Json:
    """Return the owner reference that controls an object, empty where there is none."""
    found = meta(obj).get("ownerReferences")
    references: list[Any] = found if isinstance(found, list) else []
    return next((one for one in references if isinstance(one, dict) and one.get("controller") is True), {})


def owned_by(obj: Json, uid: str) -> bool:
    """Whether one of an object's owners has a UID."""
    return bool(uid) and any(
        isinstance(one, dict) and one.get("uid") == uid for one in meta(obj).get("ownerReferences") or ()
    )


def labels_of(obj: Json) -> dict[str, str]:
    """Return an object's labels, empty where there are none."""
    found = meta(obj).get("labels")
    return found if isinstance(found, dict) else {}


def annotations_of(obj: Json) -> dict[str, str]:
    """Return an object's annotations, empty where there are none."""
    found = meta(obj).get("annotations")
    return found if isinstance(found, dict) else {}
