"""The lanes of a timeline, and their picture: which bars there are, and that any text makes well-formed XML."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.audit.lanes import WORDS, Bar, Lane, Lanes, clipped, lanes_of, workload_lanes
from controlplane.audit.svg import _COLOURS, MOST, picture
from controlplane.audit.timeline import TimelineEntry
from controlplane.controllers.connectivity.events import MANAGEMENT
from tests.audit import stories
from tests.audit.script import START, Life, Script
from tests.support.rows import each

SECOND = timedelta(seconds=1)
SVG = "{http://www.w3.org/2000/svg}"


def words(life: Life) -> dict[str, list[str]]:
    """Of each lane the words that its bars show, in order."""
    return {lane.name: [bar.word for bar in lane.bars] for lane in workload_lanes(life.script.recorded, life.stream)}


def test_the_way_to_the_end() -> None:
    """b and a admitted it in one step, b was first, and finished it; nothing is left of the copies."""
    found = words(stories.happy(Script("a", "b", "c")))
    assert found == {
        MANAGEMENT: ["pending", "reserved", "admitted", "finished"],
        "a": ["offered", "copied", "admitted"],
        "b": ["offered", "copied", "admitted", "chosen", "running", "finished"],
        "c": ["offered", "copied"],
    }


def test_a_cluster_that_was_lost_and_came_back() -> None:
    found = words(stories.short_lost(Script("a", "b", "c"), still_runs=True))
    assert found["c"][-5:] == ["running", "lost", "back", "running", "admitted"]
    assert found["b"][-1] == "finished"
    away = words(stories.lost(Script("a", "b", "c")))
    assert away["c"][-1] == "lost"


def test_a_second_attempt_is_on_the_same_lanes() -> None:
    found = words(stories.retried(Script("a", "b", "c")))
    assert found["a"].count("offered") == found["b"].count("offered") == 2
    assert found["b"][-1] == "running"


def test_a_step_of_its_own_for_each_condition() -> None:
    life = Script("a").workload("w-0a1b2").offered("a").clone("a", {"QuotaReserved": True})
    assert words(life)["a"] == ["offered", "copied", "reserved"]
    life.clone("a", {"Admitted": True}).decide()
    assert words(life)["a"] == ["offered", "copied", "reserved", "admitted", "chosen"]


@pytest.mark.parametrize("story", [stories.happy, stories.retried, stories.lost, stories.short_lost, stories.rejected])
def test_bars_follow_one_another_and_name_their_events(story: object) -> None:
    life = story(Script("a", "b", "c"))  # type: ignore[operator]
    by_position = {recorded.position: recorded for recorded in life.script.recorded}
    lanes = workload_lanes(life.script.recorded, life.stream)
    assert lanes[0].name == MANAGEMENT
    for lane in lanes:
        assert {bar.word for bar in lane.bars} <= set(WORDS)
        assert all(bar.text for bar in lane.bars)
        assert [by_position[bar.position].recorded_at for bar in lane.bars] == [bar.since for bar in lane.bars]
        for one, after in zip(lane.bars, lane.bars[1:], strict=False):
            assert one.until is not None
            assert one.until <= after.since
            assert one.word != after.word or one.until < after.since


def bar(word: str, since: int, until: int | None, text: str = "why") -> Bar:
    return Bar(
        word=word,
        since=START + since * SECOND,
        until=None if until is None else START + until * SECOND,
        text=text,
        position=7,
    )


def test_a_lane_shows_one_word_at_a_time() -> None:
    lanes = Lanes("z")
    for at, word in enumerate(["offered", "offered", "copied", "", "", "copied"]):
        lanes.show("a", word, START + at * SECOND, "why", 7)
    (made,) = lanes.made()
    assert made.bars == [bar("offered", 0, 2), bar("copied", 2, 3), bar("copied", 5, None)]


@each(
    ("since", "until", "left"),
    [
        (None, None, [("offered", 0, 10), ("running", 10, None)]),
        (5, None, [("offered", 5, 10), ("running", 10, None)]),
        (10, None, [("running", 10, None)]),
        (None, 10, [("offered", 0, 10)]),
        (3, 20, [("offered", 3, 10), ("running", 10, 20)]),
        (None, 0, []),
    ],
)
def test_what_is_between_two_times(
    since: int | None, until: int | None, left: list[tuple[str, int, int | None]]
) -> None:
    lane = Lane(name="a", bars=[bar("offered", 0, 10), bar("running", 10, None)])
    times = [None if at is None else START + at * SECOND for at in (since, until)]
    found = clipped([lane], *times)
    assert [one.bars for one in found] == ([[bar(*one) for one in left]] if left else [])


def test_moments_of_other_layers() -> None:
    types = ["PendingPodObserved", "NodeReserved", "ReservationDropped", "Odd", "PendingPodGone"]
    entries = [
        TimelineEntry(position=7, at=START + n * SECOND, cluster="", what=kind, why="", reason="", type=kind)
        for n, kind in enumerate(types)
    ]
    (lane,) = lanes_of(("here", entry) for entry in entries)
    assert [(one.word, one.until) for one in lane.bars] == [
        ("pending", START + SECOND),
        ("reserved", START + 2 * SECOND),
        ("other", START + 4 * SECOND),
    ]


# --- the picture ------------------------------------------------------------------------------------------------------


def test_every_word_has_its_colours_light_and_dark() -> None:
    assert set(_COLOURS) == set(WORDS)
    text = picture("t", [Lane(name="a", bars=[bar("running", 0, 5)])], START)
    light, dark = text.split("@media (prefers-color-scheme:dark)")
    assert all(f".{word}{{fill:" in light and f".{word}{{fill:" in dark for word in WORDS)


def test_each_bar_says_why_and_where_that_stands() -> None:
    drawn = [Lane(name="a", bars=[bar("offered", 0, 90, "it <was> & is"), bar("running", 90, None)])]
    root = ET.fromstring(picture("w", drawn, START + 180 * SECOND))
    titles = [one.find(f"{SVG}title") for one in root.iter(f"{SVG}rect")]
    told = [title.text for title in titles if title is not None]
    assert told == [
        "a: offered from 2026-01-01 00:00:00 UTC, until 2026-01-01 00:01:30 (1m30s)\nit <was> & is\nposition 7",
        "a: running from 2026-01-01 00:01:30 UTC, still (1m30s)\nwhy\nposition 7",
    ]
    bars = [one for one in root.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None]
    assert [float(one.attrib["width"]) for one in bars] == [450.0, 450.0]


def test_what_has_finished_does_not_stretch_the_picture() -> None:
    drawn = [Lane(name="a", bars=[bar("running", 0, 100), bar("finished", 100, None)])]
    root = ET.fromstring(picture("w", drawn, START + timedelta(days=300)))
    running = next(one for one in root.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None)
    assert float(running.attrib["width"]) > 800


def labels(root: ET.Element, kind: str | None = None) -> list[ET.Element]:
    return [one for one in root.iter(f"{SVG}text") if one.get("class") == kind]


@pytest.mark.parametrize("name", ["a", "default/job-no-managedby-e942b", "default/job-" + "a1-" * 40 + "e942b"])
def test_a_name_ends_before_the_bars_and_keeps_its_end(name: str) -> None:
    root = ET.fromstring(picture("w", [Lane(name=name, bars=[bar("running", 0, None)])], START + 90 * SECOND))
    said = next(one for one in labels(root) if one.get("y") == "79.0")
    text = said.text or ""
    begin = min(float(one.attrib["x"]) for one in root.iter(f"{SVG}rect") if one.get("height") == "20")
    assert float(said.attrib["x"]) + 7.2 * len(text) <= begin
    assert text == name if len(name) <= 44 else (text.startswith("default/job-a1") and text.endswith("-a1-e942b"))
    assert name in "".join(root.itertext())  # whole, where it is pointed at


def test_a_long_title_ends_within_the_picture() -> None:
    title = f"workload/{'n' * 63}/job-{'x' * 59}-abcde"
    root = ET.fromstring(picture(title, [Lane(name="a", bars=[bar("running", 0, None)])], START))
    (head,) = labels(root, "head")
    assert 12 + 10 * len(head.text or "") <= float(root.attrib["width"])
    assert (head.text or "").endswith("-abcde")


@each(
    ("began", "lasts", "said"),
    [
        (timedelta(0), 1, ["2026-01-01, UTC", *(f"00:00:00.{n}" for n in (0, 2, 4, 6, 8)), "00:00:01.0"]),
        (timedelta(seconds=7), 50, ["2026-01-01, UTC", *(f"00:00:{n}" for n in (10, 20, 30, 40, 50))]),
        (timedelta(minutes=7), 3600, ["2026-01-01, UTC", *(f"00:{n}" for n in (10, 20, 30, 40, 50)), "01:00"]),
        (timedelta(hours=23), 7200, ["2026, UTC", "01-01 23:00", "01-01 23:30", *(f"01-02 {n}" for n in ("00:00", "00:30", "01:00"))]),
        (timedelta(hours=5), 4 * 86400, ["2026, UTC", *(f"01-0{n}" for n in (2, 3, 4, 5))]),
        (timedelta(days=364), 86400, ["UTC", "2026-12-31 00:00", *(f"2026-12-31 {n}:00" for n in ("06", 12, 18)),
                                      "2027-01-01 00:00"]),
        (timedelta(0), 700 * 86400, ["UTC", "2026-01-01", "2026-06-30", "2026-12-27", "2027-06-25"]),
    ],
)  # fmt: skip
def test_the_axis_has_round_times_and_says_that_they_are_utc(began: timedelta, lasts: int, said: list[str]) -> None:
    first = int(began.total_seconds())
    drawn = [Lane(name="a", bars=[bar("running", first, None)])]
    root = ET.fromstring(picture("w", drawn, START + began + lasts * SECOND))
    assert [one.text for one in labels(root, "soft")] == said
    places = [float(one.attrib["x"]) for one in labels(root, "soft")][1:]
    width = 7.2 * max(len(text) for text in said[1:])
    assert all(after - one >= width for one, after in itertools.pairwise(places))
    assert places[-1] + width / 2 <= float(root.attrib["width"])


def test_dark_letters_are_not_left_on_a_light_ground() -> None:
    """A reader that honours the colours of dark, and no background of the whole, draws the ground all the same."""
    text = picture("w", [Lane(name="a", bars=[bar("running", 0, None)])], START)
    first = next(iter(ET.fromstring(text).iter(f"{SVG}rect")))
    assert first.get("class") == "paper"
    assert all(".paper{fill:" in half for half in text.split("@media (prefers-color-scheme:dark)"))


def test_many_lanes_are_cut_and_it_says_so() -> None:
    text = picture("w", [Lane(name=f"n{n}", bars=[bar("running", n, None)]) for n in range(MOST + 3)], START)
    assert "and 3 more, which began later" in text
    assert text.count("<g>") == MOST


texts = st.text(st.characters(exclude_categories=()), max_size=30)
bars = st.builds(
    Bar,
    word=st.sampled_from(WORDS),
    since=st.integers(0, 1000).map(lambda n: START + n * SECOND),
    until=st.none() | st.integers(1000, 2000).map(lambda n: START + n * SECOND),
    text=texts,
    position=st.integers(1, 2**63 - 1),
)


@given(title=texts, lanes=st.lists(st.builds(Lane, name=texts, bars=st.lists(bars, max_size=3)), max_size=4))
def test_any_text_makes_well_formed_xml_without_scripts(title: str, lanes: list[Lane]) -> None:
    text = picture(title, lanes, START + 1500 * SECOND)
    root = ET.fromstring(text.encode())
    assert {one.tag for one in root.iter()} <= {
        f"{SVG}{name}" for name in ("svg", "title", "style", "text", "rect", "line", "g")
    }
    attributes = {name for one in root.iter() for name in one.attrib}
    assert not [name for name in attributes if name.startswith("on") or "href" in name]
    drawn = sum(len(lane.bars) for lane in lanes)
    titles = [one.find(f"{SVG}title") for one in root.iter(f"{SVG}rect")]
    assert len([one for one in titles if one is not None]) == drawn
    assert all(float(one.attrib["width"]) > 0 for one in root.iter(f"{SVG}rect"))
    shown = root.find(f"{SVG}title")
    assert shown is not None
    assert re.sub(r"\s", " ", shown.text or "") == re.sub(r"\s", " ", legal(title))


def legal(text: str) -> str:
    """A text as XML can hold it, and as a parser gives it back."""
    found = "".join(
        c if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff" else "\ufffd"
        for c in text
    )
    return found.replace("\r\n", "\n").replace("\r", "\n")
