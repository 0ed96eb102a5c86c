"""`caused_by` of the judgements on runs: the one event that a judgement rests on, among much that changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.controllers.connectivity.eligibility import ClustersJudged, Fit
from controlplane.controllers.coscheduling.feasibility.causes import CAUSES, may_cause
from controlplane.job_kinds.pipelinerun import ASKS_FOR_MODE
from controlplane.kube.kinds import STORAGE_CLASSES
from tests.coscheduling.judging_scene import EVERY, STREAM, Scene
from tests.coscheduling.samples import claim, template
from tests.coscheduling.test_fit import step, uses
from tests.coscheduling.test_judging import flags, placeholder
from tests.support.rows import each


class Story(Scene):
    """A hub, workers `a` and `b`, and a run. `cause` remembers the newest event: the next judgement rests on it."""

    def __init__(self, *workers: str, **policy: Any) -> None:
        super().__init__(*(workers or ("a", "b")), "z", **policy)
        self.expected = 0

    def cause(self) -> Story:
        self.expected = len(self.log)
        return self

    def of(self, *workspaces: Any, **more: Any) -> Story:
        self.submit(*workspaces, **more)
        return self

    def settled(self) -> Story:
        while self.decide():
            pass
        return self

    def noise(self) -> Story:
        """Another run comes, and another node where this one is judged already, unless it is what changed."""
        number = len(self.log)
        self.submit(name=f"other-{number}", uid=f"other-{number}")
        if "z" in self.said and self.log[self.expected - 1].stream != STREAM:
            self.node("z", f"other-{number}", cpu="1")
        return self

    @property
    def said(self) -> dict[str, Fit]:
        """What was said last."""
        found = self.room.runs[STREAM].said
        return found.clusters if found is not None else {}

    def connected(self, name: str, *kinds: str) -> Story:
        self.connect(name, *kinds)
        return self

    def sized(self, name: str, cpu: str) -> Story:
        self.node(name, cpu=cpu)
        return self

    def given(self, wanted: str, outcome: Any) -> Story:
        self.answer(wanted, outcome)
        return self


def small() -> Story:
    """One worker is too small, the others are not."""
    return Story().sized("b", "1").of(tasks=[step("2", "a")]).settled()


def flagged(story: Story, **data: str) -> Story:
    flags(story, "a", **data)
    return story


def isolated() -> Story:
    return flagged(Story(), coschedule="isolate-pipelinerun").of().settled()


def held(story: Story, *, gone: bool = False) -> Story:
    placeholder(story, "a", "n1", gone=gone)
    return story


def charged(story: Story, cpu: str) -> Story:
    story.workload(cpu)
    return story


def removed(story: Story) -> Story:
    story.remove("b")
    return story


def with_class(story: Story) -> Story:
    story.storage_class("a", "standard", default=True)
    return story


def looked(story: Story) -> Story:
    story.answer("PersistentVolumeClaim data", {"metadata": {"name": "data"}}, "z")
    story.answer("PersistentVolumeClaim data", {"metadata": {"name": "data"}}, "b")
    story.settled()
    story.answer("PersistentVolumeClaim data", 404)
    return story


def unlisted() -> Story:
    """The storage classes of a worker are not listed, and do not come in time."""
    story = Story("b").of(template("w"), tasks=[step("1", "a")]).settled()
    story.connect("a", *(kind for kind in EVERY if kind != STORAGE_CLASSES.name))
    story.cause().settled().sized("a", "9").settled()
    assert "a" not in story.said
    story.tick(11)
    return story


STORIES: dict[str, Callable[[], Story]] = {
    "run": lambda: Story().of(tasks=[step("2", "a")]).cause(),
    "run changed": lambda: small().of(tasks=[step("20", "a")]).cause(),
    "nodes": lambda: small().sized("b", "4").cause(),
    "flags": lambda: flagged(
        Story().of(annotations={ASKS_FOR_MODE: "workspaces"}).settled(), coschedule="disabled"
    ).cause(),
    "placeholders": lambda: held(isolated()).cause(),
    "classes": lambda: with_class(Story().of(template("w")).settled()).cause(),
    "charge": lambda: charged(small(), "1").cause(),
    "view": lambda: Story().of().settled().connected("c").cause(),
    "removed": lambda: removed(small()).cause(),
    "not in time": unlisted,
    "looks": lambda: looked(Story().of(claim("w", "data"), tasks=[uses("w", "1", "t")])).cause(),
}


@each("story", STORIES.values(), ids=STORIES.keys())
def test_it_rests_on(story: Callable[[], Story]) -> None:
    told = story().noise()
    told.decide()
    found = [one for one in told.log[told.expected :] if isinstance(one.event, ClustersJudged) and one.stream == STREAM]
    listed = [(one.position, one.stream, type(one.event).__name__, one.caused_by) for one in told.log]
    assert found, listed
    assert found[0].caused_by == told.expected, listed
    for one in told.log:
        if isinstance(one.event, ClustersJudged):
            assert 0 < one.caused_by < one.position
            assert may_cause(told.log[one.caused_by - 1].stream, one.stream), listed


def test_every_decision_has_a_row_and_every_facet_a_story() -> None:
    assert {ClustersJudged} == CAUSES.keys()
    (keys,) = CAUSES[ClustersJudged].values()
    assert {key.partition(".")[2] for key in keys} - {"asked"} <= STORIES.keys()


def test_only_what_may_cause_a_judgement_does() -> None:
    assert not may_cause("fit/pipelineruns.tekton.dev/ci/other", STREAM)
    assert not may_cause("pipelinerun/ci/other", STREAM)
    assert may_cause("worker/a/nodes/n1", STREAM)
