"""The kinds of job: a module each, and a line here. Whatever is said of a kind is said there: how it is suspended, copied
and finished, which pods it has, how an API server shows it. Settings, adapters, rights, simulated clusters and the
commands that take jobs are made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.job_kinds.base import JobKind, SimulatedKind
from controlplane.job_kinds.batch_job import BatchJob
from controlplane.job_kinds.jobset import JobSet
from controlplane.job_kinds.pipelinerun import PipelineRun
from controlplane.kube.kinds import Kind

JOB_KINDS: dict[str, JobKind] = {one.integration: one for one in (BatchJob(), JobSet(), PipelineRun())}
"""By the names of Kueue's `integrations.frameworks`; a PipelineRun is an external one there."""

INTEGRATIONS: Mapping[Kind, SimulatedKind] = {
    one.kind: one for one in JOB_KINDS.values() if isinstance(one, SimulatedKind)
}
"""Those that a simulated Kueue runs."""


def adapters_for(integrations: Iterable[str]) -> dict[str, JobKind]:
    """Return the enabled kinds by Go GVK string; `KeyError` names an integration that is none."""
    return {JOB_KINDS[name].kind.gvk: JOB_KINDS[name] for name in integrations}
