"""What the page on coscheduling has applied is what each mode needs."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/coscheduling.md").read_text()
FOLDER = ROOT / "deploy/coscheduling"


def kinds(files: list[str]) -> set[str]:
    return {found["kind"] for name in files for found in yaml.safe_load_all((ROOT / name).read_text()) if found}


def test_the_first_step_has_the_rights_and_no_webhook() -> None:
    step = PAGE[PAGE.index("## Turn it on") : PAGE.index("Two ways")]
    applied = re.findall(r"--filename (\S+)", step)
    assert "apply -k" not in step
    assert kinds(applied) == {"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"}
    every = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert {Path(name).name for name in applied} == {*every} - {"webhook.yaml"}


def test_the_mode_that_needs_the_webhook_says_how_it_is_applied() -> None:
    beside, instead = PAGE[PAGE.index("- **Beside") : PAGE.index("A run keeps")].split("- **Instead")
    assert "The webhook is not needed" in beside
    assert "kubectl apply -k deploy/coscheduling" in instead
    assert "kubectl apply -k deploy/coscheduling" not in beside
