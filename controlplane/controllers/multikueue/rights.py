"""The rights that dispatching needs, beside those of each kind of job.

In: settings. Out: the manifests of `deploy` that grant them."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.controllers.multikueue.nominate import SCORED
from controlplane.runtime.hosting import GrantedRights, named
from controlplane.settings.model import Settings


def _dispatches_and(more: Callable[[Settings], object]) -> Callable[[Settings], bool]:
    return lambda settings: "multikueue" in settings.run.controllers and bool(more(settings))


def _reaches_clusters(settings: Settings) -> bool:
    """Also where nothing is dispatched: MultiKueueClusters are how other controllers get to other clusters."""
    return bool({"multikueue", "candidates"} & set(settings.run.controllers))


def _own_namespace(settings: Settings) -> str:
    return settings.multikueue.namespace


def _reads_worker_quota(settings: Settings) -> bool:
    chosen = settings.multikueue
    scores = chosen.dispatcher_name == SCORED and chosen.scoring.flavors_weight
    return chosen.quota_automation == "yes" or settings.quota.counts_workers or bool(scores)


def _follows_queues(settings: Settings) -> bool:
    return bool(settings.webhook.certificate) or settings.multikueue.recorded_workloads == "own"


_OF_CONNECTIONS = frozenset({"multikueueclusters", "multikueueclusters/status", "namespaces", "events"})
RIGHTS = (
    GrantedRights(manifest="rbac/management/clusterrole.yaml", when=named("multikueue")),
    GrantedRights(manifest="rbac/management/clusterrole.yaml", when=_reaches_clusters, resources=_OF_CONNECTIONS),
    GrantedRights(manifest="rbac/management/role.yaml", when=_reaches_clusters, namespace=_own_namespace),
    GrantedRights(
        manifest="rbac/management/clusterprofiles.yaml",
        when=_dispatches_and(lambda settings: settings.multikueue.cluster_profile.on),
        namespace=_own_namespace,
    ),
    GrantedRights(
        manifest="multikueue-webhook/clusterrole.yaml",
        when=_dispatches_and(_follows_queues),
    ),
    GrantedRights(manifest="rbac/worker/clusterrole.yaml", when=named("multikueue"), place="worker"),
    GrantedRights(manifest="rbac/worker/quota.yaml", when=_dispatches_and(_reads_worker_quota), place="worker"),
)
