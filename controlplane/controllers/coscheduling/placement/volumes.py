"""Says where existing volumes can be reached from, and whether one node reaches several of them.

In: PersistentVolumes that are bound. Out: what the claims of a run have in common, or the words for why no node reaches
them all. Only what holds for every node counts, those that are not there yet included: a zone that has no node today
refuses nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.kube.kinds import Json, meta
from controlplane.kube.well_known import REQUIRED_AFFINITY
from controlplane.values import Value

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_LABELS = {
    ZONE: ZONE,
    REGION: REGION,
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
_SEVERAL = "__"  # between the zones of a volume that is in more than one


class BoundVolume(Value):
    """A PersistentVolume and the claim that has it; `terms` are node selector terms, one of which a node has to
    fit.
    """

    name: str
    namespace: str
    claim: str
    terms: list[Json] = []

    def template(self) -> Json:
        """Return the volume's demands as those of a pod that tolerates everything."""
        affinity = {"nodeAffinity": {REQUIRED_AFFINITY: {"nodeSelectorTerms": self.terms}}} if self.terms else {}
        return {"affinity": affinity, "tolerations": [{"operator": "Exists"}]}


def bound_volume(volume: Json) -> BoundVolume | None:
    """Return a PersistentVolume that a claim has; None for one that nobody has."""
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    claim = spec.get("claimRef") or {}
    if not claim.get("name") or status.get("phase", "Bound") != "Bound":
        return None
    return BoundVolume(
        name=str(meta(volume).get("name") or ""),
        namespace=str(claim.get("namespace") or ""),
        claim=str(claim["name"]),
        terms=terms_of(volume),
    )


def terms_of(volume: Json) -> list[Json]:
    """Return the node selector terms of a volume, with the zone and region that its labels say: the scheduler keeps to
    both.
    """
    affinity = (volume.get("spec") or {}).get("nodeAffinity") or {}
    terms = [dict(one) for one in (affinity.get("required") or {}).get("nodeSelectorTerms") or ()]
    labels = meta(volume).get("labels") or {}
    said = [
        {"key": key, "operator": "In", "values": sorted(set(str(labels[label]).split(_SEVERAL)))}
        for label, key in _LABELS.items()
        if labels.get(label)
    ]
    if not said:
        return terms
    return [{**one, "matchExpressions": [*(one.get("matchExpressions") or ()), *said]} for one in terms or [{}]]


def apart(volumes: Sequence[BoundVolume]) -> str:
    """Return, in words, why no node can reach all of some volumes; "" if that cannot be told."""
    allowed = [(volume, _allowed(volume.terms)) for volume in volumes]
    for key in sorted({key for _, found in allowed for key in found}):
        common: set[str] | None = None
        named: list[tuple[BoundVolume, set[str]]] = []
        for volume, found in allowed:
            if key not in found:
                continue
            named.append((volume, found[key]))
            common = found[key] if common is None else common & found[key]
        if common is not None and not common:
            return _told(key, named)
    return ""


def _told(key: str, named: Sequence[tuple[BoundVolume, set[str]]]) -> str:
    """Return where volumes are, of which none is where all others are: two of them, if two say it."""
    pairs = ((one, other) for number, one in enumerate(named) for other in named[number + 1 :])
    shown = next(((one, other) for one, other in pairs if not one[1] & other[1]), tuple(named))
    places = (
        f'claim "{volume.claim}" (PersistentVolume {volume.name}) is bound in {key} {" or ".join(sorted(values))}'
        for volume, values in shown
    )
    return f"{', '.join(places)}: no node reaches them all"


def _allowed(terms: Iterable[Mapping[str, object]]) -> dict[str, set[str]]:
    """Return, by label, the values of which a node has to have one: those of all terms, where every term asks for the
    label.
    """
    found: dict[str, set[str]] | None = None
    for term in terms:
        own = _values(term)
        found = own if found is None else {key: found[key] | own[key] for key in found.keys() & own.keys()}
    return found or {}


def _values(term: Mapping[str, object]) -> dict[str, set[str]]:
    own: dict[str, set[str]] = {}
    expressions = term.get("matchExpressions")
    for one in expressions if isinstance(expressions, list) else ():
        if isinstance(one, dict) and one.get("operator") == "In":
            key, values = str(one.get("key")), {str(value) for value in one.get("values") or ()}
            own[key] = own[key] & values if key in own else values
    return own
