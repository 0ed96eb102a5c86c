"""What the demo looks like on a terminal and in a pipe."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from controlplane.local.display import Lines, picture, screen
from controlplane.local.progress import JobProgress, Word

WORKERS = ["worker-1", "worker-2", "worker-3"]


def row(number: int, word: Word, cluster: str = "") -> JobProgress:
    return JobProgress("default", f"train-{number:02}", f"job-train-{number:02}", word, cluster)


def test_the_picture_fits_a_terminal() -> None:
    words: list[Word] = ["queued", "offered", "admitted", "running", "finished", "failed"]
    jobs = [row(number, words[number % 6], "worker-1") for number in range(20)]
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(picture(jobs, {"train-03": "worker-1"}, "runs (process 4711)", WORKERS))
    lines = captured.get().splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80
    shown = "\n".join(lines)
    assert all(job.job in shown for job in jobs)
    assert re.search(r"^worker-1 +train-03 *$", shown, re.MULTILINE)
    assert "runs (process 4711)" in shown


def test_lines_tell_each_step_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    for word in ("queued", "offered"):
        lines.show([row(0, word)], {}, "runs")
    for word in ("admitted", "admitted", "running", "running", "finished"):
        lines.show([row(0, word, "worker-2")], {}, "runs")
    told = [line.split("s  ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert told == [f"train-00 is {word} on worker-2" for word in ("admitted", "running", "finished")]


def test_a_pipe_gets_lines() -> None:
    with screen(WORKERS, on_terminal=False) as found:
        assert isinstance(found, Lines)
