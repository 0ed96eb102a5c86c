"""Judges what dispatch is wired with: ClusterQueue → AdmissionCheck → MultiKueueConfig → MultiKueueClusters, the
LocalQueues on both sides, and whether Kueue's own MultiKueue controller is out of the way.

In: `Facts`. Out: findings, of which each names the reference that leads nowhere. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.doctor.facts import Facts, Objects, QueueFacts
from controlplane.doctor.findings import QUEUES, Finding, FindingMaker, Unread, judged
from controlplane.kube.documents import documents
from controlplane.kube.kinds import Json, meta
from controlplane.kube.kueue_names import MULTIKUEUE

MOST = 20
"""How many clusters Kueue's API lets a MultiKueueConfig name."""

_HERE = FindingMaker(QUEUES)
_CONFIG_KIND = "MultiKueueConfig"
_GATE = "MultiKueue"
_OURS = "controlplane"
_SET_UP = "docs/howto/real-clusters.md says how they belong together"
_READ = "run this as an account that may read it: deploy/rbac/management"
_GATE_OFF = (
    "set featureGates.MultiKueue to false in the ConfigMap kueue-manager-config, and restart Kueue: two controllers "
    "would both act"
)


def check(facts: Facts) -> list[Finding]:
    """Return what there is to say."""
    return judged(QUEUES, _ALONE if _dispatches_nothing(facts.queues) else CHECKS, facts)


def _dispatches_nothing(queues: QueueFacts) -> bool:
    """Whether jobs are to run on this cluster alone: quota is decided on here, and nothing of MultiKueue is there."""
    lists = (queues.checks, queues.configs, queues.clusters)
    return (
        queues.builtin
        and not any(isinstance(one, Unread) for one in lists)
        and not (our_checks(queues) or queues.configs or queues.clusters)
    )


def _named(objects: Iterable[Json]) -> dict[str, Json]:
    return {str(meta(one).get("name", "")): one for one in objects}


def _section(obj: Json, *path: str) -> Json:
    for name in path:
        found = obj.get(name)
        obj = found if isinstance(found, dict) else {}
    return obj


def _listed(obj: Json, *path: str) -> list[Any]:
    found = _section(obj, *path[:-1]).get(path[-1])
    return found if isinstance(found, list) else []


def our_checks(queues: QueueFacts) -> Mapping[str, Json]:
    """Return the AdmissionChecks that are ours, by name."""
    if isinstance(queues.checks, Unread):
        return {}
    return {
        name: one
        for name, one in _named(queues.checks).items()
        if _section(one, "spec").get("controllerName") == queues.controller_name
    }


def checks_of(cluster_queue: Json) -> set[str]:
    """Return the names of the AdmissionChecks of a ClusterQueue, by either of its two fields."""
    plain = [str(one) for one in _listed(cluster_queue, "spec", "admissionChecks")]
    rules = _listed(cluster_queue, "spec", "admissionChecksStrategy", "admissionChecks")
    return {*plain, *(str(one.get("name", "")) for one in rules if isinstance(one, dict))}


def clusters_of(queues: QueueFacts) -> set[str]:
    """Return the clusters that any of our checks leads to."""
    if isinstance(queues.configs, Unread):
        return set()
    configs = _named(queues.configs)
    named = (str(_section(one, "spec", "parameters").get("name", "")) for one in our_checks(queues).values())
    return {str(one) for name in named for one in _listed(configs.get(name, {}), "spec", "clusters")}


def _unread(check: str, *lists: Objects) -> Sequence[Finding]:
    return [_HERE.unknown(check, one, _READ) for one in lists if isinstance(one, Unread)][:1]


def _admission_checks(facts: Facts) -> Sequence[Finding]:
    queues = facts.queues
    if isinstance(queues.checks, Unread) or isinstance(queues.configs, Unread):
        return _unread("admission checks", queues.checks, queues.configs)
    ours = our_checks(queues)
    if not ours:
        said = f"no AdmissionCheck has the controllerName {queues.controller_name}"
        return [_HERE.failed("admission checks", said, f"create one, or correct multikueue.controllerName; {_SET_UP}")]
    found: list[Finding] = []
    for name, one in ours.items():
        found += _admission_check(name, one, _named(queues.configs))
    return found


