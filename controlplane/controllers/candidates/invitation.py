"""Makes the objects by which a source cluster is invited into a namespace of a target, and the target is offered there.

In: names. Out: the manifests of both sides, in the order in which they are created. Pure; the token that the source
speaks with is the API server's to make."""

from __future__ import annotations

import base64
import re

from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATE_TARGETS
from controlplane.kube.kinds import MULTIKUEUE_CLUSTERS, NAMESPACES, SECRETS, Json, Kind
from controlplane.values import Value

ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
ROLE = "controlplane-candidate-source"
"""The ClusterRole of deploy/candidates/target."""
MANAGER = "controlplane-invite"
_LABEL = {"app.kubernetes.io/managed-by": MANAGER}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Invitation(Value):
    """Who is invited where.

    `source` and `target` are the clusters' names: what `candidates.cluster` says, and the MultiKueueCluster. Pods come
    from and go into `namespace`. `accounts` is the namespace of the target in which the account of the source is, and
    `secrets` that of the source in which kubeconfigs are."""

    source: str
    target: str
    namespace: str
    accounts: str = "candidate-sources"
    secrets: str = "kueue-system"
    tier: int = 0


Manifest = tuple[Kind, Json]


def unusable(name: str) -> bool:
    """Whether a cluster cannot have a name: it is no DNS label."""
    return _NAME.fullmatch(name) is None


def target_side(invitation: Invitation) -> list[Manifest]:
    """Return what the target cluster gets: the account that speaks for the source, its rights, and the invitation."""
    one = invitation
    role = {"apiGroup": ROLE_BINDINGS.group, "kind": CLUSTER_ROLES.kind, "name": ROLE}
    subject = {"kind": ACCOUNTS.kind, "name": one.source, "namespace": one.accounts}
    spec = {"cluster": one.source, "user": f"system:serviceaccount:{one.accounts}:{one.source}"}
    return [
        _made(NAMESPACES, "", one.namespace),
        _made(NAMESPACES, "", one.accounts),
        _made(ACCOUNTS, one.accounts, one.source, automountServiceAccountToken=False),
        _made(ROLE_BINDINGS, one.namespace, one.source, roleRef=role, subjects=[subject]),
        _made(CANDIDATE_SOURCES, one.namespace, one.source, spec=spec),
    ]


def source_side(invitation: Invitation, kubeconfig: bytes | None) -> list[Manifest]:
    """Return what the source cluster gets: the way to the target, and the target of its pods. Without a kubeconfig, all
    but its Secret."""
    one = invitation
    data = {"kubeconfig": base64.b64encode(kubeconfig).decode()} if kubeconfig is not None else {}
    where = {"clusterSource": {"kubeConfig": {"locationType": "Secret", "location": one.target}}}
    made = [
        _made(NAMESPACES, "", one.namespace),
        _made(SECRETS, one.secrets, one.target, type="Opaque", data=data),
        _made(MULTIKUEUE_CLUSTERS, "", one.target, spec=where),
        _made(CANDIDATE_TARGETS, one.namespace, one.target, spec={"cluster": one.target, "tier": one.tier}),
    ]
    return [found for found in made if data or found[0] != SECRETS]


def kubeconfig(server: str, authority: bytes, token: str) -> Json:
    """Return a kubeconfig that holds everything inline, as MultiKueue demands."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "target",
        "contexts": [{"name": "target", "context": {"cluster": "target", "user": "target"}}],
        "clusters": [{"name": "target", "cluster": cluster}],
        "users": [{"name": "target", "user": {"token": token}}],
    }


def is_ours(found: Json) -> bool:
    """Whether an object was made by an invitation."""
    labels = (found.get("metadata") or {}).get("labels") or {}
    return all(labels.get(name) == value for name, value in _LABEL.items())


def says_the_same(wanted: Json, found: Json) -> bool:
    """Whether an object that is there says what is wanted; what else it says does not count."""
    return all(_within(value, found.get(part)) for part, value in wanted.items() if part not in _HEAD)


_HEAD = ("apiVersion", "kind", "metadata", "data", "type")


def _within(wanted: object, found: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_within(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_within, wanted, found))
    return wanted == found


def _made(kind: Kind, namespace: str, name: str, **more: object) -> Manifest:
    metadata: Json = {"name": name, "labels": dict(_LABEL)}
    if namespace:
        metadata["namespace"] = namespace
    return kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **more}
