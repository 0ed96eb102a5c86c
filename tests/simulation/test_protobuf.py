"""Bodies in Kubernetes' protobuf: what kubectl sent, what is refused, and that nothing is left out silently."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube.kinds import JOBS, NAMESPACES, PODS, WORKLOADS, Kind
from controlplane.simulation.apiserver.decoding import misfit
from controlplane.simulation.apiserver.openapi import Schemas, in_protobuf, v2, v3
from controlplane.simulation.apiserver.protobuf import MEDIA_TYPE, DecodingError, decode, decode_message
from controlplane.simulation.apiserver.server import SimulatedApiServer
from controlplane.simulation.kinds.base import DEFAULT_KINDS
from controlplane.simulation.kinds.own_cluster import WHOLE_KINDS
from controlplane.simulation.schemas.messages import Message, descriptions, kubernetes, openapi
from controlplane.simulation.schemas.strictness import unknown_fields
from tests.simulation.store_kit import new_store
from tests.support.rows import each

# What kubectl 1.32 sent for `create namespace team` and for `create job j --image=busybox -- echo hi`.
NAMESPACE = (
    "6b3873000a0f0a02763112094e616d657370616365121c0a140a047465616d12001a0022002a0032003800420012001a020a001a002200"
)
JOB = (
    "6b3873000a0f0a0862617463682f763112034a6f621282010a110a016a12001a0022002a00320038004200126332610a100a0012001a0022"
    "002a00320038004200124d122a0a016a120762757379626f781a046563686f1a0268692a0042006a00720080010088010090010"
    "0a201001a054e65766572320042004a0052005800600068008201008a01009a0100c201001a082000280030003a001a002200"
)
KNOWN = kubernetes()


def envelope(raw: bytes) -> bytes:
    """Return a message in the envelope that clients send it in."""
    return b"k8s\x00" + field(2, raw)


def field(number: int, value: bytes | int) -> bytes:
    """Return one field on the wire."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def read(raw: bytes, kind: Kind = JOBS) -> Any:
    message = KNOWN.of(kind)
    assert message is not None
    return decode(envelope(raw), message)


def test_what_kubectl_sent_is_read_as_json_has_it() -> None:
    assert decode(bytes.fromhex(NAMESPACE), KNOWN["core.Namespace"]) == {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "spec": {}, "status": {},
    }  # fmt: skip
    job = decode(bytes.fromhex(JOB), KNOWN["batch.Job"])
    assert (job["kind"], job["metadata"], job["status"]) == ("Job", {"name": "j"}, {})
    template = job["spec"]["template"]["spec"]
    assert template["containers"] == [{"name": "j", "image": "busybox", "command": ["echo", "hi"], "resources": {}}]
    assert template["restartPolicy"] == "Never"
    assert misfit(JOBS, job) == ""
    assert unknown_fields(KNOWN["batch.Job"], job) == []


@each(
    ("raw", "found"),
    [
        (field(2, field(1, 0)), {"spec": {"parallelism": 0}}),  # a pointer that was sent
        (field(2, field(10, 0)), {"spec": {"suspend": False}}),
        (field(2, field(3, 2**64 - 5)), {"spec": {"activeDeadlineSeconds": -5}}),
        (field(2, field(1, 2**64 - 1)), {"spec": {"parallelism": -1}}),
        (field(3, field(4, 0)), {"status": {}}),  # no pointer: JSON leaves it out
        (field(1, field(11, field(1, b"a") + field(2, b"b"))), {"metadata": {"labels": {"a": "b"}}}),
        (field(1, field(11, field(1, b"a"))), {"metadata": {"labels": {"a": ""}}}),
        (field(1, field(8, b"")), {"metadata": {}}),  # a time that was never set
        (field(1, field(8, field(1, 1767225600))), {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}),
        (
            field(2, field(11, field(1, field(1, b"FailJob") + field(2, field(2, b"In") + field(3, b"\x01\x02"))))),
            {
                "spec": {
                    "podFailurePolicy": {
                        "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]
                    }
                }
            },
        ),
    ],
)
def test_values_are_those_of_json(raw: bytes, found: Any) -> None:
    assert read(raw) == found


