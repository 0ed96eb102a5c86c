"""The rights that keeping a PipelineRun's pods on one node needs.

In: settings. Out: the manifests of `deploy` that grant them."""

from __future__ import annotations

from controlplane.runtime.rights import GrantedRights, hosts

_ON = hosts("coscheduling")
RIGHTS = (
    GrantedRights(manifest="coscheduling/clusterrole.yaml", when=_ON),
    GrantedRights(
        manifest="coscheduling/role.yaml",
        when=_ON,
        namespace=lambda settings: settings.coscheduling.config_namespace,
    ),
)
