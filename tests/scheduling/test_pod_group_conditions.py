"""What the log hears of PodGroups: their conditions, and their end."""

from __future__ import annotations

from controlplane.controllers.scheduling.events import GangObserved
from controlplane.controllers.scheduling.gangs.conditions import PodGroupConditions
from controlplane.kube.kinds import POD_GROUPS
from controlplane.log.event import Recorded
from controlplane.runtime.controller import ObjectChange
from tests.scheduling.bench import START

GROUP = {"metadata": {"namespace": "default", "name": "g", "uid": "uid-g"}, "spec": {}, "status": {}}


def test_a_group_that_goes_before_its_coming_is_folded_is_not_forgotten() -> None:
    conditions = PodGroupConditions("test", enabled=True)
    seen = conditions.observe(ObjectChange("@management", "", POD_GROUPS, GROUP, "5", False), START)
    went = conditions.observe(ObjectChange("@management", "", POD_GROUPS, GROUP, "6", True), START)
    for position, new in enumerate((seen, went), 1):
        assert new is not None
        conditions.fold(
            Recorded(position=position, stream=new.stream, version=position, event=new.event, recorded_at=START)
        )
    assert conditions.states == {}
    assert conditions.observe(ObjectChange("@management", "", POD_GROUPS, GROUP, "7", True), START) is None


def test_a_condition_of_no_type_is_left_out() -> None:
    conditions = PodGroupConditions("test", enabled=True)
    shown = {**GROUP, "status": {"conditions": [{"type": ["Scheduled"]}, {"type": {}}, "x", {"type": "Other"}]}}
    new = conditions.observe(ObjectChange("@management", "", POD_GROUPS, shown, "5", False), START)
    assert new is not None
    assert isinstance(new.event, GangObserved)
    assert new.event.conditions == [{"type": "Other"}]
