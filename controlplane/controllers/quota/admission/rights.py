"""The rights that admission by quota needs.

In: settings. Out: the manifests of `deploy` that grant them."""

from __future__ import annotations

from controlplane.runtime.rights import GrantedRights

RIGHTS = (
    GrantedRights(manifest="rbac/management/admission.yaml", when=lambda settings: settings.quota.builtin),
    GrantedRights(
        manifest="visibility/clusterrole.yaml",
        when=lambda settings: settings.quota.builtin and settings.quota.visibility.certificate,
    ),
)
