"""The rights that placing pods on other clusters needs. What lets ConfigMaps and Secrets follow may be bound for some
by name alone, which cannot be told from here; so may what is bound in each namespace, which is for its owner to say.

In: settings. Out: the manifests of `deploy` that grant them."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.runtime.hosting import GrantedRights, Place, named
from controlplane.settings.model import Settings

_ON = named("candidates")
_TARGET, _FOLLOW = "candidates/target/clusterrole.yaml", "candidates/follow/clusterrole.yaml"
_NODES = "candidates/virtual-nodes/clusterrole.yaml"


def _follows(settings: Settings) -> bool:
    return _ON(settings) and settings.candidates.follow == "yes"


def _selects(settings: Settings) -> bool:
    return _ON(settings) and bool(settings.candidates.namespace_selector)


def _has_virtual_nodes(settings: Settings) -> bool:
    return _ON(settings) and settings.candidates.virtual_nodes.on


def _serves_kubelets(settings: Settings) -> bool:
    return _has_virtual_nodes(settings) and bool(settings.candidates.virtual_nodes.certificate)


def _granted(
    manifest: str, when: Callable[[Settings], bool], role: str, place: Place = "management", *, needed: bool = True
) -> GrantedRights:
    name, bound = f"controlplane-candidate{role}", manifest not in (_TARGET, _FOLLOW)
    return GrantedRights(manifest=manifest, when=when, role=name, place=place, needed=needed, bound=bound)


RIGHTS = (
    GrantedRights(manifest="candidates/source/clusterrole.yaml", when=_ON),
    _granted(_FOLLOW, _selects, "s-namespaces"),
    _granted(_NODES, _has_virtual_nodes, "s-virtual-nodes"),
    _granted(_NODES, _serves_kubelets, "s-kubelet"),
    _granted(_TARGET, _has_virtual_nodes, "-source-nodes", "worker", needed=False),
    _granted(_FOLLOW, _follows, "s-follow", "sending", needed=False),
    _granted(_TARGET, _ON, "-source", "invited"),
    _granted(_TARGET, _follows, "-source-follow", "invited", needed=False),
    _granted(_TARGET, _serves_kubelets, "-source-streams", "invited", needed=False),
)
