"""What `why`, `timeline` and `events` say of PipelineRuns, of a log that a real process has written."""

from __future__ import annotations

from controlplane.kube.kinds import PIPELINE_RUNS, meta
from tests.coscheduling.e2e.test_runs import left, placeholder, run, succeeded
from tests.podgroups.e2e.test_audit import ask
from tests.support.local import NS, Make


async def test_a_run_tells_its_mode_its_placeholder_and_that_it_was_moved_and_cleaned_up(stage: Make) -> None:
    it = await stage()
    run(it, duration="800ms")
    pod = await it.until(lambda: placeholder(it), "its placeholder")
    node = pod["spec"]["nodeName"]
    await it.until(lambda: it.said("PlaceholderReady"), "its readiness in the log")
    said = ask(it, "why", "pipelinerun/default/build")
    assert "Its mode is pipelineruns, kept from its start." in said
    assert f"is on node {node}" in said
    it.cordon(node)
    await it.until(lambda: it.said("PlaceholderEvicted"), "the move")
    assert f"It was moved away from {node} because node {node} was cordoned." in " ".join(
        ask(it, "why", "pr/default/build").split()
    )
    await it.until(lambda: succeeded(it), "the run's end")
    await it.until(lambda: left(it) == [], "nothing left")
    await it.quiet(0.5)
    over = " ".join(ask(it, "why", "pr/default/build").split())
    assert "It is over, because the run is over." in over
    assert f"Cleaned up: {meta(pod)['ownerReferences'][0]['name']} and pvc-" in over
    assert "Nothing that was made for it is left." in over
    told = ask(it, "timeline", "pr/default/build")
    assert "mode is pipelineruns" in told
    assert f"placeholder's pod is to leave node {node}" in told
    it.store.delete(PIPELINE_RUNS, NS, "build", propagation="Background")
    await it.until(lambda: it.said("WorkerRunGone"), "its end in the log")
    assert "It is gone." in ask(it, "why", "pr/default/build")
    assert "ModePinned" in ask(it, "events", "--type", "ModePinned")