def test_quantities_inline_structs_and_either_kind() -> None:
    """Of a pod: a quantity, a volume whose source stands in it, a port by name and one by number."""
    limits = field(8, field(1, field(1, b"cpu") + field(2, field(1, b"250m"))))
    volume = field(1, field(1, b"v") + field(2, field(2, b"")))
    port = [
        field(2, field(1, b"/") + field(2, one))
        for one in (field(1, 0) + field(2, 80), field(1, 1) + field(3, b"http"))
    ]
    # Probe: 1 handler (inline), ProbeHandler: 2 httpGet
    probes = b"".join(field(number, field(1, one)) for number, one in zip((10, 11), port, strict=True))
    pod = read(field(2, volume + field(2, field(1, b"c") + limits + probes)), PODS)
    container = pod["spec"]["containers"][0]
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert container["resources"] == {"limits": {"cpu": "250m"}}
    ports = [container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")]
    assert ports == [80, "http"]


@each(
    ("body", "said"),
    [
        (b"{}", r"expected prefix \[107 56 115 0\]"),
        (envelope(field(99, b"x")), "batch.Job has no field 99"),
        (envelope(field(2, field(99, b"x"))), "spec: batch.JobSpec has no field 99"),
        (envelope(field(2, field(1, b"x"))), "spec.parallelism: a int32 is no text"),
        (envelope(field(2, 7)), "spec: a number is there"),
        (envelope(field(1, field(1, b"\xff"))), "metadata.name: this is no UTF-8"),
        (envelope(field(2, b"\x0a\x7f")), "spec: a field is cut off"),
        (envelope(b"\x80"), "a number is cut off"),
        (envelope(b"\x0b"), "wire type 3"),
    ],
)
def test_what_is_no_such_object_is_refused_by_the_place_of_what_is_wrong(body: bytes, said: str) -> None:
    with pytest.raises(DecodingError, match=said):
        decode(body, KNOWN["batch.Job"])


@given(st.binary(max_size=60), st.sampled_from(["batch.Job", "core.Pod", "core.Secret", "events.Event"]))
def test_any_bytes_are_read_or_refused(raw: bytes, name: str) -> None:
    try:
        read_as = decode(envelope(raw), KNOWN[name])
    except DecodingError:
        return
    assert unknown_fields(KNOWN[name], read_as) == []


@given(st.data())
def test_what_is_read_has_the_fields_and_the_types_of_the_kind(data: st.DataObject) -> None:
    """Whatever is sent of the fields that a Job has, is taken by the check of bodies in JSON."""
    raw = data.draw(messages(KNOWN["batch.Job"], 5))
    job = read(raw)
    assert misfit(JOBS, job) == ""
    assert unknown_fields(KNOWN["batch.Job"], job) == []


SAMPLES: dict[str, st.SearchStrategy[bytes | int]] = {
    "string": st.sampled_from([b"", b"a", "ü".encode()]),
    "bytes": st.binary(max_size=4),
    "bool": st.integers(0, 1),
    "int32": st.sampled_from([0, 1, 2**64 - 1]),
    "int64": st.sampled_from([0, 1, 2**64 - 1]),
    "Quantity": st.sampled_from([field(1, b"1"), field(1, b"5Gi")]),
    "IntOrString": st.sampled_from([field(1, 0) + field(2, 8), field(1, 1) + field(3, b"a")]),
    "Time": st.sampled_from([b"", field(1, 1)]),
    "FieldsV1": st.just(field(1, b"{}")),
}


def messages(message: Message, depth: int) -> st.SearchStrategy[bytes]:
    """Return a message with some of its fields, not deeper than `depth`."""

    def one(of: Any) -> st.SearchStrategy[bytes]:
        if of.is_message:
            inner: st.SearchStrategy[Any] = messages(KNOWN[of.type], depth - 1) if depth else st.just(b"")
        else:
            inner = SAMPLES[of.type]
        if of.mapped:
            inner = inner.map(lambda value: field(1, b"k") + field(2, value))
        return inner.map(lambda value: field(of.number, value))

    several = st.lists(st.sampled_from(message.fields).flatmap(one), max_size=2)
    return several.map(b"".join)


def test_the_tables_hold_together() -> None:
    """Every type is there, and every sentence is about something that is."""
    for table in (KNOWN, openapi()):
        for message in table:
            numbers = [field.number for field in message.fields if field.number]
            assert len(numbers) == len(set(numbers)), message.name
            for one in message.fields:
                assert not one.is_message or table[one.type]
    names = {message.name for message in KNOWN} | {"TypeMeta"}
    names |= {f"{message.name}.{one.name}" for message in KNOWN for one in message.fields}
    assert [name for name in descriptions() if name not in names | {"TypeMeta.apiVersion", "TypeMeta.kind"}] == []
    assert [served.kind.kind for served in WHOLE_KINDS if served.builtin and KNOWN.of(served.kind) is None] == []


def test_merge_keys_of_patches_are_those_of_the_kinds() -> None:
    """What kubectl merges by, out of the documents, and what the server merges by is the same."""
    for served in WHOLE_KINDS:
        message = KNOWN.of(served.kind)
        if message is None or not served.builtin:
            continue
        for path, keys in {**served.list_map_keys, **served.strategic_keys}.items():
            of, steps = message, path.split(".")
            for step in steps[:-1]:
                of = KNOWN[next(one.type for one in KNOWN.fields(of) if one.name == step)]
            found = next(one for one in KNOWN.fields(of) if one.name == steps[-1])
            assert not found.merge_key or not keys or found.merge_key == keys[0], (served.kind, path)


def documents() -> Iterator[Any]:
    yield v2(list(DEFAULT_KINDS))
    yield v3([served for served in DEFAULT_KINDS if served.kind in (JOBS, PODS, NAMESPACES)])


def test_every_reference_of_the_documents_leads_somewhere() -> None:
    for document in documents():
        schemas = document.get("definitions") or document["components"]["schemas"]
        for reference in references(document):
            assert reference.rpartition("/")[2] in schemas


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def test_a_document_in_protobuf_has_what_the_one_in_json_has() -> None:
    document = v2(list(DEFAULT_KINDS))
    written = decode_message(openapi(), openapi()["openapi.Document"], in_protobuf(document))
    named = {one["name"]: one["value"] for one in written["definitions"]["additional_properties"]}
    assert named.keys() == document["definitions"].keys()
    spec = {
        one["name"]: one["value"] for one in named["io.k8s.api.batch.v1.JobSpec"]["properties"]["additional_properties"]
    }
    assert spec["parallelism"]["type"] == {"value": ["integer"]}
    assert spec["template"]["_ref"] == "#/definitions/io.k8s.api.core.v1.PodTemplateSpec"
    assert [one["name"] for one in named["io.k8s.api.core.v1.PodSpec"]["properties"]["additional_properties"]] == list(
        Schemas(2).of([served for served in DEFAULT_KINDS if served.kind == PODS])["io.k8s.api.core.v1.PodSpec"][
            "properties"
        ]
    )


class Posted:
    """A server, and bodies in protobuf that are sent to it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = url, session

    async def __call__(self, kind: Kind, body: bytes, method: str = "POST", name: str = "") -> tuple[int, Any]:
        headers = {"Content-Type": MEDIA_TYPE, "Accept": f"{MEDIA_TYPE},application/json"}
        url = self._url + kind.path("default" if kind.namespaced else "", name)
        async with self._session.request(method, url, data=body, headers=headers) as response:
            return response.status, await response.json()


@pytest.fixture
async def post() -> AsyncIterator[Posted]:
    server = SimulatedApiServer(new_store())
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Posted(server.url, session)
    await server.stop()


async def test_the_server_answers_as_a_real_one(post: Posted) -> None:
    """Built-in kinds take protobuf; custom ones say that they do not; what is not known is named, and nothing
    stored."""
    status, made = await post(JOBS, bytes.fromhex(JOB))
    assert (status, made["kind"], made["metadata"]["name"]) == (201, "Job", "j")
    status, refused = await post(WORKLOADS, bytes.fromhex(JOB))
    assert (status, refused["reason"]) == (415, "UnsupportedMediaType")
    assert refused["message"].endswith("accepted media types include: application/json, application/yaml")
    status, refused = await post(JOBS, envelope(field(1, field(1, b"k")) + field(2, field(77, b"x"))))
    assert (status, refused["message"]) == (400, "error decoding the body: spec: batch.JobSpec has no field 77 here")
    status, refused = await post(JOBS, bytes.fromhex(NAMESPACE))
    assert status == 400
    assert refused["reason"] == "BadRequest"
    options = envelope(field(2, field(1, made["metadata"]["uid"].encode())) + field(4, b"Background"))
    stale = envelope(field(2, field(1, b"another")))
    assert (await post(JOBS, stale, "DELETE", "j"))[0] == 409
    assert (await post(JOBS, options, "DELETE", "j"))[0] == 200
    assert (await post(JOBS, b"", "GET", "j"))[0] == 404
