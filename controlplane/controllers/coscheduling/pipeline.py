"""A pipeline's tasks, as far as the placement of their pods depends on them.

In: a PipelineSpec (inline, stored in the run's status, or that of a Pipeline) and the Tasks that are known. Out: the
tasks in order, `finally` last, with the workspaces that each uses; those that an inline task only mentions in its steps
are added, as Tekton does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from controlplane.controllers.coscheduling.placement.substitution import Values, fill
from controlplane.controllers.coscheduling.problems import InputRefused
from controlplane.controllers.coscheduling.reader import ObjectReader
from controlplane.kube.kinds import Json
from controlplane.values import Value

TaskKind = Literal["TaskRun", "CustomRun", "PipelineRun"]
_MENTION = re.compile(r"""\$\(workspaces(?:\.(.*?)|\["(.*?)"\]|\['(.*?)'\])\)""")
_SPEAKING = ("script", "args", "command", "workingDir")


class WorkspaceUse(msgspec.Struct, frozen=True):
    """A workspace as a task uses it: its name there, the run's workspace behind it, the path below."""

    name: str
    workspace: str
    sub_path: str = ""


class PipelineTask(Value):
    """A task of a pipeline. `kind` is what Tekton creates for it; `optional` are the workspaces that it can do without,
    None if its declaration is not known; `needed` those of the pipeline that it names and declares as not optional;
    `spec` is the inline or looked-up task's own spec, empty if it is not known; `body` the entry itself."""

    name: str
    kind: TaskKind
    final: bool
    uses: tuple[WorkspaceUse, ...]
    optional: frozenset[str] | None
    needed: tuple[str, ...]
    spec: Json
    body: Json


class Pipeline(msgspec.Struct, frozen=True):
    """A pipeline: its tasks, and which workspaces it declares, required and optional."""

    tasks: tuple[PipelineTask, ...]
    required: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()


def read_pipeline(
    reader: ObjectReader,
    spec: Json,
    passes: Sequence[Values],
    tasks: Mapping[str, Json],
    path: str = "spec.pipelineSpec",
) -> Pipeline:
    """Read a PipelineSpec; `passes` are what its variables stand for, in Tekton's order, `tasks` the known Tasks by
    name.
    """
    found: list[PipelineTask] = []
    for field in ("tasks", "finally"):
        for number, item in enumerate(reader.items(spec, field, path)):
            found.append(_task(reader, item, f"{path}.{field}[{number}]", field == "finally", passes, tasks))
    if not found:
        raise InputRefused(reader.problem(f"{path}.tasks", "there is no task", "give the pipeline at least one task"))
    declared = reader.items(spec, "workspaces", path)
    names = [reader.text(item, "name", f"{path}.workspaces[{number}]") for number, item in enumerate(declared)]
    optional = frozenset(name for name, item in zip(names, declared, strict=True) if item.get("optional") is True)
    return Pipeline(tuple(found), tuple(name for name in names if name not in optional), optional)


def _task(
    reader: ObjectReader, item: Json, path: str, final: bool, passes: Sequence[Values], tasks: Mapping[str, Json]
) -> PipelineTask:
    name = reader.text(item, "name", path)
    if not name:
        raise InputRefused(reader.problem(f"{path}.name", "it is not set", "name the task"))
    inline = reader.section(item, "taskSpec", path)
    reference = reader.section(item, "taskRef", path)
    kind = _kind(item, inline, reference)
    spec = inline
    if not inline and kind == "TaskRun":
        known = tasks.get(fill(reader.text(reference, "name", f"{path}.taskRef"), *passes))
        spec = reader.section(known, "spec") if known else {}
    uses = _uses(reader, item, path, passes)
    named = {use.name for use in uses}
    mentioned = _mentioned(reader, inline, f"{path}.taskSpec", passes) if kind == "TaskRun" else []
    uses += [WorkspaceUse(workspace, workspace) for workspace in mentioned if workspace not in named]
    declared = {
        reader.text(one, "name", f"{path}.taskSpec.workspaces[{number}]"): one.get("optional") is True
        for number, one in enumerate(reader.items(spec, "workspaces", f"{path}.taskSpec"))
    }
    return PipelineTask(
        name=name,
        kind=kind,
        final=final,
        uses=tuple(uses),
        optional=frozenset(name for name, optional in declared.items() if optional) if spec else None,
        needed=_needed(item, declared) if kind == "TaskRun" else (),
        spec=spec,
        body=item,
    )


def _uses(reader: ObjectReader, item: Json, path: str, passes: Sequence[Values]) -> list[WorkspaceUse]:
    """Return the workspaces that a task binds by name."""
    found = []
    for number, use in enumerate(reader.items(item, "workspaces", path)):
        where = f"{path}.workspaces[{number}]"
        name = reader.text(use, "name", where)
        workspace = reader.text(use, "workspace", where) or name
        found.append(WorkspaceUse(name, workspace, fill(reader.text(use, "subPath", where), *passes)))
    return found


def _needed(item: Json, declared: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the pipeline's workspaces that a task names as such and declares as not optional."""
    uses = ((str(use.get("name")), use.get("workspace")) for use in item.get("workspaces") or ())
    return tuple(str(workspace) for name, workspace in uses if workspace and declared.get(name) is False)


def _kind(item: Json, inline: Json, reference: Json) -> TaskKind:
    if item.get("pipelineRef") is not None or item.get("pipelineSpec") is not None:
        return "PipelineRun"
    # Any reference with an apiVersion is a custom one, even `tekton.dev/v1` and `Task`; a kind that is left out becomes
    # `Task`.
    named = reference.get("apiVersion") and (reference.get("kind") or not reference.get("resolver"))
    return "CustomRun" if named or (inline.get("apiVersion") and inline.get("kind")) else "TaskRun"


def _mentioned(reader: ObjectReader, inline: Json, path: str, passes: Sequence[Values]) -> list[str]:
    """Return the workspaces that an inline task's steps speak of, sorted: those of `$(workspaces.NAME.path)` and the
    like.
    """
    texts: list[str] = []
    for field in ("steps", "sidecars"):
        for number, one in enumerate(reader.items(inline, field, path)):
            _collect(reader, one, f"{path}.{field}[{number}]", texts)
    _collect(reader, reader.section(inline, "stepTemplate", path), f"{path}.stepTemplate", texts)
    found = [match for text in texts for match in _MENTION.findall(fill(text, *passes))]
    return sorted({dotted.partition(".")[0] or quoted or single for dotted, quoted, single in found} - {""})


def _collect(reader: ObjectReader, one: Json, path: str, texts: list[str]) -> None:
    """Gather the texts of a step, a sidecar or a step template in which Tekton looks for workspaces."""
    for field in _SPEAKING:
        value = one.get(field)
        texts.extend(text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))
    for field in ("env", "params"):
        for entry in reader.items(one, field, path):
            value = entry.get("value")
            listed = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
            texts.extend(text for text in listed if isinstance(text, str))