def _admission_check(name: str, one: Json, configs: Mapping[str, Json]) -> Sequence[Finding]:
    parameters, what = _section(one, "spec", "parameters"), f"AdmissionCheck {name}"
    kind, config = str(parameters.get("kind", "")), str(parameters.get("name", ""))
    if kind != _CONFIG_KIND or not config:
        said = f"spec.parameters of {what} names no {_CONFIG_KIND}"
        return [_HERE.failed("admission checks", said, f"let it name one by kind and name; {_SET_UP}")]
    if config not in configs:
        said = f"{what} names the {_CONFIG_KIND} {config}, which does not exist"
        return [_HERE.failed("admission checks", said, f"create it, or correct spec.parameters.name of {what}")]
    active = _active(one)
    if active is None:
        action = "start the service: it writes the condition Active"
        return [_HERE.warning("admission checks", f"{what} has no condition Active yet", action)]
    if active.get("status") != "True":
        said = f"{what} is not Active: {active.get('message') or active.get('reason') or 'no reason is given'}"
        return [_HERE.failed("admission checks", said, "correct what the message names")]
    return [_HERE.ok("admission checks", f"{what} is Active, and leads to the {_CONFIG_KIND} {config}")]


def _active(obj: Json) -> Json | None:
    conditions = _listed(obj, "status", "conditions")
    return next((one for one in conditions if isinstance(one, dict) and one.get("type") == "Active"), None)


def _clusters(facts: Facts) -> Sequence[Finding]:
    queues = facts.queues
    if isinstance(queues.configs, Unread) or isinstance(queues.clusters, Unread):
        return _unread("clusters", queues.configs, queues.clusters)
    found: list[Finding] = []
    there = _named(queues.clusters)
    if not queues.configs:
        found.append(_HERE.failed("clusters", "there is no MultiKueueConfig", f"create one; {_SET_UP}"))
    for name, one in _named(queues.configs).items():
        found += _config(name, [str(cluster) for cluster in _listed(one, "spec", "clusters")], there)
    listed = {str(cluster) for one in queues.configs for cluster in _listed(one, "spec", "clusters")}
    for name, one in there.items():
        if name not in listed:
            said = f"MultiKueueCluster {name} is in no {_CONFIG_KIND}, and gets no Workloads"
            found.append(_HERE.warning("clusters", said, f"add it to one, or delete it; {_SET_UP}"))
        active = _active(one)
        if active is not None and active.get("status") != "True":
            said = f"MultiKueueCluster {name} is not Active: {active.get('reason')}: {active.get('message')}"
            found.append(_HERE.failed("clusters", said, f"see worker/{name} below, and `controlplane clusters`"))
    return found


def _config(name: str, clusters: Sequence[str], there: Mapping[str, Json]) -> Sequence[Finding]:
    what = f"{_CONFIG_KIND} {name}"
    found = [
        _HERE.failed(
            "clusters",
            f"{what} names the MultiKueueCluster {cluster}, which does not exist",
            f"create it, or take it out of spec.clusters of {what}",
        )
        for cluster in clusters
        if cluster not in there
    ]
    if not clusters:
        found.append(_HERE.failed("clusters", f"{what} names no cluster", "name at least one in spec.clusters"))
    if len(clusters) > MOST:
        said = f"{what} names {len(clusters)} clusters, and Kueue's API has room for {MOST}"
        found.append(_HERE.warning("clusters", said, "share them out over several configs and queues"))
    return found or [_HERE.ok("clusters", f"all {len(clusters)} clusters of the {what} exist")]


def _cluster_queues(facts: Facts) -> Sequence[Finding]:
    queues = facts.queues
    if isinstance(queues.cluster_queues, Unread) or isinstance(queues.checks, Unread):
        return _unread("cluster queues", queues.cluster_queues, queues.checks)
    known, ours = set(_named(queues.checks)), set(our_checks(queues))
    found: list[Finding] = []
    using = []
    for name, one in _named(queues.cluster_queues).items():
        named = checks_of(one)
        for missing in sorted(named - known):
            said = f"ClusterQueue {name} names the AdmissionCheck {missing}, which does not exist"
            found.append(_HERE.failed("cluster queues", said, f"create it, or take it out of ClusterQueue {name}"))
        if named & ours:
            using.append(name)
        if named & ours or queues.builtin:  # where this service decides on quota, all of them are its own
            found += _not_active(name, one)
    if not using:
        action = f"name the check in spec.admissionChecksStrategy of one; {_SET_UP}"
        return [
            *found,
            _HERE.warning("cluster queues", "no ClusterQueue uses our AdmissionCheck: nothing is dispatched", action),
        ]
    return found or [
        _HERE.ok("cluster queues", f"{', '.join(sorted(using))} {'uses' if len(using) == 1 else 'use'} our check")
    ]


def _not_active(name: str, cluster_queue: Json) -> Iterator[Finding]:
    """Say that a ClusterQueue admits nobody, if its condition does."""
    active = _active(cluster_queue)
    if active is None or active.get("status") != "False":
        return
    why = str(active.get("message") or active.get("reason")).rstrip(".")
    said = f"ClusterQueue {name} is not Active: {why}"
    stopped = active.get("reason") == "Stopped"
    action = (
        "set its spec.stopPolicy to None when it is to admit again" if stopped else "correct what the message names"
    )
    yield _HERE.warning("cluster queues", said, action)


