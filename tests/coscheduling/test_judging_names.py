"""What a run refers to by a name that no object can have."""

from __future__ import annotations

import pytest

from tests.coscheduling.judging_scene import Scene
from tests.coscheduling.samples import claim


@pytest.mark.parametrize("name", ["../secrets/x", "a/b", "..", "x" * 254, "x" * 100_000])
def test_a_name_that_no_object_can_have_is_not_looked_for(name: str) -> None:
    """A run's spec may hold any text; it neither leads a read elsewhere, nor is it asked for without end."""
    scene = Scene("a")
    scene.node("a")
    scene.submit(pipelineSpec=None, pipelineRef={"name": name})
    assert scene.reads() == []
    fit = scene.judged["a"]
    assert (fit.reason, len(fit.detail) < 200) == ("PipelineMissing", True)
    scene = Scene("a")
    scene.node("a")
    scene.submit(claim("w", name))
    assert scene.reads() == []
    fit = scene.judged["a"]
    assert (fit.reason, len(fit.detail) < 200) == ("ClaimMissing", True)
