"""Judges one cluster, the management cluster or a worker: whether it answers, is the one that is meant, and lets the
service do its work.

In: `ClusterFacts`, and what is known of the others. Out: findings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.controllers.connectivity.events import MANAGEMENT as MANAGEMENT_NAME
from controlplane.controllers.connectivity.identity import claim, held_by, objection, standby, unbound
from controlplane.controllers.connectivity.state import Connection
from controlplane.doctor.clocks import skew
from controlplane.doctor.facts import ClusterFacts, Facts
from controlplane.doctor.findings import MANAGEMENT, Finding, FindingMaker, Unread, judged
from controlplane.kube.access import AccessRight
from controlplane.kube.kinds import Kind
from controlplane.kube.kueue_names import KUEUE_GROUP

SOON = timedelta(days=3)
"""How long before its end a token or a certificate is worth a warning: as the alert ControlplaneKubeconfigExpires has
it."""

_Check = Callable[[FindingMaker, ClusterFacts, Facts], Sequence[Finding]]


def check(name: str, cluster: ClusterFacts, facts: Facts) -> list[Finding]:
    """Return what there is to say of a cluster: of `management`, or of the worker of that name."""
    place = FindingMaker(name if name == MANAGEMENT else f"worker/{name}")
    worker = name != MANAGEMENT
    if cluster.refused is not None:
        return [_refused(place, cluster.refused, worker=worker)]
    early = [*_ends(place, "token", cluster.token_ends, facts)] if worker else []
    early += _ends(place, "certificate", cluster.certificate_ends, facts)
    if isinstance(cluster.version, Unread):
        action = "check the address in its kubeconfig, the network between, and that the API server runs"
        if "is not trusted" in cluster.version.said:
            action = "write the kubeconfig anew, with this API server's authority"
        if cluster.version.status in (401, 403):
            action = "write the kubeconfig anew: its credentials are refused"
        return [*early, place.failed("reachable", f"it does not answer: {cluster.version.said}", action)]

    def bound(one: _Check) -> Callable[[Facts], Sequence[Finding]]:
        return lambda facts: one(place, cluster, facts)

    identity = _worker_identity if worker else _management_identity
    checks = (*_CHECKS, ("identity", identity))
    return [*early, *judged(place.name, [(word, bound(one)) for word, one in checks], facts)]


def _refused(place: FindingMaker, why: Unread, *, worker: bool) -> Finding:
    if worker:
        action = "correct the MultiKueueCluster, or the Secret or file that it names: docs/howto/real-clusters.md"
        if why.status:
            return place.unknown(
                "kubeconfig", why, "run this as an account that may read it: deploy/rbac/management/role.yaml"
            )
        return place.failed("kubeconfig", f"its kubeconfig cannot be used: {why.said}", action)
    action = "set management.kubeconfig or --kubeconfig, or run this in the service's pod"
    return place.failed("kubeconfig", f"there is no way to it: {why.said}", action)


def _reachable(place: FindingMaker, cluster: ClusterFacts, _: Facts) -> Sequence[Finding]:
    where = f" at {cluster.server}" if cluster.server else ""
    return [place.ok("reachable", f"it answers{where}: Kubernetes {cluster.version}")]


def _clock(place: FindingMaker, cluster: ClusterFacts, _: Facts) -> Sequence[Finding]:
    return [skew(place, cluster.clock)]


def _ends(place: FindingMaker, what: str, ends: datetime | None, facts: Facts) -> Sequence[Finding]:
    """Say when the token or the client certificate of a kubeconfig ends, if it has one that says."""
    if ends is None:
        return []
    anew = "write the kubeconfig anew: deploy/rbac/worker/kubeconfig.sh"
    if place.name == MANAGEMENT:
        anew = "have the cluster issue another kubeconfig"
    its = "client certificate" if what == "certificate" else what
    if ends <= facts.now:
        return [place.failed(what, f"its {its} ended at {_utc(ends)}", anew)]
    if ends - facts.now < SOON:
        return [place.warning(what, f"its {its} ends at {_utc(ends)}", anew)]
    return [place.ok(what, f"its {its} ends at {_utc(ends)}")]


def _utc(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _kinds(place: FindingMaker, cluster: ClusterFacts, _: Facts) -> Sequence[Finding]:
    """Kueue's own kinds are needed for anything; a kind of job that is not there is not dispatched, and the rest is."""
    missing = [kind for kind, there in cluster.served.items() if there is False]
    versions = sorted({kind.api_version for kind in missing})
    found = [
        _not_served(place, version, [kind for kind in missing if kind.api_version == version]) for version in versions
    ]
    strange = [(kind, there) for kind, there in cluster.served.items() if isinstance(there, Unread)]
    if strange:
        kind, why = strange[0]
        what = Unread(said=f"{kind.api_version}: {why.said}")
        found.append(place.unknown("kinds", what, "run `kubectl api-resources`"))
    all_ = f"all {len(cluster.served)} kinds are served" if cluster.served else "no kind is needed there"
    return found or [place.ok("kinds", all_)]