def dispatching(queues: QueueFacts) -> Sequence[tuple[str, str]] | Unread:
    """Return namespace and name of the LocalQueues whose jobs are dispatched."""
    for one in (queues.local_queues, queues.cluster_queues, queues.checks):
        if isinstance(one, Unread):
            return one
    assert not isinstance(queues.local_queues, Unread)
    assert not isinstance(queues.cluster_queues, Unread)
    ours = set(our_checks(queues))
    using = {name for name, one in _named(queues.cluster_queues).items() if checks_of(one) & ours}
    return sorted(
        (str(meta(one).get("namespace", "")), str(meta(one).get("name", "")))
        for one in queues.local_queues
        if str(_section(one, "spec").get("clusterQueue", "")) in using
    )


def _local_queues(facts: Facts) -> Sequence[Finding]:
    queues = facts.queues
    sent = dispatching(queues)
    if isinstance(sent, Unread) or isinstance(queues.local_queues, Unread) or isinstance(queues.cluster_queues, Unread):
        return [*_unread("local queues", queues.local_queues, queues.cluster_queues, queues.checks)]
    found = [*_leading_nowhere(queues.local_queues, set(_named(queues.cluster_queues))), *_on_no_worker(facts, sent)]
    if not sent:
        said = "no LocalQueue leads to a ClusterQueue with our check"
        found.append(_HERE.warning("local queues", said, f"create one in the namespaces of your users; {_SET_UP}"))
    return found or [_HERE.ok("local queues", f"LocalQueues that lead to a ClusterQueue with our check: {len(sent)}")]


def _leading_nowhere(local_queues: Iterable[Json], cluster_queues: Container[str]) -> Iterator[Finding]:
    for one in local_queues:
        target = str(_section(one, "spec").get("clusterQueue", ""))
        if target not in cluster_queues:
            place = f"{meta(one).get('namespace')}/{meta(one).get('name')}"
            said = f"LocalQueue {place} names the ClusterQueue {target}, which does not exist"
            yield _HERE.failed("local queues", said, f"create it, or correct spec.clusterQueue of {place}")


