"""Says which rights the enabled controllers need on the management cluster and on a worker.

In: settings. Out: rights, each with the manifest that grants it. The manifests of `deploy` are the one list of what a
service may do, and the kinds of job have theirs in `job_kinds.rights`; here is only by which settings each counts. The
manifests are read from wherever they are: in a wheel inside the package, in a checkout beside it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import yaml

from controlplane.app.claims import lease_names
from controlplane.controllers.jobframework.hosting import policy_of as jobframework_policy
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.rights import rights as rights_of_kind
from controlplane.kube.access import AccessRight
from controlplane.kube.kinds import LEASES
from controlplane.settings.model import Settings
from controlplane.values import Value

_PACKAGE = Path(__file__).resolve().parents[1]


class NeededRight(Value):
    """A right, where it comes from, and whether something fails without it; what is not `needed` is only not known
    then. `bind`: the role that has to be bound as well, by hand, "" where the manifest or its folder does it.
    """

    right: AccessRight
    manifest: str
    needed: bool = True
    bind: str = ""


class _Granted(Value):
    """A manifest that counts `when` the settings say so. `namespace`: where its Roles are by the settings, else as it
    says; `role`: the one that is meant, "" for all in it; `resources`: those that are meant, empty for all in it.
    """

    manifest: str
    when: Callable[[Settings], bool]
    namespace: Callable[[Settings], str] | None = None
    role: str = ""
    needed: bool = True
    resources: frozenset[str] = frozenset()


def _hosts(name: str) -> Callable[[Settings], bool]:
    return lambda settings: name in settings.run.controllers


def _secrets(settings: Settings) -> bool:
    return bool({"multikueue", "candidates"} & set(settings.run.controllers))


def _dispatches_and(more: Callable[[Settings], object]) -> Callable[[Settings], bool]:
    return lambda settings: "multikueue" in settings.run.controllers and bool(more(settings))


def _own_namespace(settings: Settings) -> str:
    return settings.multikueue.namespace


def _judges_runs(settings: Settings) -> bool:
    return bool(policy_of(settings).judged)


def _reads_worker_quota(settings: Settings) -> bool:
    scoring = policy_of(settings).scoring
    automated = settings.multikueue.quota_automation == "yes"
    return automated or settings.quota.counts_workers or bool(scoring and scoring.flavors_weight)


def _has_virtual_nodes(settings: Settings) -> bool:
    return "candidates" in settings.run.controllers and settings.candidates.virtual_nodes.on


def _serves_kubelets(settings: Settings) -> bool:
    return _has_virtual_nodes(settings) and bool(settings.candidates.virtual_nodes.certificate)


_OF_CONNECTIONS = frozenset({"multikueueclusters", "multikueueclusters/status", "namespaces", "events"})
_MANAGEMENT = (
    _Granted(manifest="rbac/management/clusterrole.yaml", when=_hosts("multikueue")),
    # Where nothing is dispatched too: MultiKueueClusters are how other controllers get to other clusters.
    _Granted(manifest="rbac/management/clusterrole.yaml", when=_secrets, resources=_OF_CONNECTIONS),
    _Granted(manifest="rbac/management/role.yaml", when=_secrets, namespace=_own_namespace),
    _Granted(
        manifest="rbac/management/clusterprofiles.yaml",
        when=_dispatches_and(lambda settings: settings.multikueue.cluster_profile.on),
        namespace=_own_namespace,
    ),
    _Granted(
        manifest="rbac/management/quota.yaml",
        when=_dispatches_and(lambda settings: settings.multikueue.quota_automation == "yes"),
    ),
    _Granted(manifest="rbac/management/admission.yaml", when=lambda settings: settings.quota.builtin),
    _Granted(
        manifest="rbac/management/jobframework.yaml",
        when=lambda settings: settings.quota.builtin,
        role="controlplane-jobframework",
    ),
    _Granted(
        manifest="multikueue-webhook/clusterrole.yaml",
        when=_dispatches_and(lambda settings: settings.webhook.certificate),
    ),
    _Granted(
        manifest="visibility/clusterrole.yaml",
        when=lambda settings: settings.quota.builtin and bool(settings.quota.visibility.certificate),
    ),
    _Granted(manifest="candidates/source/clusterrole.yaml", when=_hosts("candidates")),
    _Granted(
        manifest="candidates/follow/clusterrole.yaml",
        when=lambda settings: "candidates" in settings.run.controllers and bool(settings.candidates.namespace_selector),
        role="controlplane-candidates-namespaces",
    ),
    _Granted(
        manifest="candidates/virtual-nodes/clusterrole.yaml",
        when=_has_virtual_nodes,
        role="controlplane-candidates-virtual-nodes",
    ),
    _Granted(
        manifest="candidates/virtual-nodes/clusterrole.yaml",
        when=_serves_kubelets,
        role="controlplane-candidates-kubelet",
    ),
    _Granted(manifest="podgroups/clusterrole.yaml", when=_hosts("podgroups")),
    _Granted(manifest="coscheduling/clusterrole.yaml", when=_hosts("coscheduling")),
    _Granted(
        manifest="coscheduling/role.yaml",
        when=_hosts("coscheduling"),
        namespace=lambda settings: settings.coscheduling.config_namespace,
    ),
)
_WORKER = (
    _Granted(manifest="rbac/worker/clusterrole.yaml", when=_hosts("multikueue")),
    _Granted(manifest="rbac/worker/quota.yaml", when=_dispatches_and(_reads_worker_quota)),
    _Granted(
        manifest="candidates/target/clusterrole.yaml",
        when=_has_virtual_nodes,
        role="controlplane-candidate-source-nodes",
        needed=False,
    ),
    _Granted(manifest="pipelineruns/worker/clusterrole.yaml", when=_dispatches_and(_judges_runs), needed=False),
    _Granted(manifest="pipelineruns/worker/role.yaml", when=_dispatches_and(_judges_runs), needed=False),
)


_TARGET_RIGHTS = "candidates/target/clusterrole.yaml"
_WITHOUT_BINDING = (_TARGET_RIGHTS, "candidates/follow/clusterrole.yaml")  # whose they are is for their reader to say


def _follows(settings: Settings) -> bool:
    return "candidates" in settings.run.controllers and settings.candidates.follow == "yes"


# Bound by a RoleBinding in each namespace that sends pods, or in which a source may have candidates. What lets ConfigMaps and
# Secrets follow may be bound for some by name alone, which cannot be told from here.
_SENDS = (
    _Granted(
        manifest="candidates/follow/clusterrole.yaml",
        when=_follows,
        role="controlplane-candidates-follow",
        needed=False,
    ),
)
_INVITED = (
    _Granted(manifest=_TARGET_RIGHTS, when=_hosts("candidates"), role="controlplane-candidate-source"),
    _Granted(manifest=_TARGET_RIGHTS, when=_follows, role="controlplane-candidate-source-follow", needed=False),
    _Granted(
        manifest=_TARGET_RIGHTS, when=_serves_kubelets, role="controlplane-candidate-source-streams", needed=False
    ),
)


def needed_to_send(settings: Settings, namespaces: Iterable[str]) -> list[NeededRight]:
    """Return what the service has to be allowed on the management cluster in each namespace that sends pods; "" is all
    of them.
    """
    return _needed_in(settings, _SENDS, namespaces)


def needed_as_source(settings: Settings, namespaces: Iterable[str]) -> list[NeededRight]:
    """Return what the account of a kubeconfig has to be allowed in each of a target's namespaces; "" is all of them."""
    return _needed_in(settings, _INVITED, namespaces)


