"""A fence moves the Pod's resourceVersion on, each time: a patch that changes nothing would fence nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.events import PodFenced
from controlplane.controllers.candidates.target.render import FENCE, target_render
from controlplane.controllers.candidates.target.state import TargetState
from controlplane.kube.kinds import Json

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def fence(resource_version: str) -> Json:
    decision = PodFenced(uid="u", number=1, resource_version=resource_version, reason=TargetReason.FENCED)
    request = target_render(TargetState(namespace="ns", name="web-1"), decision, {}, TargetPolicy(), NOW)
    assert (request.uid, request.resource_version) == ("u", resource_version)
    mark: Json = request.body["metadata"]["annotations"]
    return mark


def test_each_binding_of_a_permit_has_a_fence_of_its_own() -> None:
    """The second binding under the same permit failed as well: its fence once said the same as the first, and was made
    for ever.
    """
    assert fence("5")[FENCE] != fence("7")[FENCE]


def test_the_same_fence_sent_again_says_the_same() -> None:
    assert fence("5") == fence("5")
