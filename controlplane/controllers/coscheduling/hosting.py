"""Hosts the controller that keeps a PipelineRun's pods on one node.

In: settings. Out: its part of the log, what it watches on the cluster beside which it runs, and its policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from controlplane.controllers.coscheduling.controller import NEEDED, CoschedulingController, CoschedulingPolicy
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import COMPONENT
from controlplane.controllers.coscheduling.objects import (
    CLAIMS,
    COMPONENT_LABEL,
    CONFIG_MAPS,
    NODES,
    PODS,
    RUN_LABEL,
    TASK_RUNS,
)
from controlplane.kube.kinds import PERSISTENT_VOLUMES, PIPELINE_RUNS, STATEFUL_SETS
from controlplane.kube.watches import WatchSpec
from controlplane.runtime.hosting import GaugeReading, HostedController, Registration
from controlplane.settings.model import Settings

_STREAMS = frozenset({"pipelinerun", "node", "volume", "coscheduling"})
_HEARS = frozenset({"cluster", "service", "refused"})


def host(settings: Settings, policy: object = None) -> Sequence[HostedController]:
    """Return the controller, or none."""
    if "coscheduling" not in settings.run.controllers:
        return ()
    runs = CoschedulingController(policy_of(settings), settings.leader.identity)

    def unseen() -> str:
        return "" if runs.connection.settled(NEEDED) else "coscheduling does not see all that it needs"

    home = (
        WatchSpec(PIPELINE_RUNS),
        WatchSpec(TASK_RUNS, RUN_LABEL),
        WatchSpec(STATEFUL_SETS, f"{COMPONENT_LABEL}={COMPONENT}"),
        WatchSpec(CLAIMS),
        WatchSpec(PODS, RUN_LABEL),
        WatchSpec(NODES),
        WatchSpec(PERSISTENT_VOLUMES),
        WatchSpec(CONFIG_MAPS, namespace=settings.coscheduling.config_namespace),
    )
    registration = Registration("coscheduling", runs, _STREAMS, _HEARS, identities="coscheduling")
    return (
        HostedController(
            registration=registration, home=home, knows=runs.places, unseen=unseen, gauges=partial(gauges, runs)
        ),
    )


def gauges(controller: CoschedulingController) -> Iterator[GaugeReading]:
    """Yield the number of runs under way in each mode."""
    under_way = (state.current for state in controller.runs.values())
    modes = Counter(one.pinned.mode for one in under_way if one is not None and one.pinned and not one.over)
    for mode in Mode:
        yield GaugeReading("coscheduled_runs", modes[mode.value], {"mode": mode.value})


def policy_of(settings: Settings) -> CoschedulingPolicy:
    """Return what decisions about PipelineRuns' pods depend on."""
    chosen = settings.coscheduling
    return CoschedulingPolicy(
        config_namespace=chosen.config_namespace,
        mode=None if chosen.mode == "flag" else Mode(chosen.mode),
        old_worker=chosen.old_worker == "yes",
        image=chosen.image,
        everywhere=chosen.isolate_everywhere == "yes",
        patience=chosen.end_unfit_after or None,
    )
