"""Which manifest of `deploy` grants what a controller needs, and by which settings it counts.

In: settings. Out: `GrantedRights`, which the doctor reads the manifests by. The manifests are the one list of the rights
themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from controlplane.settings.model import Settings
from controlplane.values import Value

Place = Literal["management", "worker", "sending", "invited"]
"""Where it grants: on the management cluster, on a worker, in each namespace of the management cluster that sends pods, or in
each namespace of a target in which a source may have candidates."""


class GrantedRights(Value):
    """A manifest that counts `when` the settings say so. `namespace`: where its Roles are by the settings, else as it
    says; `role`: the one that is meant, "" for all in it. `bound`: whether the manifest, or its folder, binds it too.
    """

    manifest: str
    when: Callable[[Settings], object]
    place: Place = "management"
    namespace: Callable[[Settings], str] | None = None
    role: str = ""
    needed: bool = True
    bound: bool = True


def hosts(name: str) -> Callable[[Settings], bool]:
    """Return whether the settings name a controller."""
    return lambda settings: name in settings.run.controllers
