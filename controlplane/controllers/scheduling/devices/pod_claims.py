"""Finds the ResourceClaims of a pod: those that it names, and those that were made for it of a template.

In: a pod's spec and status, the table of claims. Out: the claims, or why one is of no use
(kubernetes/dynamic-resource-allocation resourceclaim/resourceclaim.go, v0.36)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controlplane.kube.devices.objects import ResourceClaim
from controlplane.kube.pod_fields import Obj, items, text


class PodResourceClaim(NamedTuple):
    """An entry of a pod's `spec.resourceClaims`. `claim` is its name, None where none is needed; `made`: of a template.

    `problem`: why it has none yet."""

    name: str
    claim: str | None
    made: bool = False
    problem: str = ""


def read_pod_claims(spec: Obj, status: Obj, pod: str, where: str) -> tuple[PodResourceClaim, ...]:
    """Return the claims that a pod speaks of; `PodMisfit` names the field. `pod` is its namespace and name."""
    listed = items(spec, "resourceClaims", f"{where}.spec")
    if not listed:
        return ()
    made = {
        text(one, "name", f"{where}.status"): one for one in items(status, "resourceClaimStatuses", f"{where}.status")
    }
    found = []
    for at, one in enumerate(listed):
        inside = f"{where}.spec.resourceClaims[{at}]"
        name = text(one, "name", inside)
        if one.get("resourceClaimName") is not None:
            found.append(PodResourceClaim(name, text(one, "resourceClaimName", inside)))
        elif one.get("resourceClaimTemplateName") is None:
            said = f'pod "{pod}", spec.resourceClaim "{name}": none of the supported fields are set'
            found.append(PodResourceClaim(name, None, problem=said))
        elif name not in made:
            found.append(PodResourceClaim(name, None, True, f'pod "{pod}": ResourceClaim not created yet'))
        else:
            given = made[name].get("resourceClaimName")
            own = None if given is None else text(made[name], "resourceClaimName", f"{where}.status")
            found.append(PodResourceClaim(name, own, True))
    return tuple(found)


def claims_of(
    claims: Mapping[tuple[str, str], ResourceClaim],
    namespace: str,
    pod: str,
    uid: str,
    own: tuple[PodResourceClaim, ...],
) -> list[ResourceClaim] | str:
    """Return the claims of a pod in its own order, or why one of them is of no use."""
    found: list[ResourceClaim] = []
    for entry in own:
        if entry.problem:
            return entry.problem
        if entry.claim is None:
            continue
        claim = claims.get((namespace, entry.claim))
        if claim is None:
            return f'could not find ResourceClaim "{namespace}/{entry.claim}"'
        if claim.terminating:
            return f'resourceclaim "{claim.name}" is being deleted'
        if entry.made and (not uid or claim.owner != uid):
            return f"ResourceClaim {claim.key} was not created for Pod {namespace}/{pod} (Pod is not owner)"
        found.append(claim)
    return found
