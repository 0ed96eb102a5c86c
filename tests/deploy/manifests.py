"""The manifests as kubectl renders them, or, without kubectl, as their kustomizations list them (then without its
transformations).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
KUBECTL = shutil.which("kubectl")
NAMESPACED = ("ServiceAccount", "Role", "RoleBinding", "Deployment", "Service", "PodDisruptionBudget", "Job")
Object = dict[str, Any]
#: The reader in C, where PyYAML was built with it: the one in Python takes ten times as long.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: str) -> list[Object]:
    return [document for document in yaml.load_all(text, LOADER) if document]


def render(folder: str) -> list[Object]:
    """Return the objects of `kubectl apply -k folder`."""
    if KUBECTL:
        done = subprocess.run(
            [KUBECTL, "kustomize", str(ROOT / folder)], capture_output=True, text=True, check=True, cwd="/"
        )
        return documents(done.stdout)
    return listed(ROOT / folder)


def listed(folder: Path) -> list[Object]:
    found = next(folder / name for name in ("kustomization.yaml", "Kustomization") if (folder / name).exists())
    kustomization = yaml.safe_load(found.read_text())
    objects: list[Object] = []
    for entry in kustomization["resources"]:
        path = (folder / entry).resolve()
        objects += listed(path) if path.is_dir() else documents(path.read_text())
    for item in objects:
        if "namespace" in kustomization and item["kind"] in NAMESPACED:
            item["metadata"]["namespace"] = kustomization["namespace"]
    return objects


def one(objects: list[Object], kind: str, name: str = "") -> Object:
    """Return the only object of a kind (and name)."""
    found = [item for item in objects if item["kind"] == kind and name in ("", item["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} objects of kind {kind} {name}"
    return found[0]


def rights(role: Object) -> dict[str, tuple[str, ...]]:
    """Return a role's rights: `group/resource`, with `[name]` if it is for one object, to sorted verbs."""
    found: dict[str, tuple[str, ...]] = {}
    for rule in role["rules"]:
        names = f"[{','.join(rule['resourceNames'])}]" if "resourceNames" in rule else ""
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                key = f"{group or 'core'}/{resource}{names}"
                found[key] = tuple(sorted({*found.get(key, ()), *rule["verbs"]}))
    return found


def spelled(roles: Iterable[Object]) -> set[tuple[str, str]]:
    """Return what some roles allow, as verb and `resource.group/subresource`."""
    found: set[tuple[str, str]] = set()
    for role in roles:
        for resource, verbs in rights(role).items():
            group, _, plural = resource.partition("[")[0].partition("/")
            plural, _, subresource = plural.partition("/")
            full = plural if group == "core" else f"{plural}.{group}"
            found |= {(verb, f"{full}/{subresource}" if subresource else full) for verb in verbs}
    return found
