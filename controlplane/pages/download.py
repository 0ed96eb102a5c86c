"""The evidence of a Workload as a file: what `controlplane export` writes, from the reader's role.

In: a request. Out: the file, complete before its first byte is sent, so that what fails is said and not cut off. It has
the events that the Workload's rest on, of whatever namespace: it is for who may see all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from controlplane.audit.evidence import lines_of
from controlplane.audit.export import Export
from controlplane.pages.asking import Asked
from controlplane.pages.site import Site, allowed_for
from controlplane.pages.views.workload import named

_IN_MEMORY = 8 * 2**20
_PIECE = 2**16


def evidence(site: Site, program: str) -> Callable[[Request], Any]:
    """Return the endpoint."""

    async def answer(request: Request) -> Response:
        await allowed_for(site, request, {}, everything=True)
        file = await run_in_threadpool(written, request)
        name = f"{request.path_params['namespace']}_{request.path_params['name']}.jsonl".encode("ascii", "replace")
        kept = "".join(letter for letter in name.decode() if letter.isalnum() or letter in "._-")
        headers = {"Content-Disposition": f'attachment; filename="{kept}"'}
        return StreamingResponse(_pieces(file), media_type="application/jsonl", headers=headers)

    def written(request: Request) -> IO[bytes]:
        file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed when it is sent
        with site.readers.reader() as reader:
            asked = Asked(reader, site.follower, site.settings, site.clock.now(), request.path_params)
            made = Export(reader, named(asked), program)
            for line in lines_of(made.header, made.rows()):
                file.write(line)
        file.seek(0)
        return file

    return answer


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece
