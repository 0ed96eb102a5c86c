"""Writes into our admission check which clusters are not offered a Workload because its job would not fit there, or a
rule of the settings leaves them out.

In: a pass over a Workload that waits for a cluster, and the judgement on its job (`connectivity.eligibility`). Out: the
message of our admission check, which is where people look while nothing happens. A cluster that is not judged yet is
not offered the Workload either, and the message does not name it: that is over in a moment."""

from __future__ import annotations

from controlplane.controllers.multikueue.context import Route, WorkloadContext
from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.controllers.multikueue.observations import CheckState, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.conditions import MESSAGE_LIMIT
from controlplane.kube.requests import truncated

_NONE, _SOME, _SHORT = "No cluster can take it: ", "Not offered to ", "Asks for less quota than it needs: "
_ALL = "Every cluster that is connected can take it"


def left_out(context: WorkloadContext, route: Route) -> dict[str, str]:
    """Return why the job would not fit, for each cluster of the route of which that is known."""
    judged = context.judged or {}
    unfit = {name: judged[name].detail for name in route.clusters if name in judged and not judged[name].fits}
    return {**context.excluded(route.clusters), **unfit}


def report_left_out(pass_: WorkloadPass, local: WorkloadObserved, check: CheckState, route: Route) -> None:
    """Keep the message of our check in line with the judgement. It changes when the judgement does, and never else."""
    context = pass_.context
    if context.judged is None and context.scoring is None:
        return
    if context.judged is not None and any(
        context.available(name) and name not in context.judged for name in route.clusters
    ):
        return  # half an answer would only be written twice
    found = {name: why for name, why in left_out(context, route).items() if not pass_.state.remote(name).job}
    message = _message(context, route, found)
    if not message and not check.message.startswith((_NONE, _SOME, _SHORT)):
        return
    message = truncated(message, MESSAGE_LIMIT) or _ALL
    if message != check.message:
        pass_.set_check_message(local, check, check.state, message, WorkloadReason.CLUSTERS_JUDGED)


def _message(context: WorkloadContext, route: Route, found: dict[str, str]) -> str:
    """Return which clusters are left out (`found`) and where the job asks for too little quota, "" if there are
    none."""
    judged = context.judged or {}
    fitting = [name for name in route.clusters if context.available(name) and name not in found]
    short = {name: why for name in fitting if name in judged and (why := judged[name].short)}
    parts = [f"{_SOME if fitting else _NONE}{_each(found)}"] if found else []
    parts += [f"{_SHORT}{_each(short)}"] if short else []
    return ". ".join(parts)


def _each(why: dict[str, str]) -> str:
    return "; ".join(f"{name}: {said}" for name, said in sorted(why.items()))
