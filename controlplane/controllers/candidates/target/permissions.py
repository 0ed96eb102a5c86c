"""What an invitation lends to the Pods of a source: a ServiceAccount, its token, and how much of a node they may reach.

In: a candidate as it was seen, with what its template asks for, and the invitation. Out: why its Pod may not be made,
or nothing. A target's scheduler makes that Pod with rights of its own, which are more than the source has: so it is
asked here, before the Pod is made."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target.events import (
    CandidateObserved,
    InvitationObserved,
    TargetObservationRefused,
)
from controlplane.kube import pod_security
from controlplane.runtime.writes import WriteFailure, says_no


def lends_token(seen: CandidateObserved, invitations: Sequence[InvitationObserved]) -> bool:
    """Whether the token of its ServiceAccount may be mounted into a candidate's Pod: only of one that the invitation
    names.
    """
    invited = [invitation for invitation in invitations if invitation.cluster == seen.origin.cluster]
    return bool(invited) and seen.account in invited[0].service_accounts


def unfit_for(seen: CandidateObserved, invitation: InvitationObserved) -> tuple[TargetReason, str] | None:
    """Return why an invitation does not let a candidate's Pod be made with the rights of this cluster's scheduler, None
    if it does.
    """
    where, named = f'CandidateSource "{invitation.name}"', seen.account in invitation.service_accounts
    if not named and (seen.account != "default" or invitation.service_accounts):
        return (
            TargetReason.SERVICE_ACCOUNT_NOT_ALLOWED,
            f'{where} does not lend ServiceAccount "{seen.account}": add it to spec.serviceAccounts, or use another',
        )
    if seen.token and not named:
        return (
            TargetReason.SERVICE_ACCOUNT_NOT_ALLOWED,
            (
                f'{where} lends no token of ServiceAccount "{seen.account}", and a volume asks for one: add it to'
                " spec.serviceAccounts"
            ),
        )
    level = invitation.pod_security or pod_security.RESTRICTED
    beyond = seen.beyond_baseline if level != pod_security.PRIVILEGED else ""
    if level == pod_security.RESTRICTED:
        beyond = "; ".join(filter(None, [beyond, seen.beyond_restricted]))
    if beyond:
        return TargetReason.POD_SECURITY, f"{where} allows pods of the level {level} (spec.podSecurity): {beyond}"[
            :1024
        ]
    return None


def unfit_class(
    seen: CandidateObserved, invitation: InvitationObserved, known: frozenset[str] | None
) -> tuple[str, str] | None:
    """Return what is wrong with the priority class that a candidate asks for; `known`: those that exist here."""
    wanted, allowed = seen.priority_class, invitation.priority_classes
    # Kubernetes' own come before whatever the cluster itself needs: they are lent by name only.
    if wanted and wanted not in allowed and (allowed or wanted.startswith("system-")):
        return (
            TargetReason.PRIORITY_CLASS_NOT_ALLOWED,
            (
                f'CandidateSource "{invitation.name}" does not allow priority class "{wanted}": add it to'
                " spec.priorityClasses, or name another"
            ),
        )
    if wanted and known is not None and wanted not in known:
        return (
            TargetReason.UNKNOWN_PRIORITY_CLASS,
            f'spec.priorityClassName: "{wanted}" does not exist in this cluster: create it, or name another',
        )
    return None


def not_invited(seen: CandidateObserved, unread: Sequence[TargetObservationRefused]) -> str:
    """Return that a source is not invited, as far as that is known, and what to do about it. `unread` are the
    CandidateSources of the namespace that cannot be read."""
    for one in unread:
        return f'CandidateSource "{one.name}" of namespace "{seen.namespace}" cannot be read: mend {one.error}'
    cluster = seen.origin.cluster
    return f'cluster "{cluster}" is not invited into namespace "{seen.namespace}": create a CandidateSource there'


def pod_not_made(seen: CandidateObserved, failure: WriteFailure) -> tuple[str, str]:
    """Return why the API server makes no Pod for a candidate; two empty strings if that may pass by itself."""
    if failure.error == "Foreign":
        return (
            TargetReason.POD_NAME_TAKEN,
            f'a Pod "{seen.name}" is there and is not this candidate\'s: {failure.message}',
        )
    if failure.code in (400, 422):
        return TargetReason.POD_REFUSED, failure.message
    if says_no(failure):
        return TargetReason.POD_NOT_CREATED, f"its Pod cannot be made: {failure.message or failure.error}"
    return "", ""
