"""Reads the four modes and the flags that choose among them (tektoncd/pipeline pkg/apis/config/feature_flags.go,
3ee1745ae).

In: the `data` of Tekton's ConfigMap `feature-flags`. Out: `Flags`, or `InputRefused` with the key that cannot be used.
A run keeps the mode that it began with; `effective` says which flags hold for runs that begin now when the ConfigMap
has become unusable: the last good ones."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused
from controlplane.values import Value

COSCHEDULE = "coschedule"
DISABLE_ASSISTANT = "disable-affinity-assistant"
SET_SECURITY_CONTEXT = "set-security-context"
READ_ONLY_ROOT = "set-security-context-read-only-root-filesystem"
FLAGS_NAME, FLAGS_NAMESPACE = "feature-flags", "tekton-pipelines"
DEFAULT_WHERE = f"ConfigMap {FLAGS_NAMESPACE}/{FLAGS_NAME}"
# What Go's strconv.ParseBool takes: the workers read the same ConfigMap with it.
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


class Mode(StrEnum):
    """How a run's pods are brought together; the values are those of the flag `coschedule`."""

    WORKSPACES = "workspaces"
    PIPELINERUNS = "pipelineruns"
    ISOLATE = "isolate-pipelinerun"
    DISABLED = "disabled"

    @property
    def per_run(self) -> bool:
        """Whether one placeholder serves the whole run."""
        return self in (Mode.PIPELINERUNS, Mode.ISOLATE)


class Flags(Value):
    """What the ConfigMap says; `notes` are things that its owner should know and that change nothing."""

    mode: Mode = Mode.WORKSPACES
    set_security_context: bool = False
    read_only_root: bool = False
    notes: tuple[str, ...] = ()


class Effective(msgspec.Struct, frozen=True):
    """The flags that hold for runs that begin now, and what is wrong with the ConfigMap if they are not its own."""

    flags: Flags
    problem: InputProblem | None = None


def read_flags(data: Mapping[str, object], where: str = DEFAULT_WHERE, *, old_worker: bool = False) -> Flags:
    """Read the flags; `InputRefused` names every key that cannot be used.

    `old_worker`: the cluster runs a Tekton that still knows `disable-affinity-assistant` (v0.68 and before), so the
    left column of the matrix holds. Otherwise that flag is ignored, as newer ones do."""
    problems: list[InputProblem] = []
    mode = _mode(data, where, problems)
    disabled = _boolean(data, DISABLE_ASSISTANT, where, problems) if old_worker else False
    secure = _boolean(data, SET_SECURITY_CONTEXT, where, problems)
    read_only = _boolean(data, READ_ONLY_ROOT, where, problems)
    if old_worker and not problems:
        mode = _before_removal(mode, disabled, where, problems)
    if problems:
        raise InputRefused(*problems)
    notes: list[str] = []
    if DISABLE_ASSISTANT in data and not old_worker:
        ignored = f"{where}: data.{DISABLE_ASSISTANT} is ignored: it left Tekton after v0.68"
        notes.append(f'{ignored}; set data.{COSCHEDULE} to "{Mode.DISABLED}" to have no placeholders')
    return Flags(mode=mode, set_security_context=secure, read_only_root=read_only, notes=tuple(notes))


def effective(
    last_good: Flags | None, data: Mapping[str, object], where: str = DEFAULT_WHERE, *, old_worker: bool = False
) -> Effective:
    """Return the flags that hold now: the ConfigMap's, or if it cannot be used the last good ones."""
    try:
        return Effective(read_flags(data, where, old_worker=old_worker))
    except InputRefused as refused:
        return Effective(last_good or Flags(), refused.problems[0])


def _mode(data: Mapping[str, object], where: str, problems: list[InputProblem]) -> Mode:
    if COSCHEDULE not in data:
        return Mode.WORKSPACES
    found = data[COSCHEDULE]
    value = found.lower() if isinstance(found, str) else found
    if isinstance(value, str) and value in set(Mode):
        return Mode(value)
    what = (
        f'"{found}" is not a mode' if isinstance(found, str) else f"a {type(found).__name__} is not the name of a mode"
    )
    problems.append(
        InputProblem(where, f"data.{COSCHEDULE}", what, f"set it to one of {', '.join(Mode)}, or leave it out")
    )
    return Mode.WORKSPACES


def _before_removal(mode: Mode, assistant_off: bool, where: str, problems: list[InputProblem]) -> Mode:
    """Return the mode while both flags existed (docs/reference/coscheduling.md, Flags)."""
    if assistant_off:
        return Mode.DISABLED if mode is Mode.WORKSPACES else mode
    if mode is not Mode.WORKSPACES:
        problems.append(
            InputProblem(
                where,
                f"data.{COSCHEDULE}",
                f"coschedule value {mode} is incompatible with {DISABLE_ASSISTANT} set to false",
                f'set data.{DISABLE_ASSISTANT} to "true", or data.{COSCHEDULE} to "{Mode.WORKSPACES}"',
            )
        )
    return mode


def _boolean(data: Mapping[str, object], key: str, where: str, problems: list[InputProblem]) -> bool:
    if key not in data:
        return False
    found = data[key]
    value = _BOOLEANS.get(found) if isinstance(found, str) else None
    if value is None:
        shown = f'"{found}"' if isinstance(found, str) else f"a {type(found).__name__}"
        problems.append(
            InputProblem(where, f"data.{key}", f"{shown} is not a flag", 'set it to the text "true" or "false"')
        )
        return False
    return value
