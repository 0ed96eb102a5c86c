"""Says what goes when a run is over: its placeholders, and by mode and annotation the claims of its templates.

In: a run that is done or being deleted, and what is there. Out: removals, each with the UID of what it removes; never a
user's claim. A claim is deleted and then loses the finalizer that would keep it for the pods of finished tasks; not the
other way round: a claim that is not being deleted gets it back at once. That it is gone by then is no failure."""

from __future__ import annotations

from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import placeholder_name
from controlplane.controllers.coscheduling.objects import CLAIMS, STATEFUL_SETS, PipelineRun, owned_by
from controlplane.controllers.coscheduling.placement.existing import own_placeholders
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.placeholders import claim_of
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.well_known import PVC_PROTECTION
from controlplane.values import Value


class ObjectRemoval(Value):
    """One object that goes. `uid` is "" only where nobody has looked yet: then it is read first, and deleted if the run
    owns it.

    `strips`: the finalizers that are taken off, if it has them.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    reason: CoschedulingReason
    strips: tuple[str, ...] = ()


def removals(run: PipelineRun, mode: Mode, world: ObjectsByKind) -> list[ObjectRemoval]:
    """Return what is to be removed. Where the world holds no placeholder, claim or pod at all, nobody has looked: then
    by name.
    """
    looked = world.knows("StatefulSet", "PersistentVolumeClaim", "Pod")
    over = CoschedulingReason.RUN_DELETED if run.deleting and not run.done else CoschedulingReason.RUN_FINISHED
    found = [_removal(run, STATEFUL_SETS, str(meta(one)["name"]), one, over) for one in own_placeholders(world, run)]
    if not looked:
        found = [_removal(run, STATEFUL_SETS, name, None, over) for name in placeholder_names(run, mode)]
    reason = claims_go(run, mode)
    if reason is None:
        return found
    for name in template_claims(run, mode):
        claim = world.find("PersistentVolumeClaim", run.namespace, name)
        if (claim is not None and is_own_claim(claim, run.uid)) or not looked:
            found.append(_removal(run, CLAIMS, name, claim, reason, (PVC_PROTECTION,)))
    return found


def claims_go(run: PipelineRun, mode: Mode) -> CoschedulingReason | None:
    """Return why the claims of a run's templates go when it is over; None if they stay as long as the run itself."""
    if mode.per_run:
        return CoschedulingReason.TEMPLATE_CLAIM
    if mode is Mode.WORKSPACES and run.auto_cleanup:
        return CoschedulingReason.AUTO_CLEANUP
    return None


def placeholder_names(run: PipelineRun, mode: Mode) -> list[str]:
    """Return the names that a run's placeholders may have in a mode: one for each workspace with a claim, also where
    two share it.
    """
    if mode is Mode.DISABLED or run.follows:
        return []
    if mode.per_run:
        return [placeholder_name("", run.name)]
    return [placeholder_name(binding.name, run.name) for binding in run.bindings if binding.has_claim]


def template_claims(run: PipelineRun, mode: Mode) -> list[str]:
    """Return the names of the claims of a run's templates."""
    return [claim_of(run, binding, mode) for binding in run.bindings if binding.template is not None]


def is_own_claim(claim: Json, uid: str) -> bool:
    """Whether a claim with the name of a template's is the run's: it owns it, or nobody does (Tekton's StatefulSets set
    no owner).

    The name itself is made of the run's UID, so a claim of another run of the same name has another one.
    """
    return owned_by(claim, uid) or not meta(claim).get("ownerReferences")


def _removal(
    run: PipelineRun,
    kind: Kind,
    name: str,
    found: Json | None,
    reason: CoschedulingReason,
    strips: tuple[str, ...] = (),
) -> ObjectRemoval:
    return ObjectRemoval(
        kind=kind,
        namespace=run.namespace,
        name=name,
        uid=str(meta(found or {}).get("uid", "")),
        reason=reason,
        strips=strips,
    )
