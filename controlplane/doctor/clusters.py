"""Gathers what the API servers say: the management cluster, what dispatch is wired with there, and each worker.

In: settings, and a way to open the management cluster. Out: facts. Everything is asked at the same time, each with a
time of its own, so that a cluster that hangs delays the whole by no more than that. Only reads and access reviews are
sent, which store nothing."""

from __future__ import annotations

import asyncio
import email.utils
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from controlplane.clock import Clock
from controlplane.clusters import sources
from controlplane.clusters.cluster_profile import access_of, client_config
from controlplane.clusters.kubeconfig import ClientConfig, KubeconfigError, parse_kubeconfig
from controlplane.clusters.streams import ApiServer, ListQuery
from controlplane.clusters.transport import Timeouts, Transport
from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS
from controlplane.doctor.asking import asked, unread
from controlplane.doctor.facts import ClusterFacts, Objects, QueueFacts
from controlplane.doctor.findings import Unread
from controlplane.doctor.rights import NeededRight
from controlplane.kube.access import SELF_SUBJECT_ACCESS_REVIEWS, is_allowed, review
from controlplane.kube.expiry import token_expiry
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_PROFILES,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    SECRETS,
    Json,
    Kind,
    meta,
)
from controlplane.kube.selectors import parse_selector
from controlplane.kube.well_known import SYSTEM_NAMESPACE
from controlplane.settings.model import Settings

_T = TypeVar("_T")
_PAGE = 500
_AT_ONCE = 16
_CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
_DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments")
_KUEUE = "kueue-controller-manager"
_KUEUE_CONFIG, _KUEUE_KEY = "kueue-manager-config", "controller_manager_config.yaml"


class Asking:
    """Asks one API server: so many questions at once, each within `seconds`."""

    def __init__(self, server: ApiServer, clock: Clock, seconds: float) -> None:
        self.server, self._clock, self._seconds = server, clock, seconds
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def of(self, question: Callable[[], Awaitable[_T]]) -> _T | Unread:
        """Return the answer, or why there is none; its time begins when its turn comes."""
        async with self._slots:
            return await asked(question(), self._seconds)

    async def list(self, kind: Kind) -> Objects:
        """Return all objects of a kind that are objects."""

        async def pages() -> Sequence[Json]:
            found, token = [], ""
            while True:
                query = ListQuery(kind, limit=_PAGE, continue_token=token)
                page = await self.server.list(query)
                found += [one for one in page.items if isinstance(one, dict)]
                token = page.continue_token
                if not token:
                    return found

        return await self.of(pages)

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | Unread:
        """Return one object."""
        return await self.of(lambda: self.server.get(kind, namespace, name))

    async def cluster(self, kinds: Iterable[Kind], needed: Iterable[NeededRight]) -> ClusterFacts:
        """Return what the cluster says of itself. One that does not answer the first question is asked no more."""
        version = await self.of(lambda: self.server.version(self._seconds + 1))
        clock = _clock(getattr(self.server, "date", ""), self._clock.now())
        ends = getattr(self.server, "certificate_ends", None)
        if isinstance(version, Unread) and not version.status:
            return ClusterFacts(version=version, certificate_ends=ends)
        identity, served, rights = await asyncio.gather(
            self.get(NAMESPACES, "", SYSTEM_NAMESPACE), self._served(kinds), self._rights(needed)
        )
        return ClusterFacts(
            certificate_ends=ends,
            version=version if isinstance(version, Unread) else str(version.get("gitVersion", "")),
            clock=clock,
            identity=identity if isinstance(identity, Unread) else str(meta(identity).get("uid", "")),
            served=served,
            rights=rights,
        )

    async def _served(self, kinds: Iterable[Kind]) -> Mapping[Kind, bool | Unread]:
        wanted = list(dict.fromkeys(kinds))
        versions = sorted({kind.api_version for kind in wanted})
        lists = await asyncio.gather(*(self.of(partial(self.server.resources, one)) for one in versions))
        by_version = dict(zip(versions, lists, strict=True))
        return {kind: _is_in(kind, by_version[kind.api_version]) for kind in wanted}

    async def _rights(self, needed: Iterable[NeededRight]) -> Sequence[tuple[NeededRight, bool | Unread]]:
        wanted = list(needed)

        async def may(one: NeededRight) -> bool:
            return is_allowed(await self.server.create(SELF_SUBJECT_ACCESS_REVIEWS, "", review(one.right)))

        answers = await asyncio.gather(*(self.of(partial(may, one)) for one in wanted))
        return list(zip(wanted, answers, strict=True))


def _is_in(kind: Kind, listed: Json | Unread) -> bool | Unread:
    if isinstance(listed, Unread):
        return False if listed.status == 404 else listed
    resources = listed.get("resources")
    if not isinstance(resources, list):
        return Unread(said=f"the resources of {kind.api_version} are no list")
    return any(isinstance(one, dict) and one.get("name") == kind.plural for one in resources)


def _clock(date: str, now: datetime) -> tuple[datetime, datetime] | None:
    """Return the server's time and ours; None if it does not say."""
    try:
        return email.utils.parsedate_to_datetime(date).astimezone(UTC), now
    except (TypeError, ValueError):
        return None


