"""The pages hang together: links lead somewhere, decisions have their form, and every page can be reached."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.snippets import LINK, PAGES, ROOT, anchors, blocks, prose
from tests.support.rows import each

LANGUAGES = {"", "console", "mermaid", "python", "sql", "text", "yaml"}
DECISIONS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))


def targets(page: Path) -> list[tuple[Path, str]]:
    """Return where a page's links inside the tree lead: a path and an anchor."""
    found = []
    for match in LINK.finditer(prose(page)):
        path, _, anchor = match["target"].partition("#")
        if "://" not in match["target"] and not match["target"].startswith("mailto:"):
            found.append(((page.parent / path).resolve() if path else page, anchor))
    return found


@each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in targets(page):
        assert path.exists(), f"{path} is not there"
        assert not anchor or anchor in anchors(path), f"{path.name} has no heading #{anchor}"


@each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_say_their_language(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        ahead += [path / "README.md" if path.is_dir() else path for path, _ in targets(page)]
    assert set(PAGES) <= reached


def test_decisions_are_numbered_without_holes_and_listed() -> None:
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    listed = {path for path, _ in targets(ROOT / "docs/decisions/README.md")}
    assert set(DECISIONS) <= listed


@each("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_form(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {page.name[:4]} ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    status = re.search(r"^Status: ((accepted, in part )?superseded by \[\d{4}\]\(.+\)|accepted)$", text, re.MULTILINE)
    assert status is not None
