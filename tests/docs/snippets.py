"""The fenced blocks, links and headings of the documentation, found the way a reader finds them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
ASSIGNMENT = re.compile(r"[A-Z_]+=.*")
ENDS_A_COMMAND = {"|", ">", ">>", "<", "&&", ";", "&"}


@dataclass(frozen=True)
class Snippet:
    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets(language: str) -> list[Snippet]:
    """Return the blocks of a language on all pages."""
    return [found for page in PAGES for found in blocks(page) if found.language == language]


def blocks(page: Path) -> Iterator[Snippet]:
    text = page.read_text()
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Snippet(
            page, line, match["language"], re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        )


def prose(page: Path) -> str:
    """Return a page without its blocks and its inline code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))


def commands(snippet: Snippet) -> Iterator[list[str]]:
    """Yield what is typed at the prompt: the words of each command up to a pipe or redirection, without leading
    assignments.
    """
    for line in snippet.text.replace("\\\n", " ").splitlines():
        if not line.startswith("$ "):
            continue
        words = shlex.split(line.removeprefix("$ "), comments=True)
        while words and ASSIGNMENT.fullmatch(words[0]):
            words.pop(0)
        end = next((number for number, word in enumerate(words) if word in ENDS_A_COMMAND), len(words))
        yield words[:end]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
