"""The rights that PodGroups need.

In: settings. Out: the manifests of `deploy` that grant them."""

from __future__ import annotations

from controlplane.runtime.rights import GrantedRights, hosts

RIGHTS = (GrantedRights(manifest="podgroups/clusterrole.yaml", when=hosts("podgroups")),)
