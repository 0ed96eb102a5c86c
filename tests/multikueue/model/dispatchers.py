"""Who nominates clusters in the model, where it is not our process that asks all of them at once: a few more each
round, or somebody else, in any order.

In: the management cluster's objects, what surrounds them. Out: what somebody else's dispatcher does, and the rules of
both (KEP-693 of kubernetes-sigs/kueue, and pkg/controller/workloaddispatcher/incrementaldispatcher.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.controllers.multikueue.nominate import INCREMENTAL, OWN
from controlplane.kube.kinds import Json
from tests.multikueue.model import kueue
from tests.multikueue.model.world import NAMES, ROUND, Config, Frame, Store, Violation

ANOTHER = "example.com/dispatcher"
HELD: Json = {"metadata": {"uid": "queue#1"}, "spec": {"stopPolicy": "Hold"}}
"""The ClusterQueue of a worker that admits nothing."""


def waits_to_be_nominated(workload: Json | None) -> bool:
    """Whether somebody else's dispatcher may say which clusters are asked."""
    if workload is None or kueue.condition(workload, "Finished") or kueue.condition(workload, "Evicted"):
        return False
    check = next(iter(workload["status"].get("admissionChecks") or []), {"state": ""})
    placed = bool(workload["status"].get("clusterName"))
    return kueue.condition(workload, "QuotaReserved") and check["state"] == "Pending" and not placed


def nominations(store: Store, config: Config) -> Iterator[tuple[str, bool, Store, int]]:
    """Return what somebody else's dispatcher may do next: what, whether it need not, the objects then, and whom it
    asks, as bits. It has to ask somebody; whom it asks besides, and whom no more, is as it likes.
    """
    workload = store["workload"]
    if config.dispatcher in OWN or not waits_to_be_nominated(workload):
        return
    asked = list(workload["status"].get("nominatedClusterNames") or [])
    for place, name in enumerate(config.names):
        after = [one for one in asked if one != name] if name in asked else sorted([*asked, name])
        status = {key: value for key, value in workload["status"].items() if key != "nominatedClusterNames"}
        if after:
            status["nominatedClusterNames"] = after
        to = {**store, "workload": {**workload, "status": status}}
        what = "takes back" if name in asked else "nominates"
        yield f"somebody {what} {name}", bool(asked), to, 0 if name in asked else 1 << place


def check(config: Config, f: Frame, home: Store) -> None:
    """S9: of clusters that are asked in rounds, there are no more than the rounds so far allow. S10: where somebody
    else nominates, nobody is nominated whom he never named.
    """
    workload = home["workload"]
    nominated = (workload or {}).get("status", {}).get("nominatedClusterNames") or []
    if config.dispatcher == INCREMENTAL and len(nominated) > config.step_size * (1 + f.waited // ROUND):
        raise Violation("S9", f"{nominated} are asked after {f.waited} s")
    if config.dispatcher not in OWN:
        unasked = [name for name in nominated if not f.asked >> NAMES.index(name) & 1]
        if unasked:
            raise Violation("S10", f"{unasked} are nominated, and the dispatcher never named them")
