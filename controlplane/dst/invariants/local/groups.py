"""Whose group a pod is in: named once, after an owner on its own chain, by the rules; and what the group asks for, as
the spec has it.

In: commits of pods and PodGroups, the resolutions as they reach the log. Out: a violation when a pod's group is
renamed, when a resolution names somebody who is not on the pod's chain or whom no rules chose, and at the end when a
group's fields are not what its owners say."""

from __future__ import annotations

from typing import Any

from controlplane.app.hosted import HostedControllers
from controlplane.controllers.podgroups.events import OwnerResolved, RulesAccepted
from controlplane.controllers.podgroups.membership import OWNER_LABEL
from controlplane.controllers.podgroups.objects import MIN_MEMBER, OwnerReference
from controlplane.controllers.podgroups.rules import Rules
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.local.environment import OwnClusterEnvironment
from controlplane.dst.scenes.local.hosted import group_of, notes_of
from controlplane.kube.kinds import PODS, Json, meta
from controlplane.kube.pod_requests import effective
from controlplane.kube.quantities import nanos
from controlplane.kube.well_known import REVISION
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.controllers.workload_owners import controller_of
from controlplane.simulation.kinds.own_cluster import DEPLOYMENTS, POD_GROUPS, REPLICA_SETS

NAMED = "a group's name does not change"
CHOSEN = "a pod is in its owner's group"
FIELDS = "a group asks for what its owners say"