def _needed_in(settings: Settings, granted: tuple[_Granted, ...], namespaces: Iterable[str]) -> list[NeededRight]:
    return [
        msgspec.structs.replace(one, right=msgspec.structs.replace(one.right, namespace=namespace))
        for namespace in sorted(set(namespaces))
        for one in _of_manifests(settings, granted)
    ]


def needed_on_management(settings: Settings) -> list[NeededRight]:
    """Return what the service has to be allowed on the management cluster."""
    return [*_needed(settings, "management", _MANAGEMENT), *_of_leases(settings)]


def needed_on_workers(settings: Settings) -> list[NeededRight]:
    """Return what the account of a kubeconfig has to be allowed on a worker, beside `needed_as_source`."""
    return _needed(settings, "worker", _WORKER)


def manifests() -> list[str]:
    """Return the manifests that are read, below the folder `deploy`."""
    return [one.manifest for one in (*_MANAGEMENT, *_WORKER, *_SENDS, *_INVITED)]


def _of_leases(settings: Settings) -> list[NeededRight]:
    """Return the rights on the Leases that keep other logs away, whose names are those of the settings."""
    namespace, names = settings.leader.lease_namespace, lease_names(settings)
    asked = [(verb, name) for verb in ("get", "patch") for name in names] + [("create", "")] if namespace else []
    return [
        NeededRight(
            right=AccessRight(group=LEASES.group, resource=LEASES.plural, verb=verb, namespace=namespace, name=name),
            manifest="deploy/rbac/management/leases.yaml",
            needed=False,
        )
        for verb, name in asked
    ]


