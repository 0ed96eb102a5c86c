"""Says what a Workload waits for whose devices cannot be counted.

In: the message of its condition QuotaReserved, which is Kueue's. Out: what has to come or change, in a few words; ""
for other messages (kubernetes-sigs/kueue pkg/dra/claims.go, counters.go, extended_resources.go, ff69552e)."""

from __future__ import annotations

import re

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"failed to get claim spec for (ResourceClaimTemplate [^\s:]+)", "{}"),
        (r"failed to get (DeviceClass [^\s:]+)", "{}"),
        (r"(DeviceClass \S+) is not mapped in DRA configuration", "a mapping of {} to a resource"),
        (r"insufficient matching devices for CEL selector in (DeviceClass [^\s:]+)", "devices of {} that it selects"),
        (r"insufficient matching devices for counter (driver)", "devices that it selects"),
        (r"matched devices have no consumesCounters entry for counter (\S+)", "devices with the counter {}"),
        (r"KueueDRAIntegration feature (?:does not|gate is not)( )", "somebody to change its resourceClaims"),
        (r"(is not supported|unsupported allocation mode|CEL )", "somebody to change its resourceClaims"),
        (r"(resolves to DeviceClass \S+ with counters configured)", "somebody to change what it asks for"),
        (r"(extended resource quantity)", "somebody to change what it asks for"),
    )
)


def waits_for_devices(message: str) -> str:
    """Return what a Workload waits for, by its condition; "" if that says nothing of devices."""
    for pattern, text in _PATTERNS:
        if found := pattern.search(message):
            return text.format(found[1])
    return ""
