"""The kinds of job: a module each, and a line here. Whatever is said of a kind is said there: how it is suspended,
copied and finished, which pods it has, how an API server shows it. Settings, adapters, rights, simulated clusters and
the commands that take jobs are made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.job_kinds.appwrapper import AppWrapper
from controlplane.job_kinds.base import JobKind, SimulatedKind
from controlplane.job_kinds.batch_job import BatchJob
from controlplane.job_kinds.custom import CustomJob, is_framework
from controlplane.job_kinds.jobset import JobSet
from controlplane.job_kinds.kubeflow import JAXJob, MPIJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob
from controlplane.job_kinds.leaderworkerset import LeaderWorkerSet
from controlplane.job_kinds.pipelinerun import PipelineRun
from controlplane.job_kinds.pod import Pod
from controlplane.job_kinds.ray import RayCluster, RayJob, RayService
from controlplane.job_kinds.spark import SparkApplication
from controlplane.job_kinds.statefulset import Deployment, StatefulSet
from controlplane.job_kinds.trainjob import TrainJob
from controlplane.kube.kinds import Kind

_EVERY: tuple[JobKind, ...] = (
    BatchJob(),
    JobSet(),
    TFJob(),
    PyTorchJob(),
    XGBoostJob(),
    PaddleJob(),
    JAXJob(),
    MPIJob(),
    TrainJob(),
    RayJob(),
    RayCluster(),
    RayService(),
    AppWrapper(),
    SparkApplication(),
    Pod(),
    Deployment(),
    StatefulSet(),
    LeaderWorkerSet(),
    PipelineRun(),
)
JOB_KINDS: dict[str, JobKind] = {one.integration: one for one in _EVERY}
"""By the names of Kueue's `integrations.frameworks`; a PipelineRun is an external one there."""

SIMULATED: Mapping[Kind, SimulatedKind] = {
    one.kind: one for one in JOB_KINDS.values() if isinstance(one, SimulatedKind)
}
"""Those whose own controllers a simulated cluster plays."""
INTEGRATIONS: Mapping[Kind, SimulatedKind] = {kind: one for kind, one in SIMULATED.items() if one.dispatched}
"""Those that a simulated worker's Kueue runs."""


def adapters_for(integrations: Iterable[str]) -> dict[str, JobKind]:
    """Return the enabled kinds by Go GVK string. A name with a kind in it (`Render.v1.example.com`) is a custom one's;
    `KeyError` names an integration that is none.
    """
    found = [JOB_KINDS[name] if name in JOB_KINDS or "/" in name else CustomJob(name) for name in integrations]
    return {one.kind.gvk: one for one in found}


def named(gvk: str) -> str:
    """Return the name by which the settings enable a kind, from its Go GVK string; "" if they cannot, as of a kind that
    only a later version dispatches.
    """
    known = next((one.integration for one in JOB_KINDS.values() if one.kind.gvk == gvk), "")
    api_version, _, kind = gvk.partition(", Kind=")
    group, _, version = api_version.partition("/")
    custom = f"{kind}.{version}.{group}"
    return known or (custom if is_framework(custom) else "")
