"""The rights that dispatching needs, beside those of each kind of job.

In: settings. Out: the manifests of `deploy` that grant them."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.runtime.rights import GrantedRights, hosts
from controlplane.settings.model import Settings


def _dispatches_and(more: Callable[[Settings], object]) -> Callable[[Settings], bool]:
    return lambda settings: "multikueue" in settings.run.controllers and bool(more(settings))


def _reaches_clusters(settings: Settings) -> bool:
    """Also where nothing is dispatched: MultiKueueClusters are how other controllers get to other clusters."""
    return bool({"multikueue", "candidates"} & set(settings.run.controllers))


def _own_namespace(settings: Settings) -> str:
    return settings.multikueue.namespace


def _reads_worker_quota(settings: Settings) -> bool:
    scoring = policy_of(settings).scoring
    automated = settings.multikueue.quota_automation == "yes"
    return automated or settings.quota.counts_workers or bool(scoring and scoring.flavors_weight)


RIGHTS = (
    GrantedRights(manifest="rbac/management/clusterrole.yaml", when=_reaches_clusters),
    GrantedRights(manifest="rbac/management/role.yaml", when=_reaches_clusters, namespace=_own_namespace),
    GrantedRights(
        manifest="rbac/management/clusterprofiles.yaml",
        when=_dispatches_and(lambda settings: settings.multikueue.cluster_profile.on),
        namespace=_own_namespace,
    ),
    GrantedRights(
        manifest="multikueue-webhook/clusterrole.yaml",
        when=_dispatches_and(lambda settings: settings.webhook.certificate),
    ),
    GrantedRights(manifest="rbac/worker/clusterrole.yaml", when=hosts("multikueue"), place="worker"),
    GrantedRights(manifest="rbac/worker/quota.yaml", when=_dispatches_and(_reads_worker_quota), place="worker"),
)
