"""The rights that quota automation needs.

In: settings. Out: the manifests of `deploy` that grant them."""

from __future__ import annotations

from controlplane.runtime.rights import GrantedRights
from controlplane.settings.model import Settings


def _on(settings: Settings) -> bool:
    return settings.multikueue.quota_automation == "yes" and "multikueue" in settings.run.controllers


RIGHTS = (GrantedRights(manifest="rbac/management/quota.yaml", when=_on),)
