"""Examines an installation: gathers facts everywhere at once, and judges them.

In: settings, and a way to open the management cluster. Out: findings, by place. Nothing is written anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from controlplane.app.claims import scheduler_leases
from controlplane.clock import Clock, SystemClock
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.controllers.hosts import hosted
from controlplane.doctor import (
    cluster_checks,
    clusters,
    copy_checks,
    database,
    database_checks,
    queue_checks,
    scheduler_checks,
)
from controlplane.doctor.asking import unread
from controlplane.doctor.facts import ClusterFacts, Facts, QueueFacts
from controlplane.doctor.findings import MANAGEMENT, Finding, Unread
from controlplane.doctor.rights import (
    leases_of_scheduler,
    needed_as_source,
    needed_by_scheduler,
    needed_on_management,
    needed_on_workers,
    needed_to_send,
)
from controlplane.kube.kinds import LEASES, LOCAL_QUEUES, NODES, POD_DISRUPTION_BUDGETS, PODS, Json, Kind, meta
from controlplane.settings.model import Settings

_replace = msgspec.structs.replace
OpenManagement = Callable[[], Awaitable[ApiServer]]


async def examine(settings: Settings, open_management: OpenManagement, seconds: float) -> list[Finding]:
    """Return what was found; `seconds` is the time that one question has."""
    clock = SystemClock()
    known, fleet = await asyncio.gather(
        database.gather(settings, clock, seconds), _fleet(settings, open_management, clock, seconds)
    )
    management, queues, workers = fleet
    return judge(
        Facts(now=clock.now(), database=known, management=management, queues=queues, workers=workers),
        follows=follows(settings),
        dispatches="multikueue" in settings.run.controllers,
    )


async def examine_scheduler(
    settings: Settings, profiles: Sequence[str], open_management: OpenManagement, seconds: float
) -> list[Finding]:
    """Return what was found of a scheduler with these profiles: its log, its cluster, its rights there."""
    clock = SystemClock()
    own = _replace(settings, database=_replace(settings.database, log=settings.scheduler.log))
    known, cluster = await asyncio.gather(
        database.gather(own, clock, seconds), _own_cluster(settings, profiles, open_management, clock, seconds)
    )
    queues = QueueFacts(controller_name=settings.multikueue.controller_name, origin=settings.multikueue.origin)
    rights = [one for one in cluster.rights if one[0].right.resource != LEASES.plural]
    facts = Facts(
        now=clock.now(), database=known, management=_replace(cluster, rights=rights), queues=queues, workers={}
    )
    found = judge(facts, follows=False, dispatches=False)
    if cluster.refused is None and not _silent(cluster):
        found += scheduler_checks.check(cluster, scheduler_leases(settings, profiles))
    return found


async def _own_cluster(
    settings: Settings, profiles: Sequence[str], open_management: OpenManagement, clock: Clock, seconds: float
) -> ClusterFacts:
    try:
        server = await asyncio.wait_for(open_management(), seconds)
    except Exception as error:
        return ClusterFacts(refused=unread(error, seconds))
    try:
        needed = [*needed_by_scheduler(settings), *leases_of_scheduler(settings, profiles)]
        return await clusters.Asking(server, clock, seconds).cluster((PODS, NODES, POD_DISRUPTION_BUDGETS), needed)
    finally:
        await server.close()


def judge(facts: Facts, *, follows: bool = True, dispatches: bool = True) -> list[Finding]:
    """Return the findings of facts, in the order in which they are read. Pure."""
    found = [*database_checks.check(facts.database), *cluster_checks.check(MANAGEMENT, facts.management, facts)]
    reached = facts.management.refused is None and not _silent(facts.management)
    if reached and dispatches:
        found += queue_checks.check(facts)
    for name in sorted(facts.workers) if follows else ():
        worker = facts.workers[name]
        found += cluster_checks.check(name, worker, facts)
        if dispatches and worker.refused is None and not _silent(worker):
            found += [*queue_checks.on_worker(name, facts), *copy_checks.on_worker(name, facts)]
    return found


def _silent(cluster: ClusterFacts) -> bool:
    return isinstance(cluster.version, Unread)


def follows(settings: Settings) -> bool:
    """Whether any controller connects to other clusters."""
    return any(one.follows for one in hosted(settings))


def kinds(settings: Settings) -> tuple[Sequence[Kind], Sequence[Kind]]:
    """Return the kinds that have to be served on the management cluster and on workers: those that are watched there,
    and LocalQueues where Workloads are dispatched.
    """
    found = hosted(settings)
    queues = [LOCAL_QUEUES] if "multikueue" in settings.run.controllers else []
    home = [spec.kind for one in found for spec in one.home]
    workers = [spec.kind for one in found for spec in one.workers]
    return list(dict.fromkeys([*home, *queues])), list(dict.fromkeys([*workers, *queues]))


def _kinds_of(kinds: Sequence[Kind], is_target: bool) -> Sequence[Kind]:
    """Return the kinds of a worker: Candidates too where pods may be sent to it, since they are watched by
    namespace."""
    return [*kinds, CANDIDATES] if is_target and CANDIDATES not in kinds else kinds


async def _fleet(
    settings: Settings, open_management: OpenManagement, clock: Clock, seconds: float
) -> tuple[ClusterFacts, QueueFacts, Mapping[str, ClusterFacts]]:
    empty = QueueFacts(controller_name=settings.multikueue.controller_name, origin=settings.multikueue.origin)
    try:
        server = await asyncio.wait_for(open_management(), seconds)
    except Exception as error:
        return ClusterFacts(refused=unread(error, seconds)), empty, {}
    home_kinds, worker_kinds = kinds(settings)
    home = clusters.Asking(server, clock, seconds)
    try:
        sends, to = await clusters.sending(home, settings) if "candidates" in settings.run.controllers else ((), {})
        rights = [*needed_on_management(settings), *needed_to_send(settings, sends)]
        management = await home.cluster(home_kinds, rights)
        if _silent(management) or not follows(settings):
            return management, empty, {}
        queues = await clusters.queues(home, settings)
        listed: Sequence[Json] = [] if isinstance(queues.clusters, Unread) else queues.clusters
        names = [str(meta(one).get("name", "")) for one in listed]
        needed = [[*needed_on_workers(settings), *needed_as_source(settings, to.get(name, ()))] for name in names]
        workers = await asyncio.gather(
            *(
                clusters.worker(one, home, settings, clock, seconds, (_kinds_of(worker_kinds, name in to), rights))
                for name, one, rights in zip(names, listed, needed, strict=True)
            )
        )
        return management, queues, dict(zip(names, workers, strict=True))
    finally:
        await server.close()
