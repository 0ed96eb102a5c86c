"""Deliberate bugs in what is decided about gangs of candidates: each a patch, undone when its test ends."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import decide, gang_decide, gang_pass, gangs, permits
from controlplane.controllers.candidates.source.gang_events import GangDissolved


def there_are_no_gangs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gangs.SourceGangs, "view", lambda self, stream: None)


def members_follow_anywhere(patch: pytest.MonkeyPatch) -> None:
    original = permits._follow

    def follow(turn: Any, home: str) -> CandidateReason | None:
        elsewhere = [offer.cluster for offer in turn.offers()]
        return original(turn, elsewhere[0] if elsewhere else home)

    patch.setattr(permits, "_follow", follow)
    patch.setattr(decide, "_gang_is_elsewhere", lambda turn, cluster: False)
    patch.setattr(decide, "_wanted", lambda turn, pod: [target.name for target in turn.context.targets])


def one_is_a_quorum(patch: pytest.MonkeyPatch) -> None:
    original = gang_pass.place_in

    def place_in(turn: Any, cluster: str) -> Any:
        return original(turn, cluster)._replace(need=1)

    patch.setattr(gang_decide, "place_in", place_in)


def gangs_are_never_dissolved(patch: pytest.MonkeyPatch) -> None:
    original = gang_pass.GangPass.say

    def say(self: Any, decision: Any) -> None:
        if not isinstance(decision, GangDissolved):
            original(self, decision)

    patch.setattr(gang_pass.GangPass, "say", say)
