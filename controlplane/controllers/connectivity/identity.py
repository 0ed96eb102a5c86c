"""Judges whether the cluster that answers under a name is the one that the log knows by it.

In: its identity (the UID of its namespace kube-system), the connections as the log says them, what may still run on the
one before. Out: why it is not to be used, as reason and message of the MultiKueueCluster's condition; None if it may
be. Pure. Another identity proves nothing of what runs on the cluster before: a kubeconfig may lead elsewhere by
mistake, and then its copies are unknown and not gone. So it counts as lost, with all that follows from that, until
nothing rests on it any more: it is back, every grace is over, or an operator gives it up. And one cluster under two
names would be taken for two: a further name of it stands by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection

Reason = Literal["ClusterIdentityChanged", "ClusterIdentityInUse"]

CHANGED: Reason = "ClusterIdentityChanged"
IN_USE: Reason = "ClusterIdentityInUse"
REASONS: frozenset[str] = frozenset({CHANGED, IN_USE})


def objection(
    name: str, identity: str, claims: Mapping[str, str], known: Connection | None, at_stake: Callable[[], str]
) -> tuple[Reason, str] | None:
    """Return why a cluster that answers is not to be used under a name.

    `claims` is who else has which identity. `at_stake` is asked only where the identity is another one than before; it
    is a text of what may still run on the cluster before, "" if nothing does that has to be waited for."""
    other = next((other for other in sorted(claims) if other != name and identity and claims[other] == identity), "")
    if other:
        return IN_USE, _in_use(name, other, identity)
    before = known.incarnation if known is not None else ""
    if known is None or known.forgotten or before in ("", identity):
        return None
    stake = at_stake()
    return (CHANGED, _changed(name, before, identity, stake)) if stake else None


def held_by(
    name: str, identity: str, claims: Mapping[str, str], known: Connection | None, at_stake: Callable[[], str]
) -> str:
    """Return the name under which the cluster that answers is used already, if this one is only a further name of it.

    "" if there is none, or if this name is one of another cluster by the log: then it leads elsewhere than it did,
    which is for `objection` to judge. The management cluster is never a worker under a further name."""
    other = next((other for other in sorted(claims) if other != name and identity and claims[other] == identity), "")
    if not other or other == MANAGEMENT:
        return ""
    fresh = known is None or known.incarnation in ("", identity) or known.behind
    gone = known is not None and known.removed
    return other if fresh or (gone and not at_stake()) else ""


def standby(name: str, other: str, identity: str) -> str:
    """Return what is said of a name that stands by."""
    return (
        f'"{name}" and "{other}" lead to one cluster (the UID of its namespace kube-system is {identity}), which is used'
        f' as "{other}": "{name}" is offered nothing until the MultiKueueCluster "{other}" is deleted, or no'
        " MultiKueueConfig lists it, and nothing waits for word from it"
    )


def unbound(identity: str, known: Connection | None) -> tuple[Reason, str] | None:
    """Return why the cluster that a process stands beside is not the one that its log belongs to; None if it is.

    A log belongs to the cluster that was seen first, until an operator says otherwise: what another one shows would
    count as the end of all that the log knows."""
    before = known.incarnation if known is not None else ""
    if known is None or known.rebound or before in ("", identity):
        return None
    found = (
        f"whose namespace kube-system has the UID {identity}"
        if identity
        else "that does not show its namespace kube-system"
    )
    return CHANGED, (
        f"the log belongs to another cluster (UID of its namespace kube-system: {before}) than the one that answers, "
        f"{found}: correct the kubeconfig, or give this one a database or a log of its own (database.log); if the log"
        ' is to follow this cluster from now on, say "controlplane log rebind"'
    )


def claim(connection: Connection) -> str:
    """Return the identity that a connection has by the log: also while it is away, but not once it is removed, given
    up after it was seen to lead elsewhere itself, or known as a further name of a cluster."""
    moved = connection.forgotten and connection.reason in REASONS
    return "" if moved or connection.behind or connection.phase == "Removed" else connection.incarnation


def _in_use(name: str, other: str, identity: str) -> str:
    owner = "the management cluster itself" if other == MANAGEMENT else f'the cluster of "{other}"'
    way_out = (
        ""
        if other == MANAGEMENT
        else f', delete one of the two MultiKueueClusters, or, if "{other}" leads to another one by now, say'
        f' "controlplane clusters forget {other}"'
    )
    return (
        f'the kubeconfig of "{name}" leads to {owner} (its namespace kube-system has the UID {identity}), and a cluster'
        f" is used under one name alone: correct the kubeconfig{way_out}"
    )


def _changed(name: str, before: str, identity: str, stake: str) -> str:
    found = f"to another cluster than before (its namespace kube-system has the UID {identity}, not {before})"
    if not identity:
        found = f"to a cluster that does not show the UID of its namespace kube-system, which was {before}"
    return (
        f'the kubeconfig of "{name}" leads {found}, and {stake} may still run on the one before: correct the'
        f' kubeconfig, or, if that cluster is gone for good, say "controlplane clusters forget {name}"'
    )
