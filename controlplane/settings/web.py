"""The settings of the pages: where they are served, who may see them, and what they read the log as."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

from controlplane.settings.rules import Checked, Choice, Duration, Items, Setting, Text, ip_address
from controlplane.settings.words import PORT, YES_NO
from controlplane.values import Value

NONE, PROXY, TOKEN = AUTHENTICATION = ("none", "proxy", "token")
ADDRESS, LOOPBACK = PUBLISHED = ("address", "loopback")
_HEADER = Text(what="the name of an HTTP header", pattern=r"[A-Za-z0-9-]+", longest=128)


class WebSettings(Value, rename="camel"):
    """The pages for people and the read API beside them: `controlplane web`, and `controlplane run` if it is to serve
    them as well."""

    serve: Annotated[
        str, Setting(YES_NO, "Whether `controlplane run` serves the pages as well. `controlplane web` always does.")
    ] = "no"
    address: Annotated[str, Setting(Checked("IP address", ip_address), "The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Setting(PORT, "The port to listen on. 0: any free one.")] = 8081
    authentication: Annotated[
        str,
        Setting(
            Choice(AUTHENTICATION),
            "Who asks. `none`: whoever reaches the address sees all, so it must be loopback. `proxy`: an "
            "authenticating proxy says it in headers. `token`: a bearer token that the management cluster knows. With "
            "both, what somebody sees is what the management cluster lets them get.",
        ),
    ] = NONE
    published: Annotated[
        str,
        Setting(
            Choice(PUBLISHED),
            "How the address is reached. `loopback`: only through this machine's own loopback, as the port of a "
            "container that is published there. Then `none` may listen on any address; answered are loopback's names "
            "all the same. `address`: as it is.",
        ),
    ] = ADDRESS
    trusted_proxies: Annotated[
        tuple[str, ...],
        Setting(
            Items("addresses or networks, such as `10.0.0.7` or `10.0.0.0/24`", r"[0-9A-Fa-f.:]+(/[0-9]{1,3})?", 64),
            "From where the headers of `proxy` are believed; everybody else is refused.",
        ),
    ] = ()
    user_header: Annotated[str, Setting(_HEADER, "The header in which the proxy names the user.")] = "X-Forwarded-User"
    groups_header: Annotated[
        str, Setting(_HEADER, "The header in which the proxy names the user's groups, separated by commas.")
    ] = "X-Forwarded-Groups"
    role: Annotated[
        str,
        Setting(
            Text(what="the name of a role", pattern=r"[^\x00-\x1f]+", longest=63, empty=True),
            "The role as which the pages read (`SET ROLE`). Empty: it stays the login's own.",
        ),
    ] = "controlplane_reader"
    whatif_directory: Annotated[
        str,
        Setting(
            Text(what="a directory", pattern=r"[^\x00-\x1f]+", longest=4096, empty=True),
            "A directory with reports of `controlplane whatif -o json`, each in a file `NAME.json`: the page "
            "`/whatif` shows them. Empty: none.",
        ),
    ] = ""
    patience: Annotated[
        timedelta,
        Setting(
            Duration(most=timedelta(minutes=5)),
            "How long PostgreSQL may work on one question of a page; then the page says that less has to be asked.",
        ),
    ] = timedelta(seconds=10)


def web_contradictions(web: WebSettings) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values do not go with others, each with the reason, to follow the key's name."""
    everywhere = web.published == ADDRESS and not ipaddress.ip_address(web.address).is_loopback
    if web.authentication == NONE and everywhere:
        yield (
            "web.authentication",
            (
                f"is none, and web.address is {web.address}: whoever reaches it would see all; choose proxy or token, "
                "or listen on 127.0.0.1"
            ),
        )
    if web.authentication == PROXY and not web.trusted_proxies:
        yield "web.trustedProxies", "must name the proxy when web.authentication is proxy: its headers are believed"
    for network in web.trusted_proxies:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            yield "web.trustedProxies", f'has "{network}", which is neither an address nor a network: write 10.0.0.0/24'
