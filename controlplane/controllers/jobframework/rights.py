"""The rights that making Workloads of jobs needs, beside those of each kind of job.

In: settings. Out: the manifests of `deploy` that grant them."""

from __future__ import annotations

from controlplane.runtime.rights import GrantedRights

RIGHTS = (
    GrantedRights(
        manifest="rbac/management/jobframework.yaml",
        when=lambda settings: settings.quota.builtin,
        role="controlplane-jobframework",
    ),
)
