"""Who may ask the kubelet API of a virtual Node: whose token it is and what that may do, the source's API server says,
over HTTP; what it said holds for seconds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controlplane.app.candidates.kubelet import VirtualKubelet
from controlplane.clusters.transport import Transport
from controlplane.kube.front_proxy import UserInfo
from controlplane.web.kubelet import KubeletRefusal
from tests.pages.reviews import SCOPED, Reviews, reviewing

NODE = "candidates-east"


class Asked:
    """The API for one way to the source, with a clock of the test."""

    def __init__(self, reviews: Reviews, cluster: Transport) -> None:
        self.reviews, self.cluster, self.now = reviews, cluster, 1000.0
        self.kubelet = VirtualKubelet(None, cluster, lambda: self.now)  # type: ignore[arg-type] # who asks is none of its business

    @property
    def tokens(self) -> list[Any]:
        return [spec["token"] for kind, spec in self.reviews.asked if kind == "TokenReview"]


def _of_nodes(spec: dict[str, Any]) -> bool:
    wants = spec["resourceAttributes"]
    assert (wants["resource"], wants["subresource"]) == ("nodes", "proxy")
    return "auditors" in spec["groups"] and wants["verb"] == "get" and wants.get("name") == NODE


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    async with reviewing() as (reviews, cluster):
        reviews.allows = _of_nodes
        yield Asked(reviews, cluster)


async def test_a_token_is_known_by_the_sources_api_server(asked: Asked) -> None:
    ada = UserInfo(name="ada", uid="uid of ada", groups=("team-a",))
    assert await asked.kubelet.user(None, "t-ada") == ada
    assert await asked.kubelet.user(None, "t-made-up") is None
    assert await asked.kubelet.user(None, "") is None
    assert asked.tokens == ["t-ada", "t-made-up"], "nobody is asked about no token"


async def test_a_certificate_counts_before_a_token_and_one_without_a_name_does_not(asked: Asked) -> None:
    shown = ("kubelet-client", ("masters",))
    named = UserInfo(name="kubelet-client", groups=("masters", "system:authenticated"))
    assert await asked.kubelet.user(shown, "t-ada") == named
    assert asked.tokens == []
    assert await asked.kubelet.user(("", ("masters",)), "") is None
    found = await asked.kubelet.user(("", ("masters",)), "t-ada")
    assert found is not None
    assert (found.name, found.groups) == ("ada", ("team-a",)), "its organization gives nobody a group"


async def test_a_token_that_is_revoked_is_honoured_for_ten_seconds_more(asked: Asked) -> None:
    assert await asked.kubelet.user(None, "t-auditor") is not None
    asked.reviews.revoked.add("t-auditor")
    asked.now += 9.9
    assert await asked.kubelet.user(None, "t-auditor") is not None
    asked.now += 0.1
    assert await asked.kubelet.user(None, "t-auditor") is None
    assert asked.tokens == ["t-auditor", "t-auditor"], "each look at it does not lengthen it"


async def test_one_that_was_not_known_is_asked_about_again(asked: Asked) -> None:
    asked.reviews.revoked.add("t-ada")
    assert await asked.kubelet.user(None, "t-ada") is None
    asked.reviews.revoked.clear()
    asked.now += 10
    assert await asked.kubelet.user(None, "t-ada") is not None


async def test_tokens_do_not_fill_the_memory(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.app.candidates.kubelet._MOST_KEPT", 3)
    for number in range(6):
        assert await asked.kubelet.user(None, f"made-up-{number}") is None
    assert len(asked.kubelet._users) == 3
    assert not any(b"made-up" in key for key in asked.kubelet._users), "tokens are kept by their hash alone"


async def test_who_cannot_be_asked_about_gets_nothing_and_it_is_no_answer(asked: Asked) -> None:
    asked.reviews.forbidden = True
    with pytest.raises(KubeletRefusal, match="does not say whose token that is; ask again") as refused:
        await asked.kubelet.user(None, "t-ada")
    assert refused.value.code == 503
    auditor = UserInfo(name="auditor", groups=("auditors",))
    with pytest.raises(KubeletRefusal, match="does not say whether you may see that") as unsaid:
        await asked.kubelet.allows(auditor, "get", NODE)
    assert unsaid.value.code == 503
    asked.reviews.forbidden = False
    assert await asked.kubelet.user(None, "t-ada") is not None
    assert await asked.kubelet.allows(auditor, "get", NODE)


async def test_the_right_is_that_to_the_proxy_of_the_node_of_the_pod(asked: Asked) -> None:
    auditor = await asked.kubelet.user(None, "t-auditor")
    ada = await asked.kubelet.user(None, "t-ada")
    assert auditor is not None
    assert ada is not None
    assert await asked.kubelet.allows(auditor, "get", NODE)
    assert not await asked.kubelet.allows(auditor, "create", NODE), "who may read logs may not open a shell"
    assert not await asked.kubelet.allows(auditor, "get", "candidates-west")
    assert not await asked.kubelet.allows(auditor, "get", ""), "of no Node means: of all"
    assert not await asked.kubelet.allows(ada, "get", NODE)


async def test_a_token_that_may_do_less_than_its_user_is_asked_about_as_what_it_is(asked: Asked) -> None:
    scoped = await asked.kubelet.user(None, "t-scoped")
    assert scoped is not None
    assert (scoped.name, scoped.groups) == ("auditor", ("auditors",))
    assert not await asked.kubelet.allows(scoped, "get", NODE)
    (kind, spec) = asked.reviews.asked[-1]
    assert (kind, spec["extra"], spec["uid"]) == ("SubjectAccessReview", SCOPED, "uid of auditor")
    auditor = await asked.kubelet.user(None, "t-auditor")
    assert auditor is not None
    assert await asked.kubelet.allows(auditor, "get", NODE), "what holds for the one says nothing of the other"
