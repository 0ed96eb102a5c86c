"""What differs from kind to kind: the job's copy, when its status may be relayed, when nothing of it runs any more.

In: objects as dicts. Out: values. `ADAPTERS` is the registry, by Kueue's integration name; each kind is a module.
"""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.controllers.multikueue.adapters.base import Adapter
from controlplane.controllers.multikueue.adapters.job import JobAdapter
from controlplane.controllers.multikueue.adapters.jobset import JobSetAdapter
from controlplane.controllers.multikueue.adapters.pipelinerun import PipelineRunAdapter

ADAPTERS: dict[str, Adapter] = {
    adapter.integration: adapter for adapter in (JobAdapter(), JobSetAdapter(), PipelineRunAdapter())
}


def adapters_for(integrations: Iterable[str]) -> dict[str, Adapter]:
    """Return the enabled adapters by Go GVK string; `KeyError` names an integration that has none."""
    return {ADAPTERS[name].kind.gvk: ADAPTERS[name] for name in integrations}