def _not_served(place: FindingMaker, version: str, missing: Sequence[Kind]) -> Finding:
    names = ", ".join(sorted(kind.kind for kind in missing))
    said = f"{names} of {version} {'is' if len(missing) == 1 else 'are'} not served"
    if version.startswith(f"{KUEUE_GROUP}/"):
        return place.failed("kinds", said, f"install a Kueue that serves {version}")
    if CANDIDATES in missing:
        return place.failed("kinds", said, "kubectl apply -k deploy/crds")
    action = "install its CRDs; or take the kind out of multikueue.kinds, or the controller out of run.controllers"
    return place.warning("kinds", said, action)


def _rights(place: FindingMaker, cluster: ClusterFacts, _: Facts) -> Sequence[Finding]:
    """Rights that are missing are told by the manifest that grants them."""
    found: list[Finding] = []
    lacking: dict[tuple[str, str, bool], list[str]] = {}
    for one, there in cluster.rights:
        if there is False:
            lacking.setdefault((one.manifest, one.bind, one.needed), []).append(_said(one.right))
    for (manifest, bind, needed), rights in lacking.items():
        action = f"apply {manifest}" if manifest else "grant them to the account"
        action += f" and bind {bind} to the account" if bind else ""
        said = f"it may not {', '.join(rights)}"
        found.append((place.failed if needed else place.warning)("rights", said, action))
    strange = [there for _, there in cluster.rights if isinstance(there, Unread)]
    if strange:
        what = Unread(said=f"{len(strange)} of {len(cluster.rights)} rights: {strange[0].said}")
        found.append(place.unknown("rights", what, "ask with `kubectl auth can-i`"))
    return found or [place.ok("rights", f"all {len(cluster.rights)} rights are there")]


def _said(right: AccessRight) -> str:
    return f'{right} by the name "{right.name}"' if right.name else str(right)


def _management_identity(place: FindingMaker, cluster: ClusterFacts, facts: Facts) -> Sequence[Finding]:
    identity, connections = cluster.identity, facts.database.connections
    if isinstance(identity, Unread):
        return [place.unknown("identity", identity, "let it read the namespace kube-system")]
    if isinstance(connections, Unread):
        return [
            place.unknown(
                "identity", Unread(said=f"the log says nothing of it: {connections.said}"), "see the database above"
            )
        ]
    known = connections.get(MANAGEMENT_NAME)
    if (refused := unbound(identity, known)) is not None:
        action = "correct the kubeconfig, or database.log; or say `controlplane log rebind`"
        return [place.failed("identity", refused[1], action)]
    if known is None or not known.incarnation:
        return [place.warning("identity", f"no log is bound to it yet ({identity})", "start the service")]
    return [place.ok("identity", f"the log belongs to this cluster ({identity})")]


def _worker_identity(place: FindingMaker, cluster: ClusterFacts, facts: Facts) -> Sequence[Finding]:
    identity, name = cluster.identity, place.name.partition("/")[2]
    if isinstance(identity, Unread):
        return [place.unknown("identity", identity, "apply deploy/rbac/worker/clusterrole.yaml")]
    known, claims = _known(name, facts)
    if other := held_by(name, identity, claims, known, lambda: _stake(known)):
        return [place.warning("identity", standby(name, other, identity), f"delete the MultiKueueCluster {name}")]
    if (refused := objection(name, identity, claims, known, lambda: _stake(known))) is not None:
        action = "correct the kubeconfig; docs/howto/production/outage.md says what else"
        return [place.failed("identity", refused[1], action)]
    return [place.ok("identity", f"it is no other name's cluster ({identity})")]


def _known(name: str, facts: Facts) -> tuple[Connection | None, Mapping[str, str]]:
    """Return what the log knows of a worker, and who else has which identity: by the log, as the service judges it.
    Where that cannot be read, by what answers now; of two names for one cluster the first one has it.
    """
    connections = facts.database.connections
    answering = [(MANAGEMENT_NAME, facts.management), *sorted(facts.workers.items())]
    now = {other: one.identity for other, one in answering if isinstance(one.identity, str)}
    if isinstance(connections, Unread) or not connections:
        return None, {other: uid for other, uid in now.items() if other < name}
    return connections.get(name), {other: claim(one) for other, one in connections.items()}


def _stake(known: Connection | None) -> str:
    return "" if known is None or known.phase == "Removed" else "what was dispatched there"


_CHECKS: tuple[tuple[str, _Check], ...] = (
    ("reachable", _reachable),
    ("clock", _clock),
    ("kinds", _kinds),
    ("rights", _rights),
)
