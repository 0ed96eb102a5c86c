"""What the coscheduling of a PipelineRun's pods says of itself."""

from __future__ import annotations

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.observations import SightingRefused
from controlplane.controllers.coscheduling.phrases import PHRASES, REASONS, run_because
from controlplane.runtime.hosting import Endpoint, GrantedRights, named
from controlplane.runtime.manifest import Deferred, Manifest
from controlplane.settings.model import Settings

_ON = named("coscheduling")


def endpoint(settings: Settings) -> Endpoint | None:
    """Return where the webhook is served by its older settings, which count where the section `webhook` is empty."""
    own = settings.coscheduling
    if not own.webhook_certificate or not _ON(settings):
        return None
    return Endpoint(
        section="coscheduling.webhook",
        key_of_certificate="coscheduling.webhookCertificate",
        certificate=own.webhook_certificate,
        key=own.webhook_key,
        address=own.webhook_address,
        port=own.webhook_port,
    )


MANIFEST = Manifest(
    title="Pods of PipelineRuns",
    events=events.EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=events.CoschedulingDecision,
    write=events.CoschedulingWrite,
    because=run_because,
    refused=SightingRefused,
    counted=True,
    runs=_ON,
    host=Deferred("controlplane.controllers.coscheduling.hosting:host"),
    hook=Deferred("controlplane.controllers.coscheduling.hook:hook"),
    endpoint=endpoint,
    causes=Deferred("controlplane.controllers.coscheduling.causes"),
    folds=Deferred("controlplane.controllers.coscheduling.state:FOLDS"),
    rights=(
        GrantedRights(manifest="coscheduling/clusterrole.yaml", when=_ON),
        GrantedRights(
            manifest="coscheduling/role.yaml",
            when=_ON,
            namespace=lambda settings: settings.coscheduling.config_namespace,
        ),
    ),
    stories=Deferred("controlplane.controllers.coscheduling.explain:STORIES"),
    streams={
        "pipelinerun/NS/NAME": "a PipelineRun where it runs, and everything that was made for it",
        "node/NAME": "a node, as far as placeholders care",
        "volume/NAME": "a volume that is not reached from every node, and whose claim has it",
        "coscheduling/flags, coscheduling/defaults": "Tekton's ConfigMaps",
    },
)
