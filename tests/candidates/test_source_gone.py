"""A candidate that goes in the same breath in which it came: the source hears of both, though the first is not folded
yet.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.controllers.candidates.objects import CANDIDATES, SOURCE_LABEL
from controlplane.controllers.candidates.source.observations import CandidateGone
from controlplane.controllers.candidates.source.pods import SourceCandidates
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.kube.kinds import Json, meta
from controlplane.runtime.controller import ObjectChange

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def candidate(cluster: str = "campus") -> Json:
    origin = {"cluster": cluster, "namespace": "ns", "name": "web", "uid": "web#1", "epoch": 1}
    head = {"namespace": "ns", "name": "web-1", "uid": "c-1", "labels": {SOURCE_LABEL: cluster}}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": head, "spec": {"source": origin, "template": template}, "status": {}}


def listed(obj: Json) -> Json:
    """What a list that misses an object knows of it."""
    return {"metadata": {key: meta(obj)[key] for key in ("namespace", "name", "uid")}}


@pytest.mark.parametrize("whole", [True, False], ids=["watched", "missed by a list"])
def test_its_end_is_recorded_where_its_coming_was(whole: bool) -> None:
    source = SourceCandidates(SourcePolicy(cluster="campus"), "me", lambda namespace: [])
    came = source.observe(ObjectChange("east", "", CANDIDATES, candidate(), "5", False), NOW)
    went = source.observe(
        ObjectChange("east", "", CANDIDATES, candidate() if whole else listed(candidate()), "6", True), NOW
    )
    assert came is not None
    assert went is not None
    assert went.stream == came.stream == "sourcepod/ns/web"
    assert isinstance(went.event, CandidateGone)


def test_it_is_recorded_once() -> None:
    source = SourceCandidates(SourcePolicy(cluster="campus"), "me", lambda namespace: [])
    for version, gone in (("5", False), ("6", True)):
        source.observe(ObjectChange("east", "", CANDIDATES, candidate(), version, gone), NOW)
    assert source.observe(ObjectChange("east", "", CANDIDATES, listed(candidate()), "7", True), NOW) is None


def test_another_sources_candidate_is_nobodys_news() -> None:
    source = SourceCandidates(SourcePolicy(cluster="campus"), "me", lambda namespace: [])
    for version, gone in (("5", False), ("6", True)):
        assert source.observe(ObjectChange("east", "", CANDIDATES, candidate("other"), version, gone), NOW) is None


def test_the_end_of_one_that_could_not_be_read_is_recorded_where_its_refusal_was() -> None:
    """Until then it may be a delegate that runs."""
    source = SourceCandidates(SourcePolicy(cluster="campus"), "me", lambda namespace: [])
    broken = candidate()
    broken["status"] = {"reservation": "none"}
    came = source.observe(ObjectChange("east", "", CANDIDATES, broken, "5", False), NOW)
    assert came is not None
    assert came.stream.startswith("refused/")
    went = source.observe(ObjectChange("east", "", CANDIDATES, broken, "6", True), NOW)
    assert went is not None
    assert (went.stream, type(went.event)) == (came.stream, CandidateGone)
