"""Answers the admission hook of pods by what has been folded (`controlplane.controllers.candidates.source.admission`).

In: settings, and how to find the controller. Out: a `ReviewHook`, None where no webhook is served."""

from __future__ import annotations

from controlplane.controllers.candidates.source.admission import answer
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.hosting import policy_of
from controlplane.kube.kinds import Json
from controlplane.runtime.hosting import FindController, ReviewHook
from controlplane.settings.model import Settings

PATH = "/mutate/candidates"


def hook(settings: Settings, find: FindController) -> ReviewHook | None:
    """Return what answers."""
    if not settings.webhook.certificate:
        return None
    policy, own = policy_of(settings), settings.multikueue.namespace

    def answered(review: Json) -> Json:
        controller = find(SourceController)
        return answer(review, policy, own, controller.may_send if controller is not None else lambda _: None)

    return ReviewHook(path=PATH, answer=answered)
