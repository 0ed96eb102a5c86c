"""An admission webhook over HTTPS: AdmissionReviews in, answers out, with a certificate that may change while it is
served.

In: the functions that answer, by path, certificate files, an address. Out: a running server. The certificate is looked
at by content every few seconds: a mounted Secret changes by a link that is swapped, and its times mislead. One that
cannot be used leaves the one before in force."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import structlog
from aiohttp import web

from controlplane.kube.expiry import certificate_expiry
from controlplane.tasks import end
from controlplane.web.guard import Guard
from controlplane.web.ops import WebServer, serve_guarded

_log = structlog.get_logger(__name__)

LOOK_AGAIN = 5.0  # seconds between two looks at the files
_SOON = timedelta(days=1)
_MOST = 256  # connections at a time: every API server of a cluster keeps some
# An object has at most 3 MiB in an API server, and a review may hold it as it was besides; controller-runtime's own
# limit (pkg/webhook/admission/http.go).
_LARGEST = 7 * 1024 * 1024
_SMALL = 64 * 1024  # most reviews are no larger; of all others few are in memory at a time, whoever sends them
_LARGE_AT_ONCE = 2
_LARGE_WAITING = 6  # of those that are read, how many may wait for what they rest on, beside these
_WAIT = 2.0  # seconds for which a large one waits for those before it
_ARRIVES = 5.0  # seconds for all of a large one to be here: an API server waits no longer for its answer
Json = dict[str, Any]
MayWait = Callable[[], bool]
"""Asked before each pause of an answer: whether there is room for a review that waits. If there is not, it is answered
by what is known."""
Answer = Callable[[Json, MayWait], Awaitable[Json]]
"""Answers a review; raises `ValueError` with the reason for what is none."""


class CertificateError(Exception):
    """The certificate cannot be used; the message is one sentence that names the file and says what to do."""


class Certificate:
    """A certificate and its key in files, and the TLS context that serves them. `CertificateError` if they cannot be
    used.
    """

    def __init__(self, certificate: str, key: str = "") -> None:
        self._files = certificate, key or certificate
        self._seen = self._fingerprint()
        self.context = self.fresh()

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for file in dict.fromkeys(self._files):
            try:
                digest.update(Path(file).expanduser().read_bytes())
            except OSError as error:
                raise CertificateError(f"{file} cannot be read ({error.strerror or error}): mount it there") from None
        return digest.hexdigest()

    def fresh(self) -> ssl.SSLContext:
        """Return a context of its own with what is in the files now."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        certificate, key = (str(Path(file).expanduser()) for file in self._files)
        try:
            # Without a password: a key that asks for one must not stop the process at a prompt.
            context.load_cert_chain(certificate, key, password=lambda: "")
        except (ssl.SSLError, OSError) as error:
            said = getattr(error, "reason", None) or error.strerror or error
            what = f"{self._files[0]} with {self._files[1]} is no certificate with its key ({said})"
            raise CertificateError(f"{what}: both must be PEM and belong together") from None

    def ending(self, now: datetime) -> str:
        """Return the sentence that says that the certificate has ended, or will within a day; "" for none."""
        try:
            ends = certificate_expiry(Path(self._files[0]).expanduser().read_bytes())
        except OSError:  # `renew` says it
            return ""
        if ends is None or ends - now > _SOON:
            return ""
        return f"{self._files[0]} ends at {ends:%Y-%m-%d %H:%M:%S} UTC: renew it, since API servers refuse it then"

    def renew(self) -> bool:
        """Take over what is in the files now, for connections from now on; return whether it is another certificate."""
        found = self._fingerprint()
        if found == self._seen:
            return False
        self.fresh()  # in a context of its own first: a bad one would leave the one in use half changed
        self._load(self.context)
        self._seen = found
        return True


async def renewing(certificate: Certificate, renew: Callable[[], bool], what: str) -> None:
    """Take over what is in a certificate's files by `renew`, until cancelled; say when it changed, when it cannot be
    used, and when it is about to end.
    """
    said = ""
    while True:
        try:
            if renew():
                _log.info(f"{what} changed")
            wrong, event = certificate.ending(datetime.now(UTC)), f"{what} ends"
        except CertificateError as error:
            wrong, event = str(error), f"{what} not changed"
        if wrong and wrong != said:
            _log.warning(event, error=wrong)
        said = wrong
        await asyncio.sleep(LOOK_AGAIN)


class Webhook:
    """A running webhook. `port` is the one it got."""

    def __init__(self, server: WebServer, certificate: Certificate) -> None:
        self._server = server
        watching = renewing(certificate, certificate.renew, "webhook certificate")
        self._task = asyncio.create_task(watching, name="webhook certificate")

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._server.port

    async def stop(self) -> None:
        """Stop listening."""
        try:
            await end(self._task)
        finally:
            await self._server.stop()


async def serve_webhook(
    answers: Mapping[str, Answer], certificate: Certificate, address: str, port: int, section: str = "webhook"
) -> Webhook:
    """Listen for reviews POSTed to some paths and return the running webhook; `ListenError` if that cannot be done,
    which names the settings of a section.
    """
    app = web.Application(client_max_size=_LARGEST)
    large = _LargeReviews()
    for path, answer in answers.items():
        app.router.add_post(path, functools.partial(_handle, answer, large))
    guard = Guard(_MOST)
    server = await serve_guarded(app, guard, address, port, section, certificate.context)
    return Webhook(server, certificate)


class _LargeReviews:
    """The large reviews of one port: those that are being read and answered, and those that wait meanwhile."""

    def __init__(self) -> None:
        self.under_way = asyncio.Semaphore(_LARGE_AT_ONCE)
        self.waiting = 0


class _LargeReview:
    """A large review that is under way. While it waits for what it rests on, the next one is read in its place."""

    def __init__(self, large: _LargeReviews) -> None:
        self._large, self._waits = large, False

    def may_wait(self) -> bool:
        """Whether there is room for it among those that wait."""
        if not self._waits and self._large.waiting < _LARGE_WAITING:
            self._waits = True
            self._large.waiting += 1
            self._large.under_way.release()
        return self._waits

    def over(self) -> None:
        """Give its place to another one."""
        if self._waits:
            self._large.waiting -= 1
        else:
            self._large.under_way.release()


async def _handle(answer: Answer, large: _LargeReviews, request: web.Request) -> web.Response:
    length = request.content_length
    if length is not None and length <= _SMALL and "Content-Encoding" not in request.headers:
        return await _answered(answer, await request.read(), always)
    try:
        async with asyncio.timeout(_WAIT):
            await large.under_way.acquire()
    except TimeoutError:
        return web.Response(status=503, text="too many large reviews come at once: ask again\n")
    review = _LargeReview(large)
    try:
        async with asyncio.timeout(_ARRIVES):
            body = await request.read()
        return await _answered(answer, body, review.may_wait)
    except TimeoutError:
        return web.Response(status=408, text="the review did not come in time\n")
    finally:
        review.over()


def always() -> bool:
    """Return that there is room for a review that waits."""
    return True


async def _answered(answer: Answer, body: bytes, may_wait: MayWait) -> web.Response:
    try:
        review = orjson.loads(body)
        if not isinstance(review, dict):
            raise ValueError("an AdmissionReview is an object")
        return web.Response(body=orjson.dumps(await answer(review, may_wait)), content_type="application/json")
    except ValueError as error:  # orjson's, and the answer's own
        return web.Response(status=400, text=f"{error}\n")
