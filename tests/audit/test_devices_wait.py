"""What a Workload waits for whose devices cannot be counted, in a few words."""

from __future__ import annotations

from controlplane.audit.quota_wait import answer, sentences, waits
from controlplane.audit.reads import READ, LogReader
from controlplane.audit.standing import quota_of
from controlplane.controllers.quota.devices.count import NO_CLAIMS, NOT_ENABLED
from controlplane.controllers.quota.engine.explain import explain
from tests.audit.database import keep
from tests.quota.admission.devices import selecting, slice_of, submit, template, told, with_devices
from tests.quota.admission.scene import NS
from tests.support.rows import each

_CLAIM = "spec.podSets[0].template.spec.resourceClaims[0]"
_TO_CHANGE = "somebody to change its resourceClaims"


@each(
    ("message", "waits_for"),
    [
        (
            (f"{_CLAIM}: Internal error: failed to get claim spec for ResourceClaimTemplate t in podset main: "
            'ResourceClaimTemplate.resource.k8s.io "t" not found'),
            "ResourceClaimTemplate t",
        ),
        (
            (f"{_CLAIM}.devices.requests[0]: Internal error: ResourceClaimTemplate t: failed to get DeviceClass gpu: "
            'DeviceClass.resource.k8s.io "gpu" not found'),
            "DeviceClass gpu",
        ),
        (
            (f'{_CLAIM}.resourceClaimTemplateName: Not found: "DeviceClass gpu is not mapped in DRA configuration for '
            'podset main"'),
            "a mapping of DeviceClass gpu to a resource",
        ),
        (
            (f"{_CLAIM}.devices.requests[0].exactly.selectors: Internal error: ResourceClaimTemplate t: insufficient "
                "matching devices for CEL selector in DeviceClass gpu: 0 device(s) match in the cluster but 1 "
                "requested"),
            "devices of DeviceClass gpu that it selects",
        ),
        (
            (f"{_CLAIM}.devices.requests[0]: Internal error: insufficient matching devices for counter driver: "
            "0 device(s) match but 1 requested"),
            "devices that it selects",
        ),
        (
            (f'{_CLAIM}.devices.requests[0]: Internal error: matched devices have no consumesCounters entry for counter '
            '"memory"'),
            'devices with the counter "memory"',
        ),
        (f"{_CLAIM}.devices.requests[0]: Invalid value: null: FirstAvailable device selection is not supported", _TO_CHANGE),
        (NO_CLAIMS, _TO_CHANGE),
        (NOT_ENABLED, _TO_CHANGE),
        (
            ("spec.podSets[0].template.spec.containers[0].resources.requests.example.com/gpu: Invalid value: "
            '"1500m": extended resource quantity must be an integer'),
            "somebody to change what it asks for",
        ),
        ("couldn't assign flavors to pod set main: insufficient unused quota for gpus in flavor default, 1 more needed", ("quota "
            "in q")),
    ],
)  # fmt: skip
def test_it_is_named_what_has_to_come_or_change(message: str, waits_for: str) -> None:
    assert quota_of("q", message) == waits_for


async def test_why_tells_it_from_the_log(database_url: str) -> None:
    """What is read of the log counts the devices of all that wait, and says of one that cannot be counted why."""
    scene = with_devices(quota="3")
    template(scene, "two", count=2)
    template(scene, "lost", **selecting("device.driver == 'none'"))
    slice_of(scene)
    for name, of in (("runs", "two"), ("waits", "two"), ("uncounted", "lost"), ("early", "none")):
        submit(scene, name, of)
        scene.settle()
    await keep(database_url, scene.log, types=READ)
    engine, settings = scene.controller.index.engine, scene.settings
    with LogReader.connect(database_url) as reader:
        wait = waits(reader, settings, NS, "waits", scene.now)
        assert wait is not None
        assert wait == explain(engine, f"{NS}/waits", scene.now.timestamp())
        for name in ("uncounted", "early"):
            said = answer(reader, settings, NS, name, scene.now)
            assert said is not None
            assert list(sentences(said)) == [f"It is not considered: {told(scene, name)[1]}."]
        assert answer(reader, settings, NS, "runs", scene.now) is None
