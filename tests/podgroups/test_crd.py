"""What we write fits Volcano's CRD, where it is at hand (`CONTROLPLANE_TEST_CRDS` names a folder with the CRDs of the
neighbours).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.controllers.podgroups.objects import MIN_MEMBER, POD_GROUPS
from controlplane.kube.kinds import Json
from tests.podgroups.scenes import manifest, pod_manifest, ref
from tests.podgroups.stage import Stage

FILE = Path(os.environ.get("CONTROLPLANE_TEST_CRDS", "/nowhere")) / "scheduling.volcano.sh_podgroups.yaml"
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
}
pytestmark = pytest.mark.skipif(
    not FILE.is_file(), reason="CONTROLPLANE_TEST_CRDS names no folder with the PodGroup CRD"
)


def misfits(value: Any, schema: Json, where: str = "") -> list[str]:
    """Return what of a value a structural schema refuses or would prune."""
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, int) or re.fullmatch(schema["pattern"], value)
        return [] if fits else [f"{where}: {value!r}"]
    if not isinstance(value, TYPES[schema["type"]]):
        return [f"{where}: {value!r} is no {schema['type']}"]
    found = misspelt(value, schema, where) if isinstance(value, str) else []
    if isinstance(value, int) and value < schema.get("minimum", value):
        found.append(f"{where}: {value} is too small")
    if isinstance(value, list):
        found += [text for n, item in enumerate(value) for text in misfits(item, schema["items"], f"{where}[{n}]")]
    if isinstance(value, dict):
        for key, inner in value.items():
            known = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if known is None and "properties" in schema:
                found.append(f"{where}.{key}: unknown")
            elif known is not None:
                found += misfits(inner, known, f"{where}.{key}")
    return found


def misspelt(value: str, schema: Json, where: str) -> list[str]:
    found = []
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{where}: {value!r} does not fit {schema['pattern']}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is none of {schema['enum']}")
    if len(value) > schema.get("maxLength", len(value)):
        found.append(f"{where}: too long")
    return found


@pytest.fixture(scope="module")
def schema() -> Json:
    versions = yaml.safe_load(FILE.read_text())["spec"]["versions"]
    (found,) = [one["schema"]["openAPIV3Schema"] for one in versions if one["name"] == POD_GROUPS.version]
    return found


def test_groups_fit_the_crd(schema: Json) -> None:
    stage = Stage()
    notes = {"scheduling.volcano.sh/queue-name": "team.q-1"}
    owner = ref("StatefulSet", "db")
    stage.put(manifest(owner, notes={MIN_MEMBER: "bad"}))
    stage.put(pod_manifest(owner, cpu="333m", notes=notes, spec={"priorityClassName": "high"}))
    stage.put(pod_manifest(name="alone", notes={"scheduling.volcano.sh/queue-name": "Not A Queue"}))
    stage.settle().later(seconds=5)
    groups = stage.all(POD_GROUPS)
    assert len(groups) == 2
    assert all(group["status"]["phase"] == "Pending" for group in groups)
    assert any(group["status"].get("conditions") for group in groups)
    assert [misfits(group, schema) for group in groups] == [[], []]


def test_the_check_sees_what_it_looks_for(schema: Json) -> None:
    bad: Json = {
        "spec": {"minMember": -1, "queue": "Not A Queue", "minResources": {"cpu": "much"}, "other": 1},
        "status": {"phase": "Done", "conditions": [{"type": 5}]},
    }
    assert len(misfits(bad, schema)) == 6
