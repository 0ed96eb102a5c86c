"""What the service says about itself, caught instead of printed.

In: the calls of structlog anywhere in the process. Out: warnings and errors to one listener, everything else to nobody.
The configuration that was there before is put back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

_HEARD = ("warning", "error", "critical", "exception")


class WarningListener:
    """Who hears of warnings and errors: `listener(level, text)`."""

    def __init__(self) -> None:
        self.listener: Callable[[str, str], None] | None = None

    def __call__(self, _: Any, level: str, event: MutableMapping[str, Any]) -> str:
        """Pass one message on; a structlog processor."""
        if self.listener is not None and level in _HEARD:
            told = " ".join(
                f"{key}={value!r}" for key, value in sorted(event.items()) if key not in ("event", "exc_info")
            )
            error = event.get("exc_info")
            if error is True:
                error = sys.exc_info()[1]
            self.listener(level, f"{event.get('event')} {told}" + (f" {error!r}" if error else ""))
        raise structlog.DropEvent


@contextmanager
def hushed() -> Generator[WarningListener]:
    """Catch what is logged while the block runs."""
    before, was_configured = structlog.get_config(), structlog.is_configured()
    warnings = WarningListener()
    structlog.configure(
        processors=[warnings],
        wrapper_class=structlog.make_filtering_bound_logger(30),
        cache_logger_on_first_use=False,
    )
    try:
        yield warnings
    finally:
        if was_configured:
            structlog.configure(**before)
        else:
            structlog.reset_defaults()
