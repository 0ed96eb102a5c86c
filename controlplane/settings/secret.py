"""The one secret among the settings: the database's URL. Its text and repr are masked; only `reveal()` gives it away.

Anything that logs, prints or shows settings can therefore do so without thinking.
"""

from __future__ import annotations

import re

MASK = "***"
_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_SECRET_PARAMETER = re.compile(r"([?&](?:password|sslpassword|oauth_client_secret)=)[^&]*", re.IGNORECASE)
_HOST = r"(\[[0-9A-Fa-f:.%]+\]|[^:,\[\]]*)(:[0-9]*)?"
_HOSTS = re.compile(rf"{_HOST}(,{_HOST})*")
_URL_PASSWORD = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@]*):[^\s/]*@")


class DatabaseUrl:
    """A `postgresql://` URL with at most a password in it. Empty means that none was set (and is false)."""

    __slots__ = ("_shown", "_url")

    def __init__(self, url: str = "") -> None:
        self._url = url
        self._shown = _masked(url)

    @classmethod
    def parse(cls, text: str) -> DatabaseUrl:
        """Read a URL in libpq's or SQLAlchemy's spelling; `ValueError`, which never repeats the text, if it is none.

        An empty text is the URL that is not set.
        """
        text = text.strip()
        if not text:
            return cls()
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in _SCHEMES:
            raise ValueError("must begin with postgresql://")
        if re.search(r"%(?![0-9A-Fa-f]{2})", rest):
            raise ValueError("holds a % that is not followed by two hexadecimal digits: write %25 for a percent sign")
        if re.search(r"[\s\x00-\x1f]", rest):
            raise ValueError("holds a space or a control character: write a space as %20")
        if "#" in rest:
            raise ValueError('holds a "#": write it as %23')
        authority = _authority(rest)
        if authority.count("@") > 1:
            raise ValueError('holds more than one "@": write one inside the password as %40')
        if "@" in rest[len(authority) :]:
            raise ValueError(
                'holds an "@" after a "/" or "?": in the password write them as %2F and %3F, elsewhere "@" as %40'
            )
        if _HOSTS.fullmatch(authority.rpartition("@")[2]) is None:
            raise ValueError("holds no proper HOST:PORT: the port is a number, and an IPv6 address stands in brackets")
        return cls(f"postgresql://{rest}")

    def reveal(self) -> str:
        """Return the URL with everything in it: for a driver, for nothing else."""
        return self._url

    def __bool__(self) -> bool:
        return bool(self._url)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatabaseUrl) and other._url == self._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"DatabaseUrl({self._shown!r})"


def mask_urls(text: str) -> str:
    """Return the text with the password of every URL in it masked: for messages that somebody else wrote."""
    return _URL_PASSWORD.sub(rf"\1:{MASK}@", text)


def _authority(rest: str) -> str:
    return re.split(r"[/?]", rest, maxsplit=1)[0]


def _masked(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    authority = _authority(rest)
    user, at, host = authority.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:{MASK}"
    path = _SECRET_PARAMETER.sub(rf"\1{MASK}", rest[len(authority) :])
    return f"{scheme}{separator}{user}{at}{host}{path}"
