"""Who may do what, asked of a simulated API server: reviews over HTTP, and what is none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.transport import Transport
from controlplane.kube.access import (
    SELF_SUBJECT_ACCESS_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    AccessRight,
    is_allowed,
    review,
)
from controlplane.simulation.apiserver.access_reviews import AccessReviews
from controlplane.simulation.apiserver.protobuf import MEDIA_TYPE
from controlplane.simulation.apiserver.server import SimulatedApiServer
from tests.simulation.store_kit import new_store

READS = AccessRight(group="", resource="secrets", verb="list", namespace="kueue-system")
WRITES = AccessRight(group="batch", resource="jobs/status", verb="patch", namespace="a", name="b")


@pytest.fixture
async def server() -> AsyncIterator[SimulatedApiServer]:
    server = SimulatedApiServer(new_store(), token="sesame")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def transport(server: SimulatedApiServer) -> AsyncIterator[Transport]:
    made = Transport("w", ClientConfig(server.url, token="sesame"))
    yield made
    await made.close()


async def test_a_rule_hears_the_whole_right(server: SimulatedApiServer, transport: Transport) -> None:
    heard: list[tuple[str, AccessRight]] = []

    def allows(user: str, right: AccessRight) -> bool:
        heard.append((user, right))
        return right != WRITES

    server.access.allows = allows
    answers = [await transport.create(SELF_SUBJECT_ACCESS_REVIEWS, "", review(one)) for one in (READS, WRITES)]
    assert [is_allowed(one) for one in answers] == [True, False]
    assert [right for _, right in heard] == [READS, WRITES]
    assert server.counts["create", "selfsubjectaccessreviews.authorization.k8s.io", ""] == 2
    assert transport.date.endswith(" GMT")


async def test_another_user_is_asked_about_by_name(server: SimulatedApiServer, transport: Transport) -> None:
    server.access.allows = lambda user, _: user == "jane"
    for user, allowed in (("jane", True), ("joe", False)):
        body = {"spec": {**review(READS)["spec"], "user": user}}
        assert is_allowed(await transport.create(SUBJECT_ACCESS_REVIEWS, "", body)) is allowed


@pytest.mark.parametrize("body", [{}, {"spec": {}}, {"spec": []}, {"spec": {"resourceAttributes": "x"}}])
async def test_a_body_that_is_no_review_is_refused(transport: Transport, body: dict[str, object]) -> None:
    with pytest.raises(ApiError) as refused:
        await transport.create(SELF_SUBJECT_ACCESS_REVIEWS, "", body)
    assert refused.value.status == 400


async def test_who_has_no_token_asks_nothing(server: SimulatedApiServer) -> None:
    stranger = Transport("w", ClientConfig(server.url))
    with pytest.raises(ApiError) as refused:
        await stranger.create(SELF_SUBJECT_ACCESS_REVIEWS, "", review(READS))
    assert refused.value.status == 401
    await stranger.close()


@pytest.mark.parametrize("answer", [{}, {"status": None}, {"status": {"allowed": "yes"}}])
def test_an_answer_that_does_not_say_is_an_error(answer: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"without status\.allowed"):
        is_allowed(answer)


@given(body=st.binary(max_size=80))
def test_whatever_is_sent_as_protobuf_is_a_review_or_refused(body: bytes) -> None:
    reviews = AccessReviews()
    path = SELF_SUBJECT_ACCESS_REVIEWS.path()
    with suppress(ApiError):
        assert is_allowed(reviews.answer(path, b"k8s\x00" + body, MEDIA_TYPE))
