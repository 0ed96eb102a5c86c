"""ImageLocality: prefers nodes that have the pod's images already
(kubernetes/kubernetes pkg/scheduler/framework/plugins/imagelocality/image_locality.go, v1.36).
"""

from __future__ import annotations

import numpy as np

from controlplane.controllers.scheduling.framework.plugin import CycleState, ScorePlugin
from controlplane.controllers.scheduling.snapshot.node_info import NodeImages, NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Snapshot

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST_EACH = 1000 * _MIB


class ImageLocality(ScorePlugin):
    """Scores by the size of the images on the node, less for images that few nodes have."""

    name = "ImageLocality"

    def score(self, state: CycleState, pod: Pod, info: NodeInfo) -> int:
        """Return one node's score, 0…100."""
        sizes = {} if info.snapshot is None else self._weigh(state, pod, info.snapshot)
        total = sum(sizes[image] for image in pod.images if image in sizes and image in info.node.images)
        return int(_scaled(np.array([total], dtype=np.int64), pod.containers)[0])

    def score_all(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Ints) -> Ints:
        """Return the scores of the nodes in `rows`."""
        totals = np.zeros(len(snapshot), dtype=np.int64)
        for image, size in self._weigh(state, pod, snapshot).items():
            times = pod.images.count(image)
            totals[[snapshot.row[name] for name in snapshot.images[image]]] += size * times
        return _scaled(totals[rows], pod.containers)

    def _weigh(self, state: CycleState, pod: Pod, snapshot: NodeImages) -> dict[str, int]:
        """Return what each of the pod's images counts: its size, times the share of nodes that have it."""
        sizes: dict[str, int] | None = state.data.get(self.name)
        if sizes is None:
            sizes = state.data[self.name] = {
                image: int(float(next(iter(where.values()))) * (len(where) / len(snapshot)))
                for image in sorted(set(pod.images))
                if (where := snapshot.images.get(image))
            }
        return sizes


def _scaled(totals: Ints, containers: int) -> Ints:
    most = _MOST_EACH * containers  # image volumes count above, and not here
    if most <= _LEAST:
        return np.zeros_like(totals)
    return 100 * (np.clip(totals, _LEAST, most) - _LEAST) // (most - _LEAST)
