"""Lists: what they hold, which version they are a picture of, selectors, chunks; and the other documents of a
server.
"""

from __future__ import annotations

import pytest

from controlplane.kube.kinds import JOBS, Kind
from controlplane.simulation.kinds.base import CONFIG_MAPS, PODS
from tests.simulation.contract.client import WIDGETS, Api, config_map, job, pod, version, widget

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


async def three(api: Api) -> list[dict]:
    made = []
    for name, labels in (("a", {"tier": "x", "only": "a"}), ("b", {"tier": "x"}), ("c", {"tier": "y"})):
        obj = widget(name)
        obj["metadata"]["labels"] = labels
        made.append((await api.create(WIDGETS, obj)).ok(201))
    return made


async def names(api: Api, kind: Kind = WIDGETS, **query: str) -> list[str]:
    items = (await api.list(kind, **query)).ok()["items"]
    return [item["metadata"]["name"] for item in items]


class TestList:
    async def test_holds_the_objects_in_order_of_their_names(self, api: Api) -> None:
        made = await three(api)
        listed = (await api.list(WIDGETS)).ok()
        assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", WIDGETS.api_version)
        assert listed["items"] == made
        assert int(version(listed)) >= int(version(made[-1]))

    async def test_items_of_builtin_kinds_carry_no_type(self, api: Api) -> None:
        made = (await api.create(CONFIG_MAPS, config_map("a", k="v"))).ok(201)
        listed = (await api.list(CONFIG_MAPS, fieldSelector="metadata.name=a")).ok()
        del made["apiVersion"], made["kind"]
        assert listed["items"] == [made]

    async def test_of_nothing(self, api: Api) -> None:
        listed = (await api.list(WIDGETS)).ok()
        assert listed["items"] == []
        assert int(version(listed)) > 0

    async def test_spans_namespaces(self, api: Api) -> None:
        await three(api)
        other = await api.new_namespace()
        (await api.create(WIDGETS, widget("z"), namespace=other)).ok(201)
        found = (await api.call("GET", WIDGETS.path())).ok()["items"]
        places = [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in found]
        assert {(api.namespace, "a"), (other, "z")} <= set(places)

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("tier=x", "ab"),
            ("tier==y", "c"),
            ("tier!=x", "c"),
            ("only", "a"),
            ("!only", "bc"),
            ("tier in (x,y),only=a", "a"),
            ("tier notin (x)", "c"),
            ("tier in (z)", ""),
            ("none!=x,tier", "abc"),
        ],
    )
    async def test_label_selectors(self, api: Api, selector: str, expected: str) -> None:
        await three(api)
        assert await names(api, labelSelector=selector) == list(expected)

    async def test_a_selector_that_does_not_parse(self, api: Api) -> None:
        (await api.list(WIDGETS, labelSelector="a in (")).refused(400, "BadRequest")

    async def test_field_selectors(self, api: Api) -> None:
        await three(api)
        assert await names(api, fieldSelector="metadata.name=b") == ["b"]
        assert await names(api, fieldSelector=f"metadata.namespace={api.namespace},metadata.name!=b") == ["a", "c"]
        answer = await api.list(WIDGETS, fieldSelector="spec.x=1")
        answer.refused(400, "BadRequest", "field label not supported: spec.x")

    async def test_pods_are_selected_by_their_scheduler(self, api: Api) -> None:
        for name, scheduler in (("a", "other"), ("b", "mine"), ("c", "mine")):
            (await api.create(PODS, pod(name, scheduler))).ok(201)
        assert await names(api, PODS, fieldSelector="spec.schedulerName=mine") == ["b", "c"]
        assert await names(api, PODS, fieldSelector="spec.schedulerName=mine,metadata.name!=b") == ["c"]
        assert await names(api, PODS, fieldSelector="spec.schedulerName=nobody") == []
        (await api.list(PODS, fieldSelector="spec.priority=1")).refused(400, "BadRequest", "field label not supported")

    async def test_chunks_are_of_one_moment(self, api: Api) -> None:
        await three(api)
        first = (await api.list(WIDGETS, limit="2")).ok()
        assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
        assert first["metadata"]["remainingItemCount"] == 1
        (await api.create(WIDGETS, widget("bb"))).ok(201)
        (await api.delete(WIDGETS, "c")).ok()
        rest = (await api.list(WIDGETS, limit="2", **{"continue": first["metadata"]["continue"]})).ok()
        assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
        assert version(rest) == version(first)
        assert not rest["metadata"].get("continue")

    async def test_an_exact_version_shows_the_past(self, api: Api) -> None:
        await three(api)
        then = version((await api.list(WIDGETS)).ok())
        (await api.delete(WIDGETS, "b")).ok()
        (await api.patch(WIDGETS, "a", {"spec": {"x": 1}})).ok()
        past = (await api.list(WIDGETS, resourceVersion=then, resourceVersionMatch="Exact")).ok()
        assert [(i["metadata"]["name"], i.get("spec")) for i in past["items"]] == [("a", {}), ("b", {}), ("c", {})]
        assert version(past) == then

    async def test_not_older_than(self, api: Api) -> None:
        made = await three(api)
        query = {"resourceVersion": version(made[-1]), "resourceVersionMatch": "NotOlderThan"}
        assert await names(api, **query) == ["a", "b", "c"]
        assert set(await names(api, resourceVersion="0")) <= {"a", "b", "c"}

    async def test_options_that_make_no_sense(self, api: Api) -> None:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        (await api.list(WIDGETS, resourceVersionMatch="Exact")).refused(422, "Invalid", text)
        (await api.list(WIDGETS, resourceVersion="1", resourceVersionMatch="Nearly")).refused(422, "Invalid")
        assert (await api.list(WIDGETS, resourceVersion="abc")).status in (400, 422, 500)

    async def test_a_version_of_the_future(self, api: Api) -> None:
        future = str(int(version((await api.list(WIDGETS)).ok())) + 100_000)
        answer = await api.list(WIDGETS, resourceVersion=future, resourceVersionMatch="NotOlderThan")
        answer.refused(504, "Timeout", "Too large resource version")


