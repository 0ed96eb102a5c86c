"""The settings of who owns the PodGroup of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

from controlplane.settings.rules import DNS_NAME, Choice, Duration, Integer, Items, Setting
from controlplane.settings.words import YES_NO
from controlplane.values import Value


class PodGroupSettings(Value, rename="camel"):
    """Who owns the PodGroup of a pod; used if `run.controllers` names `podgroups`."""

    scheduler_names: Annotated[
        tuple[str, ...],
        Setting(
            Items("names of schedulers", DNS_NAME, 253),
            "Pods with one of these as `spec.schedulerName` are put into PodGroups; no others are recorded.",
        ),
    ] = ("volcano", "controlplane")
    status_for: Annotated[
        tuple[str, ...],
        Setting(
            Items("names of schedulers", DNS_NAME, 253),
            "PodGroups with pods of these schedulers are admitted here, once the cluster has room for them, and get "
            "their phase and numbers from the service. Volcano's scheduler does both itself for every PodGroup: where "
            "it runs, the list is to be empty, or without the names of its pods. If it names none of "
            "`podgroups.schedulerNames`, no Nodes are watched.",
        ),
    ] = ("controlplane",)
    block_owner_deletion: Annotated[
        str,
        Setting(
            YES_NO,
            "The flag `blockOwnerDeletion` of a PodGroup's owner reference. `no` where the admission plugin "
            "OwnerReferencesPermissionEnforcement would ask for rights on the owners' finalizers.",
        ),
    ] = "yes"
    inqueue_limit: Annotated[
        timedelta,
        Setting(
            Duration(),
            "How long a PodGroup that was admitted may take to start. It rests as long before it is tried again.",
        ),
    ] = timedelta(minutes=10)
    capacity: Annotated[
        str,
        Setting(
            Choice(
                ("nodes",),
                removed={
                    "scheduler": "no scheduler records the cluster's capacity in this log, and every PodGroup stayed "
                    "Pending; leave the setting out, or write nodes, and let the service list and watch Nodes and Pods"
                },
            ),
            "Where the cluster's capacity comes from, without which no PodGroup is admitted: it is summed up here from "
            "Nodes and all Pods.",
        ),
    ] = "nodes"
    overcommit_percent: Annotated[
        int,
        Setting(
            Integer(least=100, most=1000),
            "How much of the cluster's total is given to PodGroups that are admitted: 120 is Volcano's factor 1.2.",
        ),
    ] = 120


def podgroup_contradictions(chosen: PodGroupSettings, *, runs: bool) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values do not go with others, each with the reason; `runs`: whether the controller does."""
    if runs and not chosen.scheduler_names:
        yield "podgroups.schedulerNames", "must name a scheduler when run.controllers names podgroups"