async def queues(asking: Asking, settings: Settings) -> QueueFacts:
    """Return what dispatch is wired with."""
    kinds = (ADMISSION_CHECKS, MULTIKUEUE_CONFIGS, MULTIKUEUE_CLUSTERS, CLUSTER_QUEUES, LOCAL_QUEUES)
    namespace = settings.multikueue.namespace
    (configuration, deployment), lists = await asyncio.gather(
        asyncio.gather(asking.get(_CONFIG_MAPS, namespace, _KUEUE_CONFIG), asking.get(_DEPLOYMENTS, namespace, _KUEUE)),
        asyncio.gather(*(asking.list(kind) for kind in kinds)),
    )
    checks, configs, clusters, cluster_queues, local_queues = lists
    return QueueFacts(
        controller_name=settings.multikueue.controller_name,
        origin=settings.multikueue.origin,
        builtin=settings.quota.builtin,
        profiles=settings.multikueue.cluster_profile.on,
        checks=checks,
        configs=configs,
        clusters=clusters,
        cluster_queues=cluster_queues,
        local_queues=local_queues,
        configuration=_configuration(configuration),
        arguments=_arguments(deployment),
    )


def _configuration(config_map: Json | Unread) -> str | Unread:
    if isinstance(config_map, Unread):
        return config_map
    data = config_map.get("data")
    text = data.get(_KUEUE_KEY) if isinstance(data, dict) else None
    return text if isinstance(text, str) else Unread(said=f"the ConfigMap {_KUEUE_CONFIG} has no {_KUEUE_KEY}")


def _arguments(deployment: Json | Unread) -> Sequence[str] | Unread:
    if isinstance(deployment, Unread):
        return deployment
    try:
        containers = deployment["spec"]["template"]["spec"]["containers"]
        return [str(word) for one in containers for word in one.get("args") or ()]
    except (LookupError, TypeError, AttributeError):
        return Unread(said=f"the Deployment {_KUEUE} has no containers")


async def _selected_namespaces(asking: Asking, text: str) -> list[str]:
    selector = parse_selector(text)
    listed = await asking.list(NAMESPACES)
    found = [] if isinstance(listed, Unread) else [meta(one) for one in listed]
    return [str(one.get("name", "")) for one in found if selector.matches(one.get("labels") or {})]


async def sending(asking: Asking, settings: Settings) -> tuple[Sequence[str], Mapping[str, Sequence[str]]]:
    """Return the namespaces that may send pods, "" for all of them, and those that may send to each target.

    What cannot be read is left out: the rights to read it are asked for beside this."""
    chosen = settings.candidates
    named = ["" if "*" in chosen.namespaces else one for one in chosen.namespaces]
    if chosen.namespace_selector:
        named += await _selected_namespaces(asking, chosen.namespace_selector)
    targets = await asking.list(CANDIDATE_TARGETS)
    by_target: dict[str, list[str]] = {one.partition(":")[0]: list(named) for one in chosen.targets}
    for one in [] if isinstance(targets, Unread) else targets:
        namespace, spec = str(meta(one).get("namespace", "")), one.get("spec")
        if isinstance(spec, dict) and (namespace in named or "" in named):
            by_target.setdefault(str(spec.get("cluster", "")), []).append(namespace)
    return named, by_target


async def worker(
    seen: Json, home: Asking, settings: Settings, clock: Clock, seconds: float, wanted: tuple[Any, Any]
) -> ClusterFacts:
    """Return what a worker says, reached as its MultiKueueCluster says; `wanted` are kinds and rights."""
    try:
        config = await asyncio.wait_for(_config(seen, home, settings), seconds)
    except Exception as error:
        return ClusterFacts(refused=unread(error, seconds))
    server: Transport | None = None
    try:
        server = Transport(
            str(meta(seen).get("name", "")),
            config,
            identity="doctor",
            timeouts=Timeouts(seconds + 1, seconds + 1, seconds + 1),
        )
        asking = Asking(server, clock, seconds)
        facts, local_queues = await asyncio.gather(asking.cluster(*wanted), asking.list(LOCAL_QUEUES))
    except Exception as error:
        return ClusterFacts(refused=unread(error, seconds))
    finally:
        if server is not None:
            await server.close()
    return msgspec.structs.replace(
        facts,
        server=config.server,
        token_ends=token_expiry(config.token),
        local_queues=local_queues,
    )


async def _config(seen: Json, home: Asking, settings: Settings) -> ClientConfig:
    """Return how a worker is reached; `KubeconfigError` in Kueue's words, or an `ApiError`."""
    spec = seen.get("spec")
    source = spec.get("clusterSource") if isinstance(spec, dict) else None
    source = source if isinstance(source, dict) else {}
    chosen, namespace = settings.multikueue, settings.multikueue.namespace
    if isinstance(profile := source.get("clusterProfileRef"), dict):
        name = str(profile.get("name", ""))
        if not chosen.cluster_profile.on:
            raise KubeconfigError("BadClusterProfile", "MultiKueueClusterProfile feature gate is disabled")
        found = await home.server.get(CLUSTER_PROFILES, namespace, name)
        return client_config(name, access_of(found), chosen.cluster_profile.access_providers)
    kubeconfig = source.get("kubeConfig")
    if not isinstance(kubeconfig, dict) or not kubeconfig.get("location"):
        raise KubeconfigError("BadKubeConfig", "spec.clusterSource names no kubeconfig")
    location = str(kubeconfig["location"])

    async def read(name: str) -> bytes:
        return sources.kubeconfig_of_secret(name, await home.server.get(SECRETS, namespace, name))

    by_path = kubeconfig.get("locationType") == "Path"
    where = sources.PathSource(location) if by_path else sources.SecretSource(location)
    return parse_kubeconfig(await sources.load(where, chosen.kubeconfig_prefix, read))
