"""Watches: where they begin, what they show, how they resume, and how they end."""

from __future__ import annotations

from controlplane.kube.kinds import JOBS
from controlplane.simulation.kinds.base import CONFIG_MAPS, PODS
from tests.simulation.contract.client import WIDGETS, Api, config_map, job, pod, version, widget

INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


async def now(api: Api) -> str:
    return version((await api.list(WIDGETS)).ok())


async def labelled(api: Api, name: str, **labels: str) -> dict:
    obj = widget(name)
    obj["metadata"]["labels"] = labels
    return (await api.create(WIDGETS, obj)).ok(201)


class TestBeginning:
    async def test_from_a_version_come_the_changes_after_it(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("before"))).ok(201)
        async with api.watch(WIDGETS, resourceVersion=await now(api)) as watch:
            made = (await api.create(WIDGETS, widget("a"))).ok(201)
            changed = (await api.patch(WIDGETS, "a", {"spec": {"x": 1}})).ok()
            (await api.delete(WIDGETS, "a")).ok()
            assert await watch.next() == ("ADDED", made)
            assert await watch.next() == ("MODIFIED", changed)
            type_, gone = await watch.next()
        assert type_ == "DELETED"
        assert gone["spec"] == {"x": 1}
        assert int(version(gone)) > int(version(changed))

    async def test_from_nowhere_comes_the_state_first(self, api: Api) -> None:
        for name in ("a", "b"):
            (await api.create(WIDGETS, widget(name))).ok(201)
        for query in ({}, {"resourceVersion": "0"}):
            async with api.watch(WIDGETS, **query) as watch:
                seen = {await watch.named(), await watch.named()}
                assert seen == {("ADDED", "a"), ("ADDED", "b")}
                (await api.create(WIDGETS, widget("c"))).ok(201)
                assert await watch.named() == ("ADDED", "c")
            (await api.delete(WIDGETS, "c")).ok()

    async def test_a_watch_resumes_where_another_ended(self, api: Api) -> None:
        start = await now(api)
        async with api.watch(WIDGETS, resourceVersion=start) as watch:
            (await api.create(WIDGETS, widget("a"))).ok(201)
            _, seen = await watch.next()
        (await api.create(WIDGETS, widget("b"))).ok(201)
        (await api.delete(WIDGETS, "a")).ok()
        async with api.watch(WIDGETS, resourceVersion=version(seen)) as watch:
            assert [await watch.named(), await watch.named()] == [("ADDED", "b"), ("DELETED", "a")]

    async def test_initial_events_end_with_a_bookmark(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        async with api.watch(WIDGETS, **INITIAL) as watch:
            assert await watch.named() == ("ADDED", "a")
            type_, obj = await watch.next()
            assert (type_, obj["kind"], obj["apiVersion"]) == ("BOOKMARK", "Widget", WIDGETS.api_version)
            assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert int(version(obj)) > 0
            (await api.create(WIDGETS, widget("b"))).ok(201)
            while (event := await watch.next())[0] == "BOOKMARK":
                pass
            assert (event[0], event[1]["metadata"]["name"]) == ("ADDED", "b")

    async def test_initial_events_need_their_match(self, api: Api) -> None:
        answer = await api.list(WIDGETS, watch="true", sendInitialEvents="true")
        answer.refused(422, "Invalid", "resourceVersionMatch", "sendInitialEvents")
        answer = await api.list(WIDGETS, watch="true", resourceVersion="1", resourceVersionMatch="NotOlderThan")
        answer.refused(
            422, "Invalid", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )

    async def test_go_spells_true_in_many_ways(self, api: Api) -> None:
        async with api.session.get(
            api.url + WIDGETS.path(api.namespace),
            params={"watch": "True", "timeoutSeconds": "1"},
            headers=api.headers(),
        ) as response:
            assert await response.read() == b""


class TestContent:
    async def test_no_line_without_a_change(self, api: Api) -> None:
        (await labelled(api, "a", x="y"))
        async with api.watch(WIDGETS, resourceVersion=await now(api)) as watch:
            (await api.patch(WIDGETS, "a", {"metadata": {"labels": {"x": "y"}}})).ok()
            (await api.create(WIDGETS, widget("b"))).ok(201)
            assert await watch.named() == ("ADDED", "b")

    async def test_a_watch_of_a_namespace_shows_only_that(self, api: Api) -> None:
        other = await api.new_namespace()
        async with api.watch(WIDGETS, resourceVersion=await now(api)) as watch:
            (await api.create(WIDGETS, widget("there"), namespace=other)).ok(201)
            (await api.create(WIDGETS, widget("here"))).ok(201)
            assert await watch.named() == ("ADDED", "here")

    async def test_builtin_objects_carry_their_type(self, api: Api) -> None:
        start = version((await api.list(CONFIG_MAPS)).ok())
        async with api.watch(CONFIG_MAPS, resourceVersion=start, fieldSelector="metadata.name=a") as watch:
            made = (await api.create(CONFIG_MAPS, config_map("a"))).ok(201)
            assert await watch.next() == ("ADDED", made)

    async def test_entering_and_leaving_a_selection(self, api: Api) -> None:
        await labelled(api, "a", chosen="no")
        start = await now(api)
        async with api.watch(WIDGETS, resourceVersion=start, labelSelector="chosen=yes") as watch:
            (await labelled(api, "other"))
            entered = (await api.patch(WIDGETS, "a", {"metadata": {"labels": {"chosen": "yes"}}})).ok()
            assert await watch.next() == ("ADDED", entered)
            stayed = (await api.patch(WIDGETS, "a", {"spec": {"x": 1}})).ok()
            assert await watch.next() == ("MODIFIED", stayed)
            left = (await api.patch(WIDGETS, "a", {"metadata": {"labels": {"chosen": "no"}}})).ok()
            type_, shown = await watch.next()
            assert type_ == "DELETED"
            assert shown["metadata"]["labels"] == {"chosen": "yes"}
            assert version(shown) == version(left)
            (await api.delete(WIDGETS, "a")).ok()
            await labelled(api, "b", chosen="yes")
            assert await watch.named() == ("ADDED", "b")

    async def test_a_watch_of_one_schedulers_pods_shows_no_others(self, api: Api) -> None:
        start = version((await api.list(PODS)).ok())
        selected = {"resourceVersion": start, "fieldSelector": "spec.schedulerName=mine"}
        async with api.watch(PODS, **selected) as watch:
            (await api.create(PODS, pod("a", "other"))).ok(201)
            made = (await api.create(PODS, pod("b", "mine"))).ok(201)
            assert await watch.next() == ("ADDED", made)
            changed = (await api.patch(PODS, "b", {"metadata": {"labels": {"x": "y"}}})).ok()
            assert await watch.next() == ("MODIFIED", changed)
            (await api.delete(PODS, "a")).ok()
            (await api.delete(PODS, "b")).ok()
            # A real server gives the pod its grace period first, since a kubelet could have begun with it.
            type_, shown = await watch.next()
            while type_ == "MODIFIED":
                type_, shown = await watch.next()
            assert (type_, shown["metadata"]["name"]) == ("DELETED", "b")

    async def test_a_selection_also_cuts_the_beginning(self, api: Api) -> None:
        await labelled(api, "a", chosen="yes")
        await labelled(api, "b")
        async with api.watch(WIDGETS, labelSelector="chosen") as watch:
            assert await watch.named() == ("ADDED", "a")
            await labelled(api, "c", chosen="yes")
            assert await watch.named() == ("ADDED", "c")

    async def test_finalizers_make_two_steps_of_a_deletion(self, api: Api) -> None:
        obj = widget("a")
        obj["metadata"]["finalizers"] = ["example.com/hold"]
        (await api.create(WIDGETS, obj)).ok(201)
        async with api.watch(WIDGETS, resourceVersion=await now(api)) as watch:
            marked = (await api.delete(WIDGETS, "a")).ok()
            assert await watch.next() == ("MODIFIED", marked)
            (await api.patch(WIDGETS, "a", {"metadata": {"finalizers": []}})).ok()
            type_, gone = await watch.next()
        assert type_ == "DELETED"
        assert gone["metadata"]["finalizers"] == ["example.com/hold"]
        assert gone["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]

    async def test_a_job_in_a_table(self, api: Api) -> None:
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        (await api.create(JOBS, job("a"))).ok(201)
        async with api.session.get(
            api.url + JOBS.path(api.namespace), params={"watch": "1"}, headers=api.headers(**accept)
        ) as response:
            from tests.simulation.contract.client import Lines

            type_, table = await Lines(response).next()
        assert (type_, table["kind"]) == ("ADDED", "Table")
        assert table["rows"][0]["cells"][0] == "a"
        assert table["columnDefinitions"][0]["name"] == "Name"


class TestEnding:
    async def test_a_timeout_ends_it_without_a_word(self, api: Api) -> None:
        async with api.watch(WIDGETS, resourceVersion=await now(api), timeoutSeconds="1") as watch:
            assert await watch.ended()

    async def test_bookmarks_carry_the_version_on(self, api: Api) -> None:
        """The real server sends one shortly before the timeout ends the watch, if the kind has changed elsewhere."""
        start, other = await now(api), await api.new_namespace()
        query = {"resourceVersion": start, "allowWatchBookmarks": "true", "timeoutSeconds": "4"}
        async with api.watch(WIDGETS, **query) as watch:
            made = (await api.create(WIDGETS, widget("elsewhere"), namespace=other)).ok(201)
            type_, obj = await watch.next()
            while int(version(obj)) < int(version(made)):
                type_, obj = await watch.next()
        assert type_ == "BOOKMARK"
        assert set(obj) <= {"kind", "apiVersion", "metadata", "spec"}
        assert "annotations" not in obj["metadata"]
        async with api.watch(WIDGETS, resourceVersion=version(obj)) as watch:
            (await api.create(WIDGETS, widget("a"))).ok(201)
            assert await watch.named() == ("ADDED", "a")

    async def test_a_version_that_is_forgotten_is_an_error_line(self, api: Api) -> None:
        (await api.create(WIDGETS, widget("a"))).ok(201)
        api.forget()
        async with api.watch(WIDGETS, resourceVersion="1") as watch:
            type_, status = await watch.next()
            assert await watch.ended()
        assert type_ == "ERROR"
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert "too old resource version: 1 " in status["message"]
