"""Kueue's answers to random questions, as they were recorded: of all a digest, of some the whole, and all digests of
those to which Kueue does not always answer alike."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from controlplane.kube.kinds import Json

_DATA = Path(__file__).parent / "data"


class RecordedAnswers:
    """See the module; `name` is how the files in `data` begin. `full`: whole answers by seed, as text."""

    def __init__(self, name: str) -> None:
        self._digests = (_DATA / f"{name}-digests.bin").read_bytes()
        kept = json.loads(gzip.decompress((_DATA / f"{name}-answers.json.gz").read_bytes()))
        self.full, self._several = kept["full"], kept["several"]
        self.questions = len(self._digests) // 8

    def expected(self, seed: int) -> set[bytes]:
        """Return the digests of the answers that Kueue gives to a question."""
        several = self._several.get(str(seed))
        return {bytes.fromhex(one) for one in several} if several else {self._digests[seed * 8 : seed * 8 + 8]}


def as_json(found: Json) -> Json:
    """Return an answer as it is read from JSON."""
    made: Json = json.loads(json.dumps(found))
    return made