def _on_no_worker(facts: Facts, sent: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    workers = [facts.workers[name] for name in sorted(clusters_of(facts.queues)) if name in facts.workers]
    there = [places for worker in workers if (places := _places(worker.local_queues)) is not None]
    if not there or len(there) < len(workers):
        return  # where one cannot be read, it may be there
    for wanted in sent:
        if not any(wanted in places for places in there):
            said = f"LocalQueue {'/'.join(wanted)} is on no worker: its jobs are admitted nowhere"
            yield _HERE.failed("local queues", said, "create one of the same namespace and name on the workers")


def _places(objects: Objects) -> set[tuple[str, str]] | None:
    if isinstance(objects, Unread):
        return None
    return {(str(meta(one).get("namespace", "")), str(meta(one).get("name", ""))) for one in objects}


def on_worker(name: str, facts: Facts) -> list[Finding]:
    """Return which LocalQueues a worker lacks."""
    place, sent = FindingMaker(f"worker/{name}"), dispatching(facts.queues)
    if isinstance(sent, Unread) or name not in clusters_of(facts.queues):
        return []
    objects = facts.workers[name].local_queues
    there = _places(objects)
    if there is None or isinstance(objects, Unread):
        assert isinstance(objects, Unread)
        action = (
            "apply deploy/rbac/worker/quota.yaml, or look with an account of that cluster: kubectl get localqueues -A"
        )
        return [place.unknown("local queues", objects, action)]
    missing = ["/".join(one) for one in sent if one not in there]
    if missing:
        said = (
            f"it has no LocalQueue {', '.join(missing)}: it admits no jobs of {'it' if len(missing) == 1 else 'them'}"
        )
        return [place.warning("local queues", said, "create it there, in the same namespace and of the same name")]
    return [place.ok("local queues", f"the LocalQueues of the management cluster are there: {len(sent)}")]


def _kueue(facts: Facts) -> Sequence[Finding]:
    """Whether Kueue's own MultiKueue controller is off: by what it is told, else by who writes what it would write."""
    queues = facts.queues
    if queues.builtin:
        return _beside_kueue(queues)
    writer = _other_writer(queues.clusters, "MultiKueueCluster")
    if writer:
        said = f"{writer}: Kueue's own MultiKueue controller seems to run"
        return [_HERE.warning("kueue", said, _GATE_OFF)]
    gate = _gate(queues)
    if gate is False:
        return [_HERE.ok("kueue", "Kueue's gate MultiKueue is off")]
    if gate is True:
        # Under another name only the status of MultiKueueClusters has two writers.
        judge = _HERE.failed if queues.controller_name == MULTIKUEUE else _HERE.warning
        return [judge("kueue", "Kueue's gate MultiKueue is on", _GATE_OFF)]
    if gate is None:
        return [_HERE.warning("kueue", "Kueue's configuration does not switch its gate MultiKueue off", _GATE_OFF)]
    if _writers(queues.clusters):
        return [_HERE.ok("kueue", "nobody else writes the status of MultiKueueClusters")]
    return [_HERE.unknown("kueue", gate, "see that Kueue's gate MultiKueue is off: docs/howto/real-clusters.md")]


def _beside_kueue(queues: QueueFacts) -> Sequence[Finding]:
    """Whether Kueue's manager decides on quota as well, by who writes the status of ClusterQueues."""
    if isinstance(queues.cluster_queues, Unread):
        return _unread("kueue", queues.cluster_queues)
    writer = _other_writer(queues.cluster_queues, "ClusterQueue")
    if writer:
        said = f"{writer}: Kueue's manager seems to run, and both decide on quota"
        action = "stop Kueue's manager on this cluster (docs/howto/without-kueue.md), or set quota.mode to kueue"
        return [_HERE.failed("kueue", said, action)]
    return [_HERE.ok("kueue", "nobody else writes the status of ClusterQueues")]


def _gate(queues: QueueFacts) -> bool | Unread | None:
    """Return what Kueue is told of the gate, its arguments first, as they count for it; None if nothing is said."""
    if not isinstance(queues.arguments, Unread):
        flags = [word.partition("=")[2] for word in queues.arguments if word.startswith("--feature-gates=")]
        for pair in ",".join(flags).split(","):
            name, _, value = pair.partition("=")
            if name.strip() == _GATE:
                return value.strip().lower() == "true"
    found = _configured(queues)
    chosen = found if isinstance(found, Unread) else _section(found, "featureGates").get(_GATE)
    return chosen if isinstance(chosen, bool | Unread) else None


def _configured(queues: QueueFacts) -> Json | Unread:
    """Return Kueue's configuration; empty if it is no mapping."""
    if isinstance(queues.configuration, Unread):
        return queues.configuration
    found = next(documents("kueue-manager-config", queues.configuration), None)
    if found is not None and found.wrong:
        return Unread(said="the ConfigMap kueue-manager-config is not YAML")
    return found.content if found is not None and isinstance(found.content, dict) else {}


def _origin(facts: Facts) -> Sequence[Finding]:
    """Whether copies that Kueue's own controller made would be known as ours. Nothing where that is not to be seen."""
    found, ours = _configured(facts.queues), facts.queues.origin
    if isinstance(found, Unread):
        return []
    theirs = _section(found, "multiKueue").get("origin") or "multikueue"
    if theirs == ours:
        return [_HERE.ok("origin", f"multikueue.origin is that of Kueue's configuration: {ours}")]
    said = f"multikueue.origin is {ours}, and Kueue's configuration has {theirs}: copies that Kueue made are left alone"
    action = f"set multikueue.origin to {theirs} if Kueue has dispatched anything: nothing of it would go on"
    return [_HERE.warning("origin", said, action)]


def _writers(objects: Objects) -> list[tuple[str, str, datetime]]:
    """Return who wrote the status of which object when."""
    found = []
    for one in [] if isinstance(objects, Unread) else objects:
        for entry in _listed(one, "metadata", "managedFields"):
            if isinstance(entry, dict) and entry.get("subresource") == "status":
                at = datetime.fromisoformat(str(entry.get("time")))
                found.append((str(meta(one).get("name", "")), str(entry.get("manager", "")), at))
    return found


def _other_writer(objects: Objects, kind: str) -> str:
    """Return that somebody else wrote the status of an object of ours after us, "" if nobody did."""
    writers = _writers(objects)
    ours = {name: at for name, manager, at in writers if manager == _OURS}
    later = [one for one in writers if one[1] != _OURS and one[0] in ours and one[2] > ours[one[0]]]
    if not later:
        return ""
    name, manager, at = max(later, key=lambda one: one[2])
    return f'"{manager}" wrote the status of {kind} {name} at {at:%Y-%m-%d %H:%M:%S} UTC, after us'


CHECKS = (
    ("admission checks", _admission_checks),
    ("clusters", _clusters),
    ("cluster queues", _cluster_queues),
    ("local queues", _local_queues),
    ("kueue", _kueue),
    ("origin", _origin),
)
_ALONE = (("kueue", _kueue),)
