"""`controlplane candidates`: what two clusters need so that pods of one may run in the other. `list` is in
`listed`.

In: a kubeconfig with a context for each cluster. Out: the objects on both sides, or their manifests. What is there and
was not made by an invitation is left as it is."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.candidates.described import described
from controlplane.cli.candidates.listed import listed
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import CommandGroup
from controlplane.cli.options import Options, Whole
from controlplane.cli.output import dump, table

if TYPE_CHECKING:
    from controlplane.clusters.streams import ApiServer
    from controlplane.clusters.transport import Transport
    from controlplane.controllers.candidates.invitation import Invitation, Manifest
    from controlplane.kube.kinds import Json

_COLUMNS = ("CLUSTER", "KIND", "NAMESPACE", "NAME", "RESULT")
_LEFT = "left as it is"
Row = tuple[str, str, str, str, str]


@click.group(cls=CommandGroup)
def candidates() -> None:
    """Show the pods that are placed on other clusters, or invite a cluster's pods into another."""


candidates.add_command(listed)
candidates.add_command(described)


@candidates.command()
@click.option("--source", required=True, metavar="CONTEXT", help="The context of the cluster that the pods are of.")
@click.option("--target", required=True, metavar="CONTEXT", help="The context of the cluster that they may go to.")
@click.option("-n", "--namespace", required=True, metavar="NAMESPACE", help="The namespace of the pods, in both.")
@click.option("--source-name", metavar="NAME", help="The source's name: candidates.cluster, else that of its context.")
@click.option("--target-name", metavar="NAME", help="The target's name, as a MultiKueueCluster; else its context's.")
@click.option("--tier", type=Whole(0, 100), default=0, help="Targets of a higher tier are asked after others.")
@click.option("--duration", default="720h", metavar="DURATION", help="For how long the token is asked for; 720h.")
@click.option("--create-namespace", is_flag=True, help="Make the namespace in the source too, if it is not there.")
@click.option("--print", "only_print", is_flag=True, help="Print the manifests of both sides, and create nothing.")
@click.option("--kubeconfig", metavar="FILE", help="The kubeconfig with both contexts; else $KUBECONFIG.")
@click.pass_obj
def invite(options: Options, /, namespace: str, only_print: bool, duration: str, **given: Any) -> None:
    """Let pods of a namespace of one cluster run in another cluster.

    Makes the account, its rights and the CandidateSource in the target, and the kubeconfig Secret, the
    MultiKueueCluster and the CandidateTarget in the source. Run it again before the token ends: it is renewed. A
    namespace that the source does not have is refused, and nothing is made. The code is 1 if something was in the
    way."""
    import asyncio

    from controlplane.controllers.candidates.invitation import Invitation

    settings = options.settings()
    invitation = Invitation(
        source=given["source_name"] or settings.candidates.cluster or given["source"],
        target=given["target_name"] or given["target"],
        namespace=namespace,
        secrets=settings.multikueue.namespace,
        tier=given["tier"],
    )
    _check(invitation, given)
    seconds = _seconds(duration)
    if only_print:
        _print(invitation)
        return
    rows = asyncio.run(_invite(invitation, given, seconds))
    if options.output == "table":
        table(_COLUMNS, rows)
    else:
        dump(options.output, [dict(zip(map(str.lower, _COLUMNS), row, strict=True)) for row in rows])
    if any(row[-1].startswith(_LEFT) for row in rows):
        raise CommandFailure(
            "an object of that name was there before and says something else (see above): choose another name with"
            " --source-name or --target-name, or remove it",
            Exit.FAILED,
        )
    if options.output == "table":
        click.echo(f"Name {namespace} in candidates.namespaces of the service of {invitation.source}, and restart it.")


def _check(invitation: Invitation, given: dict[str, Any]) -> None:
    from controlplane.controllers.candidates.invitation import unusable

    if given["source"] == given["target"]:
        raise CommandFailure("--source and --target are the same context: a cluster needs no invitation", Exit.USAGE)
    for side in ("source", "target"):
        name = getattr(invitation, side)
        if unusable(name):
            raise CommandFailure(
                f'"{name}" cannot be the name of a cluster: give one of small letters, digits and "-" with'
                f" --{side}-name",
                Exit.USAGE,
            )


def _seconds(text: str) -> int:
    from controlplane.kube.durations import parse

    try:
        if (seconds := int(parse(text).total_seconds())) > 0:
            return seconds
        raise ValueError(text)
    except ValueError:
        raise CommandFailure(f'--duration "{text}" is no duration of a token: write one as 720h', Exit.USAGE) from None


def _print(invitation: Invitation) -> None:
    import yaml

    from controlplane.controllers.candidates.invitation import source_side, target_side

    script = f"SERVICE_ACCOUNT={invitation.source} NAMESPACE={invitation.accounts} deploy/rbac/worker/kubeconfig.sh"
    secret = f"the Secret {invitation.secrets}/{invitation.target} with the key kubeconfig, of the target by {script}"
    sides = (
        (f"in the source; and {secret}", source_side(invitation, None)),
        ("in the target", target_side(invitation)),
    )
    for said, manifests in reversed(sides):
        click.echo(f"# {said}")
        click.echo(yaml.safe_dump_all([body for _, body in manifests], sort_keys=False).rstrip())
        click.echo("---")


