"""What the scheduler says of itself."""

from __future__ import annotations

from controlplane.controllers.scheduling.events import SCHEDULING_EVENTS, SchedulingDecision, SchedulingWrite
from controlplane.controllers.scheduling.phrases import PHRASES, REASONS, scheduling_because
from controlplane.runtime.manifest import Deferred, Manifest

MANIFEST = Manifest(
    title="Scheduling",
    intro="In the log of the scheduler.",
    events=SCHEDULING_EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=SchedulingDecision,
    write=SchedulingWrite,
    because=scheduling_because,
    causes=Deferred("controlplane.controllers.scheduling.causes"),
    folds=Deferred("controlplane.controllers.scheduling.explain:FOLDS"),
    streams={
        "pod/NS/NAME": "a pod that names one of the scheduler's profiles",
        "victim/NS/NAME": "a pod that is evicted for another one",
        "gang/NS/NAME": "a PodGroup whose pods are scheduled together",
        "gang/NS/NAME/CLUSTER": "the same, of pods that come from one source cluster",
        "gang/NS/NAME/CLUSTER/UID": "the same, where their Candidates say which cluster of that name made them",
    },
)
