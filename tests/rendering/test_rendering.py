"""What every room writes alike: an Event's note is cut, and a merge patch is the difference (RFC 7386)."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube.kinds import WORKLOADS, Json, ObjectRef
from controlplane.kube.requests import event_about, merge_diff
from tests.multikueue.scene import NS, START, WL


def test_a_long_note_is_cut_as_kueue_cuts_it() -> None:
    ref = ObjectRef(WORKLOADS, NS, WL)
    note = event_about(ref, "u", "Normal", "R", "x" * 5000, "1", "me", START).body["note"]
    assert len(note) == 1024
    assert note.endswith("x ...")
    for text in ("ü" * 600, "日" * 400, "x" + "日" * 400, "🎉" * 300):  # the API server counts bytes
        note = event_about(ref, "u", "Normal", "R", text, "1", "me", START).body["note"]
        assert 1017 <= len(note.encode()) <= 1024
        assert note.endswith(" ...")
        assert text.startswith(note.removesuffix(" ..."))
    assert event_about(ref, "u", "Normal", "R", "ü" * 512, "1", "me", START).body["note"] == "ü" * 512


# --- merge patches ---------------------------------------------------------------------------------------------------

# A field has one type in all versions of an object, as API schemas have it: numbers here, texts there. Null is not a
# value.
KEYS = st.sampled_from(["n1", "n2", "t1", "t2", "l1", "o1", "o2"])


def values(depth: int = 3) -> st.SearchStrategy[Json]:
    leaves: dict[str, st.SearchStrategy[Any]] = {
        "n": st.integers(-3, 3),
        "t": st.sampled_from(["", "a", "b"]),
        "l": st.lists(st.fixed_dictionaries({"type": st.sampled_from("XYZ"), "at": st.integers(0, 2)}), max_size=3),
    }
    if depth:
        leaves["o"] = st.deferred(lambda: values(depth - 1))
    names = [name for name in ("n1", "n2", "t1", "t2", "l1", "o1", "o2") if name[0] in leaves]
    return st.fixed_dictionaries({}, optional={name: leaves[name[0]] for name in names})


def rfc7386(target: Any, patch: Any) -> Any:
    """MergePatch of RFC 7386, section 2, to the letter."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = rfc7386(result.get(name), value)
    return result


@given(values(), values())
def test_applying_the_difference_gives_what_is_wanted(current: Json, wanted: Json) -> None:
    assert rfc7386(current, merge_diff(current, wanted)) == wanted


@given(values())
def test_there_is_no_difference_to_itself(value: Json) -> None:
    assert merge_diff(value, copy.deepcopy(value)) == {}


@given(values(), values())
def test_the_difference_changes_neither(current: Json, wanted: Json) -> None:
    before = copy.deepcopy((current, wanted))
    merge_diff(current, wanted)
    assert (current, wanted) == before
