"""Logs of fleets where this service decides about quota, and Kueue's objects to be given instead."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controlplane.dst.engine.drawing import numbered
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.admission.plan import SCENE, SHAPE, plan_of
from controlplane.dst.scenes.workloads.processes import ALL_AT_ONCE
from controlplane.kube.kinds import Json
from controlplane.log.event import Event
from controlplane.settings.quota import BUILTIN
from controlplane.whatif.quota_objects import given_object

QUOTAS = {"management": 12, "w1": 12, "w2": 12, "w3": 12}
"""Workers on which everything fits that has quota."""
KEPT_APART, OF_A_COHORT = 3, 4
"""Shapes: two queues of 3 CPUs of which one lends nothing; and queues of 1 and 2 CPUs that share another one, and
preempt."""


def fleet(*steps: Step, shape: int = KEPT_APART) -> Plan:
    """Return a plan of the scene `admission` with queues of a shape."""
    found = tuple(numbered(list(steps)))
    return Plan(1, QUOTAS, 1, found, len(found), scene=SCENE, traits=(BUILTIN, ALL_AT_ONCE, f"{SHAPE}{shape}"))


def random_fleet(seed: int) -> Plan:
    """Draw a fleet without trouble, with queues of any shape, of which some are stopped, and jobs of which some become
    more urgent."""
    plan, source = plan_of(seed, edition=7, trouble=0), random.Random(f"what-if {seed}")
    names = [step.where for step in plan.steps]
    more = []
    for kind in source.choices(["stop-queue", "raise"], k=source.randint(0, 3)):
        at, seconds = round(source.uniform(20, 250), 3), round(source.uniform(10, 90), 3)
        more.append(Step(0, at, kind, source.choice(names), seconds, source.randint(1, 60)))
    return replace(plan, steps=tuple(numbered([*plan.steps, *more])))


def cluster_queue(name: str, cpu: int, **spec: Any) -> Json:
    """Return a ClusterQueue of the Cohort `all`."""
    quota = {"name": "cpu", "nominalQuota": str(cpu)}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": "all",
            "namespaceSelector": {},
            "admissionChecksStrategy": {"admissionChecks": [{"name": "multikueue"}]},
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [{"name": "default-flavor", "resources": [quota]}]}
            ],
            **spec,
        },
    }


def cohort(name: str, cpu: int) -> Json:
    """Return a Cohort with CPUs of its own."""
    spec = cluster_queue(name, cpu)["spec"]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": name},
        "spec": {"resourceGroups": spec["resourceGroups"]},
    }


def given(*objects: Json) -> Mapping[str, Event]:
    """Return objects as an alternative takes them."""
    return dict(given_object(one) for one in objects)
