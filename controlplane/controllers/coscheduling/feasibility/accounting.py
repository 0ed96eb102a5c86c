"""What a PipelineRun is charged: the most that its tasks ask for at one time, and its placeholders beside them (section
8.6).

In: a run, its pipeline, its mode. Out: an account. Whoever makes the run's Workload asks for the total of it, so that a
placeholder never takes what quota has promised to somebody else."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.controllers.coscheduling.feasibility.nodes import Charge, charge
from controlplane.controllers.coscheduling.feasibility.task_groups import largest_wave
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.objects import PipelineRun
from controlplane.controllers.coscheduling.pipeline import Pipeline
from controlplane.kube.pod_requests import Requests
from controlplane.kube.quantities import spell, to_milli
from controlplane.kube.well_known import PODS_RESOURCE


class Account(msgspec.Struct, frozen=True):
    """`tasks`: the largest wave, resource by resource, in billionths, and in whole pods; `placeholders` come beside
    it.
    """

    tasks: Requests
    placeholders: Charge

    @property
    def total(self) -> Requests:
        """What quota has to hold for the run."""
        both = (self.tasks, self.placeholders.requests)
        return {name: sum(one.get(name, 0) for one in both) for name in {*self.tasks, *self.placeholders.requests}}


def account(run: PipelineRun, pipeline: Pipeline, mode: Mode) -> Account:
    """Return the account of a run. `Refused` or `ValueError` if the pipeline cannot be read."""
    return Account(largest_wave(run, pipeline), charge(run, mode))


def account_json(found: Account) -> dict[str, Any]:
    """Return an account in the form that programs read: quantities as Kubernetes spells them."""
    return {
        "placeholders": found.placeholders.placeholders,
        "tasks": spelled(found.tasks),
        "total": spelled(found.total),
    }


def spelled(requests: Requests) -> dict[str, str]:
    """Return amounts as quantities, without those that are nothing."""
    return {
        name: str(amount) if name == PODS_RESOURCE else spell(name, to_milli(amount))
        for name, amount in sorted(requests.items())
        if amount
    }
