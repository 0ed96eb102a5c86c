"""A tiny distribution with a scheduler plugin, as an installer leaves it: a module, and its metadata beside it on
`sys.path`.
"""

from __future__ import annotations

from pathlib import Path

MODULE = '''
"""A plugin that has a part in every extension point, and writes down which of them was asked."""

import os

from controlplane.kube.kinds import PODS, ObjectRef, Request
from controlplane.controllers.scheduling import framework as f
from controlplane.controllers.scheduling.framework.args import Args
from controlplane.controllers.scheduling.framework.status import SKIP, SUCCESS, Code, Status, failed, unschedulable


def told(point):
    with open(os.environ["TINY_TOLD"], "a") as out:
        out.write(point + "\\\\n")


class TinyArgs(Args, frozen=True):
    bad_node: str = "bad"


class Tiny(
    f.QueueSortPlugin, f.PreEnqueuePlugin, f.PreFilterPlugin, f.FilterPlugin, f.PostFilterPlugin, f.PreScorePlugin,
    f.ScorePlugin, f.ReservePlugin, f.PermitPlugin, f.PreBindPlugin, f.BindPlugin, f.PostBindPlugin,
):
    name = "Tiny"
    args_type = TinyArgs

    def __init__(self, args=None):
        super().__init__(args or TinyArgs())

    def begin(self, cluster):
        told("begin")

    def queueing_hints(self):
        told("queueing_hints")
        return {("Node", "Add"): lambda pod, event: True}

    def sort_key(self, queued):
        told("sort_key")
        return (-queued.pod.priority, queued.enqueued)

    def pre_enqueue(self, pod):
        told("pre_enqueue")
        return unschedulable("not yet") if pod.labels.get("tiny") == "later" else SUCCESS

    def pre_filter(self, state, pod, snapshot):
        told("pre_filter")
        state.data[self.name] = len(snapshot)
        return f.Prefiltered()

    def add_pod(self, state, pod, added, info):
        told("add_pod")
        return SUCCESS

    def remove_pod(self, state, pod, removed, info):
        told("remove_pod")
        return SUCCESS

    def filter(self, state, pod, info):
        told("filter")
        assert state.data[self.name]
        return unschedulable("node(s) are bad") if info.node.name == self.args.bad_node else SUCCESS

    def post_filter(self, state, pod, snapshot, refused, dry_run):
        told("post_filter")
        return f.PostFiltered(unschedulable("Tiny cannot help"))

    def pre_score(self, state, pod, snapshot, rows):
        told("pre_score")
        return SUCCESS

    def score(self, state, pod, info):
        told("score")
        return 7 if info.node.name == "best" else 1

    def normalize(self, state, pod, snapshot, rows, scores):
        told("normalize")
        return scores * 10

    def reserve(self, state, pod, node):
        told("reserve")
        return SUCCESS

    def unreserve(self, state, pod, node):
        told("unreserve")

    def permit(self, state, pod, node):
        told("permit")
        return f.Permission()

    def pre_bind(self, state, pod, node):
        told("pre_bind")
        body = {"metadata": {"annotations": {"example.com/node": node}}}
        ref = ObjectRef(PODS, pod.namespace, pod.name)
        return f.Writes(requests=(Request("patch", ref, body, uid=pod.uid),), timeout=30.0)

    def prepared(self, state, pod, node):
        told("prepared")
        return failed("it was dropped") if pod.labels.get("tiny") == "drops" else SUCCESS

    def bind(self, state, pod, node):
        told("bind")
        return f.Writes(SKIP)

    def post_bind(self, state, pod, node):
        told("post_bind")
'''

POINTS = {
    "queueing_hints",
    "sort_key",
    "pre_enqueue",
    "pre_filter",
    "add_pod",
    "remove_pod",
    "filter",
    "post_filter",
    "pre_score",
    "score",
    "normalize",
    "reserve",
    "unreserve",
    "permit",
    "pre_bind",
    "prepared",
    "bind",
    "post_bind",
    "begin",
}

PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 1
profiles:
- schedulerName: controlplane
  plugins:
    multiPoint:
      enabled: [{name: Tiny, weight: 100}]
      disabled: [{name: PrioritySort}]
    bind:
      enabled: [{name: Tiny}]
  pluginConfig:
  - name: Tiny
    args: {badNode: bad}
"""


def install(folder: Path) -> Path:
    """Put the distribution into a folder; return the file in which it writes down what was asked of it."""
    (folder / "tiny_plugin.py").write_text(MODULE.replace("\\\\n", "\\n"))
    info = folder / "tiny_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[controlplane.scheduler.plugins]\nTiny = tiny_plugin:Tiny\n")
    (info / "RECORD").write_text("tiny_plugin.py,,\ntiny_plugin-1.0.dist-info/METADATA,,\n")
    (folder / "profiles.yaml").write_text(PROFILES)
    told = folder / "told"
    told.touch()
    return told
