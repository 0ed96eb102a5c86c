"""How the engine decides, as Kueue's Configuration says it for a manager."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.controllers.quota.engine.fair_preemption import STRATEGIES
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`fair_sharing` with its `preemption_strategies`; `admission_fair_sharing`, None if past usage does not count."""

    fair_sharing: bool = False
    preemption_strategies: tuple[str, ...] = STRATEGIES
    admission_fair_sharing: AdmissionFairSharing | None = None