async def _invite(invitation: Invitation, given: dict[str, Any], seconds: int) -> list[Row]:
    import yaml

    from controlplane.controllers.candidates.invitation import kubeconfig, source_side, target_side

    async with (
        _opened(given["kubeconfig"], given["target"]) as target,
        _opened(given["kubeconfig"], given["source"]) as source,
    ):
        if not target.config.ca_data:
            raise CommandFailure(
                f"the context {given['target']} names no certificate authority, and a MultiKueueCluster needs one:"
                " add certificate-authority-data to its cluster",
                Exit.CONFIGURATION,
            )
        await _check_role(target, given["target"])
        if not given["create_namespace"]:
            await _check_namespace(source, given["source"], invitation.namespace)
        rows = await _put(target, given["target"], target_side(invitation))
        if any(row[-1].startswith(_LEFT) for row in rows):
            return rows  # an account that somebody else made may have other rights: nobody gets a token of it
        token = await _token(target, given["target"], invitation, seconds)
        text = yaml.safe_dump(kubeconfig(target.config.server, target.config.ca_data, token)).encode()
        return [*rows, *await _put(source, given["source"], source_side(invitation, text))]


@contextlib.asynccontextmanager
async def _opened(path: str | None, context: str) -> AsyncIterator[Transport]:
    from controlplane.clusters.kubeconfig import KubeconfigError
    from controlplane.clusters.management_access import from_kubeconfig

    try:
        server = await from_kubeconfig(context, path, context)
    except KubeconfigError as error:
        said = error.message.removeprefix("load client config failed: ")
        raise CommandFailure(f"the context {context} cannot be used: {said}", Exit.CONFIGURATION) from None
    try:
        yield server
    finally:
        await server.close()


async def _check_role(target: Transport, context: str) -> None:
    """Refuse a target that is not prepared, before anything is made there."""
    from controlplane.clusters.protocol import ApiError
    from controlplane.controllers.candidates.invitation import CLUSTER_ROLES, ROLE

    try:
        await target.get(CLUSTER_ROLES, "", ROLE)
    except ApiError as error:
        if error.status != 404:
            raise _failed(context, f"ClusterRole {ROLE}", error) from None
        raise CommandFailure(
            f"{context} has no ClusterRole {ROLE}: kubectl --context {context} apply -k deploy/crds, and -k"
            " deploy/candidates/target",
            Exit.CLUSTER,
        ) from None


async def _check_namespace(source: ApiServer, context: str, namespace: str) -> None:
    """Refuse a namespace that the source does not have, which may be a slip, before anything is made anywhere."""
    import difflib

    from controlplane.clusters.protocol import ApiError
    from controlplane.clusters.streams import ListQuery
    from controlplane.kube.kinds import NAMESPACES, meta

    try:
        await source.get(NAMESPACES, "", namespace)
    except ApiError as error:
        if error.status != 404:  # whoever may not read namespaces is told by what is made
            return
        try:
            listed = await source.list(ListQuery(NAMESPACES))
            known = [str(meta(one).get("name", "")) for one in listed.items]
        except ApiError:
            known = []
        near = difflib.get_close_matches(namespace, known, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise CommandFailure(
            f"{context} has no namespace {namespace}, and so no pods in it: {meant}--create-namespace makes it",
            Exit.NOT_FOUND,
        ) from None


async def _put(server: Transport, context: str, manifests: Sequence[Manifest]) -> list[Row]:
    """Create what is not there, and bring what an invitation made up to date."""
    from controlplane.clusters.protocol import ApiError
    from controlplane.kube.kinds import meta

    rows: list[Row] = []
    for kind, body in manifests:
        namespace, name = str(meta(body).get("namespace", "")), str(meta(body)["name"])
        try:
            result = await _put_one(server, kind, namespace, body)
        except ApiError as error:
            raise _failed(context, f"{kind.kind} {name}", error) from None
        rows.append((context, kind.kind, namespace, name, result))
    return rows


async def _put_one(server: Transport, kind: Any, namespace: str, body: Json) -> str:
    from controlplane.clusters.protocol import ApiError
    from controlplane.controllers.candidates.invitation import MANAGER, is_ours, says_the_same
    from controlplane.kube.kinds import NAMESPACES, SECRETS, ObjectRef, Request, meta

    name = str(meta(body)["name"])
    try:
        found = await server.get(kind, namespace, name)
    except ApiError as error:
        if error.status != 404:
            raise
        await server.create(kind, namespace, body)
        return "created"
    if kind == NAMESPACES or (kind != SECRETS and says_the_same(body, found)):
        return "unchanged"
    if not is_ours(found):
        return f"{_LEFT}: it was not made by an invitation"
    uid = str(meta(found).get("uid", ""))
    change = {**body, "metadata": {"uid": uid, "resourceVersion": meta(found).get("resourceVersion")}}
    ref = ObjectRef(kind, namespace, name)
    await server.write(Request("patch", ref, change, uid=uid, field_manager=MANAGER))
    return "configured"


async def _token(server: Transport, context: str, invitation: Invitation, seconds: int) -> str:
    from controlplane.clusters.protocol import ApiError
    from controlplane.controllers.candidates.invitation import ACCOUNTS
    from controlplane.kube.kinds import ObjectRef, Request

    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    ref = ObjectRef(ACCOUNTS, invitation.accounts, invitation.source)
    try:
        answer = await server.write(Request("create", ref, asked, subresource="token"))
        return str(answer["status"]["token"])
    except ApiError as error:
        raise _failed(context, f"a token of ServiceAccount {invitation.source}", error) from None
    except (KeyError, TypeError):
        raise CommandFailure(f"{context} answered a request for a token without one", Exit.CLUSTER) from None


def _failed(context: str, what: str, error: Any) -> CommandFailure:
    said = " ".join(filter(None, [str(error.status), error.reason]))
    return CommandFailure(f"{context} refuses {what}: {said}: {error.message}", Exit.CLUSTER)
