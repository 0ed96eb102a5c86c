"""Lists the kinds of job that the simulated clusters of this scene run, and how each is handled.

In: nothing. Out: adapters by kind. Those of Kueue's job framework are there always; pods and sets where a plan says
so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from controlplane.job_kinds import INTEGRATIONS
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.pod import Pod
from controlplane.kube.kinds import Kind
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kueue.sets import SETS

GATED: Final[Sequence[JobKind]] = (Pod(), *SETS)
"""The kinds that name no controller, and are kept from running on the management cluster by a gate."""
ADAPTERS: Final[Mapping[Kind, JobKind]] = {**INTEGRATIONS, **{one.kind: one for one in GATED}}


def served_in(store: Store) -> list[Kind]:
    """Return the kinds of job that a cluster serves."""
    return [kind for kind in ADAPTERS if kind in store.served]
