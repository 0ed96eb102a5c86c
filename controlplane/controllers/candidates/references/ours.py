"""Says of a copy with our name in a target whether this source has made it: another cluster may have been given the
same name (`candidates.cluster`), and what that one made is not ours to alter or to remove.

In: the copy as it was seen, what this log has written there, the source's object, and what our cluster is known by.
Out: `KnownCopy`. Pure. A version before has said nothing of it on its copies: of those, ours are what this log wrote,
and what is of the very version that our object has now; this is marked at once, since it would not be known any more
once the object changes."""

from __future__ import annotations

from collections.abc import Set

from controlplane.controllers.candidates.references.decide import KnownCopy
from controlplane.controllers.candidates.references.events import CopyObserved, NamedObserved

Written = tuple[str, str]
"""Of what was written to a copy: the version of the source's object, and the cluster that it says it was made by."""


def known_copy(copy: CopyObserved, source: NamedObserved | None, written: Set[Written], identity: str) -> KnownCopy:
    """Return what `follow` looks at of a copy. Where our cluster is not known (`identity` is empty), whatever has our
    name is ours."""
    known = copy.source_uid == identity or (copy.followed, copy.source_uid) in written
    as_it_is = not copy.source_uid and source is not None and copy.followed == source.resource_version
    return KnownCopy(
        copy.kind,
        copy.name,
        copy.uid,
        copy.resource_version,
        copy.mark,
        copy.followed,
        source_uid=copy.source_uid,
        anothers=bool(identity) and not (known or as_it_is),
        unmarked=bool(identity) and not known and as_it_is,
    )
