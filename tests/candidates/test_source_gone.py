"""A candidate that goes in the same breath in which it came: the source hears of both, though the first is not folded
yet.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.controllers.candidates.objects import CANDIDATES, SOURCE_LABEL, SOURCE_UID
from controlplane.controllers.candidates.source.observations import (
    CandidateGone,
    CandidateObservationRefused,
    CandidateSeen,
)
from controlplane.controllers.candidates.source.pods import SourceCandidates
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.kube.kinds import Json, meta
from controlplane.log.event import Recorded
from controlplane.runtime.controller import ObjectChange
from tests.support.rows import each

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def candidate(cluster: str = "campus") -> Json:
    origin = {"cluster": cluster, "namespace": "ns", "name": "web", "uid": "web#1", "epoch": 1}
    head = {"namespace": "ns", "name": "web-1", "uid": "c-1", "labels": {SOURCE_LABEL: cluster}}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": head, "spec": {"source": origin, "template": template}, "status": {}}


def made_by(uid: str) -> Json:
    """A Candidate with our name that says which cluster made it."""
    found = candidate()
    found["metadata"]["annotations"] = {SOURCE_UID: uid}
    return found


def known_as(uid: str) -> SourceCandidates:
    """A source whose cluster is known by this UID."""
    source = SourceCandidates(SourcePolicy(cluster="campus"), "me", lambda namespace: [])
    connected = ClusterConnected(incarnation=uid, kinds=[])
    recorded = Recorded(
        position=1, stream=cluster_stream(MANAGEMENT), version=1, event=connected, cluster=MANAGEMENT, recorded_at=NOW
    )
    source.fold(recorded)
    return source


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


def test_a_candidate_of_another_cluster_that_has_our_name_is_nobodys_news() -> None:
    """Settings were copied to it, with the name: what runs for its pods, which are not here, is not given up."""
    source = known_as("ours")
    for version, gone in (("5", False), ("6", True)):
        assert source.observe(ObjectChange("east", "", CANDIDATES, made_by("theirs"), version, gone), NOW) is None
    for obj in (made_by("ours"), candidate()):
        assert source.observe(ObjectChange("east", "", CANDIDATES, obj, "5", False), NOW) is not None
    unknown = known_as("")
    assert unknown.observe(ObjectChange("east", "", CANDIDATES, made_by("theirs"), "5", False), NOW) is not None


@each(
    ("identity", "obj", "unmarked"),
    [
        ("ours", candidate(), True),
        ("ours", made_by("ours"), False),
        ("", candidate(), False),
        ("", made_by("theirs"), False),
    ],
)
def test_of_a_candidate_that_does_not_say_that_we_made_it_that_is_noted(
    identity: str, obj: Json, unmarked: bool
) -> None:
    new = known_as(identity).observe(ObjectChange("east", "", CANDIDATES, obj, "5", False), NOW)
    assert new is not None
    assert isinstance(new.event, CandidateSeen)
    assert new.event.unmarked is unmarked


def test_what_a_new_log_sees_before_it_knows_its_cluster_says_of_nothing_that_it_is_ours() -> None:
    """It was ours, whoever made it, and given up where its pod was not here; nor is it ours when it changes."""
    source = SourceCandidates(SourcePolicy(cluster="campus"), "me", lambda namespace: [])
    for version, obj in (("5", made_by("theirs")), ("6", made_by("theirs"))):
        new = source.observe(ObjectChange("east", "", CANDIDATES, obj, version, False), NOW)
        assert new is not None
        assert isinstance(new.event, CandidateSeen)
        assert new.event.unmarked
        source.fold(
            Recorded(position=2, stream=new.stream, version=1, event=new.event, cluster="east", recorded_at=NOW)
        )
        source.connections[MANAGEMENT] = known_as("ours").connections[MANAGEMENT]


def test_a_candidate_of_another_cluster_that_cannot_be_read_holds_up_nobody() -> None:
    """Of ours it is not known whether it runs, and no pod of its name is permitted meanwhile."""
    source = known_as("ours")
    theirs, ours = made_by("theirs"), made_by("ours")
    for one in (theirs, ours):
        one["spec"]["source"]["epoch"] = "first"
    assert source.observe(ObjectChange("east", "", CANDIDATES, theirs, "5", False), NOW) is None
    refused = source.observe(ObjectChange("east", "", CANDIDATES, ours, "5", False), NOW)
    assert refused is not None
    assert isinstance(refused.event, CandidateObservationRefused)


def test_a_source_cluster_that_was_built_anew_goes_on_with_what_its_log_knows() -> None:
    source = known_as("before")
    new = source.observe(ObjectChange("east", "", CANDIDATES, made_by("before"), "5", False), NOW)
    assert new is not None
    source.fold(Recorded(position=2, stream=new.stream, version=1, event=new.event, cluster="east", recorded_at=NOW))
    source.connections[MANAGEMENT] = known_as("after").connections[MANAGEMENT]
    seen = source.observe(ObjectChange("east", "", CANDIDATES, made_by("before"), "6", False), NOW)
    assert seen is not None
    other = made_by("before")
    other["metadata"] |= {"name": "web-2", "uid": "c-2"}
    assert source.observe(ObjectChange("east", "", CANDIDATES, other, "7", False), NOW) is None


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
