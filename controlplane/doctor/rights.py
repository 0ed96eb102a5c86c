"""Says which rights the enabled controllers need on the management cluster and on a worker.

In: settings. Out: rights, each with the manifest that grants it. The manifests of `deploy` are the one list of what a
service may do, and the kinds of job have theirs in `job_kinds.rights`; by which settings each counts, a controller says
in its manifest. The manifests are read from wherever they are: in a wheel inside the package, in a checkout beside
it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import yaml

from controlplane.app.claims import lease_names, scheduler_leases
from controlplane.controllers.jobframework.hosting import policy_of as jobframework_policy
from controlplane.controllers.manifests import HOSTED, ROLES_OF_SCHEDULER
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.rights import rights as rights_of_kind
from controlplane.kube.access import AccessRight
from controlplane.kube.kinds import LEASES
from controlplane.runtime.hosting import Place
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


LEASES_OF_SCHEDULER = "deploy/scheduler/leases.yaml"
_EACH_CYCLE = frozenset({"pods", "nodes", "poddisruptionbudgets", "pods/binding", "pods/status"})
_GRANTED = tuple(granted for one in HOSTED for granted in one.rights)


def needed_to_send(settings: Settings, namespaces: Iterable[str]) -> list[NeededRight]:
    """Return what the service has to be allowed on the management cluster in each namespace that sends pods; "" is all
    of them.
    """
    return _needed_in(settings, "sending", namespaces)


def needed_as_source(settings: Settings, namespaces: Iterable[str]) -> list[NeededRight]:
    """Return what the account of a kubeconfig has to be allowed in each of a target's namespaces; "" is all of them."""
    return _needed_in(settings, "invited", namespaces)


def _needed_in(settings: Settings, place: Place, namespaces: Iterable[str]) -> list[NeededRight]:
    return [
        msgspec.structs.replace(one, right=msgspec.structs.replace(one.right, namespace=namespace))
        for namespace in sorted(set(namespaces))
        for one in _of_manifests(settings, place)
    ]


def needed_on_management(settings: Settings) -> list[NeededRight]:
    """Return what the service has to be allowed on the management cluster."""
    leases = _of_leases(settings, lease_names(settings), "deploy/rbac/management/leases.yaml")
    return [*_needed(settings, "management"), *leases]


def needed_on_workers(settings: Settings) -> list[NeededRight]:
    """Return what the account of a kubeconfig has to be allowed on a worker, beside `needed_as_source`."""
    return _needed(settings, "worker")


def needed_by_scheduler(settings: Settings) -> list[NeededRight]:
    """Return what a scheduler has to be allowed on its cluster, beside its Leases. What it does not find there, or may
    not see, does not count in a cycle; without some of it there is no cycle."""
    manifests = ROLES_OF_SCHEDULER if settings.scheduler.takes_candidates else ROLES_OF_SCHEDULER[:1]
    found = {
        right: NeededRight(right=right, manifest=f"deploy/{manifest}", needed=right.resource in _EACH_CYCLE)
        for manifest in reversed(manifests)
        for _, _, right in _rights_in(manifest)
    }
    return list(found.values())


def leases_of_scheduler(settings: Settings, profiles: Sequence[str]) -> list[NeededRight]:
    """Return the rights on the Leases that keep other logs' schedulers away."""
    return _of_leases(settings, list(scheduler_leases(settings, profiles)), LEASES_OF_SCHEDULER)


def manifests() -> list[str]:
    """Return the manifests that are read, below the folder `deploy`."""
    return [*(one.manifest for one in _GRANTED), *ROLES_OF_SCHEDULER]


def _of_leases(settings: Settings, names: Sequence[str], manifest: str) -> list[NeededRight]:
    """Return the rights on Leases that keep other logs away; none where none are kept."""
    namespace = settings.leader.lease_namespace
    asked = [(verb, name) for verb in ("get", "patch") for name in names] + [("create", "")] if namespace else []
    return [
        NeededRight(
            right=AccessRight(group=LEASES.group, resource=LEASES.plural, verb=verb, namespace=namespace, name=name),
            manifest=manifest,
            needed=False,
        )
        for verb, name in asked
    ]


def _needed(settings: Settings, place: Place) -> list[NeededRight]:
    found: dict[AccessRight, NeededRight] = {}
    for one in [*_of_kinds(settings, place), *_of_manifests(settings, place)]:
        before = found.get(one.right)
        if before is None or (one.needed and not before.needed):
            found[one.right] = one
    return list(found.values())


def _of_kinds(settings: Settings, place: Place) -> Iterator[NeededRight]:
    if place == "management" and settings.quota.builtin:
        policy = jobframework_policy(settings)
        for kind in (*policy.adapters.values(), *policy.parents.values()):
            made = "jobframework-pods" if kind.ends_by_deletion else "jobframework"
            yield from _of_kind(kind, made, f"deploy/rbac/management/{made}.yaml")
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


def _of_manifests(settings: Settings, place: Place) -> Iterator[NeededRight]:
    for one in _GRANTED:
        if one.place != place or not one.when(settings):
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
                    bind="" if one.bound else role,
                )


@functools.cache
def _rights_in(manifest: str) -> tuple[tuple[str, str, AccessRight], ...]:
    """Return the rights of a manifest, each with its role, and the namespace of one that has it in a namespace
    alone."""
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
