"""Appends as hypothesis draws them: to a few streams, with and without an identity, expecting a version or none."""

from __future__ import annotations

from hypothesis import strategies as st

from controlplane.log.event import Append, NewEvent
from tests.log.words import saw

STREAMS, SOURCES = ("a", "b", "c"), ("", "x", "y")


@st.composite
def new_events(draw: st.DrawFn) -> NewEvent:
    return saw(
        draw(st.sampled_from(STREAMS)),
        draw(st.integers(0, 9)),
        source=draw(st.sampled_from(SOURCES)),
        mark=draw(st.integers(0, 6)),
    )


@st.composite
def requests(draw: st.DrawFn) -> Append:
    expected = draw(st.none() | st.dictionaries(st.sampled_from(STREAMS), st.integers(0, 5), min_size=1, max_size=2))
    return Append(draw(st.lists(new_events(), min_size=1, max_size=4)), expected)