class GroupRules:
    """What each pod was put into, every object by UID as it last was, and the rules that were accepted so far."""

    def __init__(self, trace: Trace, environment: OwnClusterEnvironment, shadow: HostedControllers) -> None:
        self._trace, self._environment, self._shadow = trace, environment, shadow
        self._named: dict[str, str] = {}
        self._pinned: dict[str, str] = {}
        self._objects: dict[str, Json] = {}
        self._gone: set[str] = set()
        self._rules: list[Rules] = [Rules()]
        self._secret: set[str] = set()
        for record in environment.everything():
            self._objects[record.uid] = record.copy()

    def on_commit(self, commit: Commit) -> None:
        """Look at a pod's annotation, and remember every object."""
        record = commit.record
        self._objects[record.uid] = obj = record.copy()
        if commit.type == "DELETED":
            self._gone.add(record.uid)
        if record.kind == PODS:
            group, before = group_of(obj), self._named.get(record.uid, "")
            if before and group != before:
                self._trace.violate(NAMED, f"pod {record.name} was in {before} and is in {group or 'none'}")
            self._named[record.uid] = group
            self._hidden(obj)

    def _hidden(self, pod: Json) -> None:
        """Take note of a pod with an owner that may not be read, or is not there: then nobody above counts."""
        if any(kind in self.forbidden() for kind in (str(one.get("kind")) for one in self._chain(pod)[1:])):
            self._secret.add(meta(pod)["uid"])

    def forbidden(self) -> set[str]:
        """Return the kinds (`Deployment`) that the controllers may not read now."""
        named = {storm.resource for storm in self._environment.ways["rooms"].storms if storm.status == 403}
        return {kind.kind for kind in self._environment.store.served if kind.name in named}

    def before_fold(self, recorded: Recorded) -> None:
        """Look at a resolution."""
        event = recorded.event
        if isinstance(event, RulesAccepted):
            self._rules.append(Rules(tuple(event.rules)))
        elif isinstance(event, OwnerResolved):
            self._resolved(event)

    def _resolved(self, event: OwnerResolved) -> None:
        before = self._pinned.get(event.uid, event.group)
        self._pinned[event.uid] = event.group
        # Who is in no group yet, and whose owner is gone, is resolved anew.
        joined, there = self._named.get(event.uid), before.removeprefix("podgroup-") not in self._gone
        if before != event.group and (joined or there):
            self._trace.violate(NAMED, f"a pod resolved to {before} is resolved to {event.group}")
        pod = self._objects.get(event.uid)
        if pod is None:
            return
        chain = self._chain(pod)
        allowed = {self._chosen(chain, rules) for rules in self._rules}
        if event.uid in self._secret or event.resolution.warnings:
            allowed.add(chain[min(1, len(chain) - 1)]["uid"])
        if event.group not in {f"podgroup-{uid}" for uid in allowed}:
            name = meta(pod)["name"]
            self._trace.violate(CHOSEN, f"pod {name} is in {event.group}, not in any of {sorted(allowed)}")

    def _chain(self, pod: Json) -> list[Json]:
        """Return the pod and its controlling owners, as references, as far as they are or were there."""
        head = {"apiVersion": "v1", "kind": "Pod", "name": meta(pod)["name"], "uid": meta(pod)["uid"]}
        chain, obj = [head], pod
        while (above := controller_of(obj)) and len(chain) < 10:
            chain.append(above)
            obj = self._objects.get(above["uid"], {"metadata": {}})
        return chain

    @staticmethod
    def _chosen(chain: list[Json], rules: Rules) -> str:
        """Return the UID of the owner that rules choose (docs/explanation/podgroups.md): that of the nearest match,
        moved by its adjustment, else the first.
        """
        for place, one in enumerate(chain[1:], 1):
            reference = OwnerReference(
                api_version=one["apiVersion"], kind=one["kind"], name=one["name"], uid=one["uid"]
            )
            rule = rules.match(reference)
            if rule is not None:
                return str(chain[max(place + rule.adjust_level, 0)]["uid"])
        return str(chain[min(1, len(chain) - 1)]["uid"])

    # --- at the end --------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Look at the fields of every group of ours that has members."""
        pods = [record.obj for record in self._environment.records(PODS)]
        for record in self._environment.records(POD_GROUPS):
            owner = record.labels.get(OWNER_LABEL)
            members = [pod for pod in pods if group_of(pod) == record.name]
            # Of a group that its owner has left behind nobody asks for anything.
            kept = controller_of(record.obj).get("uid") == owner
            if owner is None or not kept or not members or _has_unresolved_owner(record):
                continue
            members = [pod for pod in members if self._pinned.get(meta(pod)["uid"]) == record.name]
            if members:
                self._fields(record.name, record.obj["spec"], owner, members)

    def _fields(self, name: str, spec: Json, owner: str, members: list[Json]) -> None:
        first = min(members, key=lambda pod: (meta(pod)["creationTimestamp"], meta(pod)["name"]))
        chain = self._chain(first)
        place = next((at for at, one in enumerate(chain) if one["uid"] == owner), 0)
        wanted = 1
        for one in chain[place:0:-1]:
            text = notes_of(self._objects.get(one["uid"], {"metadata": {}})).get(MIN_MEMBER)
            if text is not None:
                wanted = int(text)
                break
        if spec.get("minMember") != wanted:
            self._trace.violate(FIELDS, f"{name}: minMember is {spec.get('minMember')}, its owners say {wanted}")
        template = self._template(chain, place)
        if template is None:
            return
        asked = effective(template).get("cpu", 0) * wanted
        found = nanos((spec.get("minResources") or {}).get("cpu", "0"))
        if asked != found:
            self._trace.violate(FIELDS, f"{name}: minResources has {found} billionths of a CPU, its owners say {asked}")

    def _template(self, chain: list[Json], place: int) -> Any:
        """Return the pod spec that an owner's pods are made of now: of a Deployment, its newest ReplicaSet's."""
        if place and chain[place]["kind"] == DEPLOYMENTS.kind:
            sets = [
                one.obj
                for one in self._environment.records(REPLICA_SETS)
                if controller_of(one.obj).get("uid") == chain[place]["uid"]
            ]
            return (
                max(sets, key=lambda one: int(notes_of(one).get(REVISION, 0)))["spec"]["template"]["spec"]
                if sets
                else None
            )
        for one in reversed(chain[1 : place + 1]):
            found = (self._objects.get(one["uid"], {}).get("spec") or {}).get("template")
            if found is not None:
                return found["spec"]
        return None


def _has_unresolved_owner(group: Record) -> bool:
    conditions = (group.obj.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "OwnerResolved" for condition in conditions)
