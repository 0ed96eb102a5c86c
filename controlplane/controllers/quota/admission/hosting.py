"""Hosts admission by quota, where the settings ask for it.

In: settings. Out: the controller's part of the log, and what it watches on the management cluster. Where Kueue decides
nothing of that is watched."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.admission.observe import ADMISSION, KINDS
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.kube.watches import WatchSpec
from controlplane.runtime.hosting import HostedController, Registration
from controlplane.settings.model import Settings


def engine_settings(settings: Settings) -> EngineSettings:
    """Return how the engine decides, by the settings."""
    sharing = settings.quota.fair_sharing
    return EngineSettings(fair_sharing=sharing.enable == "yes", preemption_strategies=sharing.preemption_strategies)


def host(settings: Settings) -> Sequence[HostedController]:
    """Return the controller, or none."""
    if not settings.quota.builtin:
        return ()
    controller = AdmissionController(engine_settings(settings), settings.leader.identity)

    def unseen() -> str:
        return controller.index.unseen

    return (
        HostedController(
            registration=Registration(
                "admission",
                controller,
                frozenset({ADMISSION}),
                frozenset({"cluster", "service"}),
                identities="admission",
            ),
            home=[WatchSpec(kind) for kind in KINDS],
            knows=controller.places,
            unseen=unseen,
        ),
    )