class TestForms:
    async def test_a_table(self, api: Api) -> None:
        made = (await api.create(JOBS, job("a"))).ok(201)
        table = (await api.call("GET", JOBS.path(api.namespace), accept=f"{TABLE},application/json")).ok()
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        titles = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
        assert titles == ["Name", "Status", "Completions", "Duration", "Age"]
        (row,) = table["rows"]
        assert row["cells"][:4] == ["a", "Running", "0/1", ""]
        assert row["object"]["kind"] == "PartialObjectMetadata"
        assert row["object"]["metadata"] == made["metadata"]

    async def test_metadata_alone(self, api: Api) -> None:
        (made, *_) = await three(api)
        listed = (
            await api.call("GET", WIDGETS.path(api.namespace), accept=METADATA, fieldSelector="metadata.name=a")
        ).ok()
        assert listed["kind"] == "PartialObjectMetadataList"
        assert listed["items"][0]["metadata"] == made["metadata"]
        assert "spec" not in listed["items"][0]


class TestServer:
    async def test_a_token_is_needed(self, api: Api) -> None:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            async with api.session.get(api.url + WIDGETS.path(api.namespace), headers=headers) as response:
                body = await response.json()
            # The real server lets nobody in as anonymous, and then forbids it what it asks.
            assert response.status == 401 or (not api.simulated and not headers and response.status == 403)
            assert body["kind"] == "Status"

    @pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
    async def test_health(self, api: Api, path: str) -> None:
        answer = await api.call("GET", path)
        assert (answer.status, answer.body) == (200, "ok")

    async def test_version(self, api: Api) -> None:
        assert (await api.call("GET", "/version")).ok()["major"] == "1"

    async def test_discovery(self, api: Api) -> None:
        assert (await api.call("GET", "/api")).ok()["versions"] == ["v1"]
        groups = {group["name"]: group for group in (await api.call("GET", "/apis")).ok()["groups"]}
        assert groups[WIDGETS.group]["preferredVersion"] == {"groupVersion": WIDGETS.api_version, "version": "v1"}
        resources = (await api.call("GET", f"/apis/{WIDGETS.api_version}")).ok()["resources"]
        found = {resource["name"]: resource for resource in resources}
        assert set(found) == {"widgets", "widgets/status", "machines"}
        assert (found["widgets"]["kind"], found["widgets"]["namespaced"]) == ("Widget", True)
        assert (found["widgets/status"]["kind"], found["machines"]["namespaced"]) == ("Widget", False)
        assert sorted(found["widgets"]["verbs"]) == [
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
        ]  # fmt: skip
        assert (await api.call("GET", "/apis/none.example.com/v1")).status == 404