def _needed(settings: Settings, place: str, granted: tuple[_Granted, ...]) -> list[NeededRight]:
    found: dict[AccessRight, NeededRight] = {}
    for one in [*_of_kinds(settings, place), *_of_manifests(settings, granted)]:
        before = found.get(one.right)
        if before is None or (one.needed and not before.needed):
            found[one.right] = one
    return list(found.values())


def _of_kinds(settings: Settings, place: str) -> Iterator[NeededRight]:
    if place == "management" and settings.quota.builtin:
        policy = jobframework_policy(settings)
        for kind in (*policy.adapters.values(), *policy.parents.values()):
            place = "jobframework-pods" if kind.ends_by_deletion else "jobframework"
            yield from _of_kind(kind, place, f"deploy/rbac/management/{place}.yaml")
            if settings.quota.object_retention.after_deactivated is not None:
                yield from _of_kind(kind, "deletion", "deploy/rbac/management/job-deletion.yaml")
    for kind in policy_of(settings).adapters.values():
        own = "pipelineruns" if kind.integration == "tekton.dev/pipelinerun" else ""
        manifest = f"deploy/{own}/{place}" if own else f"deploy/rbac/{place}/jobs.yaml"
        yield from _of_kind(kind, place, "" if kind.external and not own else manifest)


def _of_kind(kind: JobKind, place: str, manifest: str) -> Iterator[NeededRight]:
    for resource, verbs in rights_of_kind(kind, place):
        for verb in verbs.split(", "):
            right = AccessRight(group=kind.kind.group, resource=resource, verb=verb)
            yield NeededRight(right=right, manifest=manifest)


def _of_manifests(settings: Settings, granted: tuple[_Granted, ...]) -> Iterator[NeededRight]:
    for one in granted:
        if not one.when(settings):
            continue
        for role, namespace, right in _rights_in(one.manifest):
            if one.role in ("", role) and (not one.resources or right.resource in one.resources):
                where = one.namespace(settings) if namespace and one.namespace is not None else namespace
                yield NeededRight(
                    right=AccessRight(
                        group=right.group, resource=right.resource, verb=right.verb, namespace=where, name=right.name
                    ),
                    manifest=f"deploy/{one.manifest}",
                    needed=one.needed,
                    bind=role if one.manifest in _WITHOUT_BINDING else "",
                )


@functools.cache
def _rights_in(manifest: str) -> tuple[tuple[str, str, AccessRight], ...]:
    """Return the rights of a manifest, each with its role, and the namespace of one that has it in a namespace alone."""
    text = (deploy() / manifest).read_text(encoding="utf-8")
    return tuple(
        (
            str(role["metadata"]["name"]),
            str(role["metadata"].get("namespace", "")) if role["kind"] == "Role" else "",
            AccessRight(group=group, resource=resource, verb=verb, name=name),
        )
        for role in yaml.safe_load_all(text)
        if role and role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ("",))
    )


def deploy() -> Path:
    """Return the folder of the manifests."""
    packaged = _PACKAGE / "_deploy"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "deploy"
