"""ConfigMaps and Secrets that a pod names: with the target that won, kept up to date, and removed with it; and nowhere
else.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from controlplane.controllers.candidates.objects import CANDIDATES, CONFIG_MAPS, SOURCE_LABEL, SOURCE_UID
from controlplane.controllers.candidates.references.decide import ANOTHERS, FOLLOWED_VERSION
from controlplane.controllers.candidates.source.delegate_status import FOLLOWED
from controlplane.kube.kinds import EVENTS, NAMESPACES, SECRETS, Json, Kind, meta
from tests.candidates.e2e.stage import HOME, NS, Stage

Make = Callable[..., Awaitable[Stage]]
PASSWORD = base64.b64encode(b"correct horse battery staple").decode()
NAMES = {
    "volumes": [{"name": "conf", "configMap": {"name": "settings"}}],
    "imagePullSecrets": [{"name": "registry"}],
}


def put(it: Stage, kind: Kind, name: str, data: dict[str, str], where: str = "") -> Json:
    store = it.world.clusters[where].store if where else it.store
    head = {"name": name, "namespace": NS}
    made: Json = store.create(kind, {"apiVersion": "v1", "kind": kind.kind, "metadata": head, "data": data})
    return made


def copies(it: Stage, target: str) -> dict[str, Any]:
    """The data of our copies in a target, by kind and name."""
    store = it.world.clusters[target].store
    return {
        f"{kind.kind}/{record.name}": record.obj["data"]
        for kind in (CONFIG_MAPS, SECRETS)
        for record in store.records(kind, NS)
        if SOURCE_LABEL in (meta(record.obj).get("labels") or {})
    }


def told(it: Stage) -> list[tuple[str, str]]:
    """The Events about pods: reason and note."""
    events = [record.obj for record in it.store.records(EVENTS)]
    return [(event["reason"], event["note"]) for event in events if event["regarding"]["kind"] == "Pod"]


async def test_what_a_pod_names_goes_where_it_goes_changes_with_its_source_and_leaves_with_it(stage: Make) -> None:
    it = await stage("east", "west")
    it.targets["west"].room = 0
    put(it, CONFIG_MAPS, "settings", {"mode": "fast"})
    put(it, SECRETS, "registry", {"password": PASSWORD})
    put(it, SECRETS, "unnamed", {"password": PASSWORD})
    it.submit(**NAMES)
    await it.placed(where="east")
    expected = {"ConfigMap/settings": {"mode": "fast"}, "Secret/registry": {"password": PASSWORD}}
    await it.until(lambda: copies(it, "east") == expected, "both there")
    assert copies(it, "west") == {}
    it.store.patch(CONFIG_MAPS, NS, "settings", {"data": {"mode": "slow"}})
    await it.until(lambda: copies(it, "east")["ConfigMap/settings"] == {"mode": "slow"}, "the change followed")
    it.delete()
    await it.until(lambda: copies(it, "east") == {}, "removed with it")


async def test_data_of_a_secret_is_in_no_log(stage: Make) -> None:
    it = await stage("east")
    put(it, SECRETS, "registry", {"password": PASSWORD})
    it.submit(imagePullSecrets=[{"name": "registry"}])
    await it.until(lambda: copies(it, "east"), "copied")
    with psycopg.connect(it.url, autocommit=True) as connection:
        for table in ("events", "bodies"):
            rows = connection.execute(f"SELECT t::text FROM controlplane.{table} t").fetchall()  # type: ignore[arg-type]
            assert not any(PASSWORD in row for (row,) in rows), table


async def test_a_copy_stays_while_another_pod_there_names_it(stage: Make) -> None:
    it = await stage("east")
    put(it, CONFIG_MAPS, "settings", {"mode": "fast"})
    for name in ("one", "two"):
        it.submit(name, volumes=NAMES["volumes"])
        await it.placed(name)
    await it.until(lambda: copies(it, "east"), "copied")
    it.delete("one")
    await it.until(lambda: len(it.left()) == 2, "one pod left")
    await it.quiet(0.3)
    assert copies(it, "east") == {"ConfigMap/settings": {"mode": "fast"}}
    it.delete("two")
    await it.until(lambda: copies(it, "east") == {}, "removed with the last")


async def test_what_is_not_there_yet_follows_when_it_is_made(stage: Make) -> None:
    it = await stage("east")
    it.submit(volumes=NAMES["volumes"])
    await it.placed()
    await it.until(lambda: it.said("NamedMissing"), "said that it is missing")
    await it.until(lambda: it.condition(kind=FOLLOWED).get("status") == "False", "its pod says so")
    said = "ConfigMap settings: it does not exist in the source"
    assert it.condition(kind=FOLLOWED)["message"] == said
    await it.until(lambda: ("NotFollowed", said) in told(it), "and an Event")
    put(it, CONFIG_MAPS, "settings", {"mode": "late"})
    await it.until(lambda: copies(it, "east") == {"ConfigMap/settings": {"mode": "late"}}, "copied")
    await it.until(lambda: it.condition(kind=FOLLOWED).get("status") == "True", "its pod says that too")
    await it.quiet()
    shown = len(it.said("StatusShown"))
    await it.kill()
    await it.up()
    await it.quiet(0.5)
    assert len(it.said("StatusShown")) == shown  # a new process says nothing that was said


async def test_an_object_of_that_name_that_is_not_ours_is_left_alone(stage: Make) -> None:
    it = await stage("east")
    put(it, CONFIG_MAPS, "settings", {"mode": "ours"})
    put(it, CONFIG_MAPS, "settings", {"mode": "theirs"}, where="east")
    it.submit(volumes=NAMES["volumes"])
    await it.placed()
    await it.until(lambda: it.said("CandidateWriteFailed", error="Foreign"), "said so")
    said = "ConfigMap settings: one of that name is in the target and is not ours: it is left as it is"
    await it.until(lambda: it.condition(kind=FOLLOWED).get("message") == said, "its pod says so")
    assert it.condition()["status"] == "True"
    it.delete()
    await it.until(lambda: it.left() == [], "the pod gone")
    kept = it.world.clusters["east"].store.get(CONFIG_MAPS, NS, "settings")
    assert kept["data"] == {"mode": "theirs"}


async def test_what_another_cluster_with_our_name_copied_is_left_alone(stage: Make) -> None:
    """Its settings are a copy of ours, and its pods are in the same namespace."""
    it = await stage("east")
    east = it.world.clusters["east"].store
    for name in ("settings", "of-their-pods"):
        put(it, CONFIG_MAPS, name, {"mode": "theirs"}, where="east")
        mark = {"labels": {SOURCE_LABEL: HOME}, "annotations": {SOURCE_UID: "another", FOLLOWED_VERSION: "1"}}
        east.patch(CONFIG_MAPS, NS, name, {"metadata": mark})
    put(it, CONFIG_MAPS, "settings", {"mode": "ours"})
    put(it, CONFIG_MAPS, "more", {"mode": "ours"})
    more = {"name": "more", "configMap": {"name": "more"}}
    it.submit(volumes=[*NAMES["volumes"], more])
    await it.placed()
    said = f"ConfigMap settings: {ANOTHERS}"
    await it.until(lambda: it.condition(kind=FOLLOWED).get("message") == said, "its pod says so")
    await it.until(lambda: "ConfigMap/more" in copies(it, "east"), "the other one follows")
    uid = meta(it.store.get(NAMESPACES, "", "kube-system"))["uid"]
    assert meta(east.get(CONFIG_MAPS, NS, "more"))["annotations"][SOURCE_UID] == uid
    it.delete()
    theirs = {"ConfigMap/settings": {"mode": "theirs"}, "ConfigMap/of-their-pods": {"mode": "theirs"}}
    await it.until(lambda: copies(it, "east") == theirs, "what is ours went with the pod, and nothing else")
    await it.quiet(0.3)
    assert copies(it, "east") == theirs


@pytest.mark.deep
async def test_a_new_process_goes_on_following(stage: Make) -> None:
    it = await stage("east")
    put(it, CONFIG_MAPS, "settings", {"mode": "fast"})
    it.submit(volumes=NAMES["volumes"])
    await it.until(lambda: copies(it, "east"), "copied")
    await it.kill()
    it.store.patch(CONFIG_MAPS, NS, "settings", {"data": {"mode": "slow"}})
    await it.up()
    await it.until(lambda: copies(it, "east")["ConfigMap/settings"] == {"mode": "slow"}, "the change followed")
    assert await it.placed() == "east"


async def test_nothing_follows_where_that_is_off(stage: Make) -> None:
    it = await stage("east", follow="no")
    put(it, CONFIG_MAPS, "settings", {"mode": "fast"})
    it.submit(volumes=NAMES["volumes"])
    await it.placed()
    await it.quiet(0.3)
    assert copies(it, "east") == {}
    assert it.world.management.server.counts["list", CONFIG_MAPS.name, ""] == 0


async def test_rights_in_one_namespace_of_a_target_are_enough(stage: Make) -> None:
    it = await stage("east")
    it.world.clusters["east"].faults.storm(
        403, when=lambda asked: asked.resource in (CANDIDATES.name, CONFIG_MAPS.name) and asked.namespace != NS
    )
    put(it, CONFIG_MAPS, "settings", {"mode": "fast"})
    it.submit(volumes=NAMES["volumes"])
    assert await it.placed() == "east"
    await it.until(lambda: copies(it, "east"), "copied")
