"""The database's password is in no text that the settings give of themselves, nor in any complaint about them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from controlplane.settings import DatabaseUrl, SettingsError, load, mask_urls, plain
from tests.support.rows import each

SECRET = "hunter2"


@each(
    ("given_url", "shown"),
    [
        ("postgresql://u:hunter2@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgres://u:hunter2@h/d", "postgresql://u:***@h/d"),
        ("postgresql+psycopg://u:hunter2@h/d?sslmode=require", "postgresql://u:***@h/d?sslmode=require"),
        ("postgresql:///d?host=/tmp/x&password=hunter2&user=u", "postgresql:///d?host=/tmp/x&password=***&user=u"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://u:hunter2@[::1]:5432/d", "postgresql://u:***@[::1]:5432/d"),
        ("postgresql://:hunter2@h/d", "postgresql://:***@h/d"),
        ("postgresql://u:a:hunter2@h1,h2:5433/d", "postgresql://u:***@h1,h2:5433/d"),
        ("postgresql://h?sslpassword=hunter2", "postgresql://h?sslpassword=***"),
    ],
)
def test_only_reveal_gives_it_away(given_url: str, shown: str) -> None:
    settings = load(None, {"CONTROLPLANE_DATABASE_URL": given_url})
    url = settings.database.url
    assert str(url) == shown
    assert url.reveal().partition("://")[2] == given_url.partition("://")[2]
    assert url.reveal().startswith("postgresql://")
    for text in (
        repr(settings),
        str(settings),
        f"{url}",
        f"{url!r}",
        str(plain(settings)),
        str(msgspec.to_builtins(plain(settings))),
    ):
        assert SECRET not in text
    assert make_url(url.reveal()).get_backend_name() == "postgresql"


@each(
    "url",
    [
        "mysql://u:hunter2@h/d",
        "hunter2",
        "postgresql://u:hunter2%zz@h/d",
        "postgresql://u:hunter2 @h/d",
        "postgresql://u:hunter2#x@h/d",
        "postgresql://u:hunter2@x@h/d",
        "postgresql://u:hunter2/x@h/d",
        "postgresql://u:hunter2?x@h/d",
        "postgresql://u:hunter2",
        "host=h password=hunter2",
    ],
)
def test_a_refusal_does_not_repeat_it(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, {"CONTROLPLANE_DATABASE_URL": url})
    assert SECRET not in str(caught.value)
    assert str(caught.value).startswith("CONTROLPLANE_DATABASE_URL: database.url ")


def test_equal_urls_are_equal() -> None:
    assert DatabaseUrl.parse("postgres://h/d") == DatabaseUrl.parse("postgresql://h/d")
    assert len({DatabaseUrl.parse("postgres://h/d"), DatabaseUrl.parse("postgresql://h/d")}) == 1
    assert not DatabaseUrl()
    assert DatabaseUrl.parse("  ") == DatabaseUrl()


def test_texts_of_others_are_masked() -> None:
    assert mask_urls("no: postgresql://u:hunter2@h/d, https://x:y@z") == "no: postgresql://u:***@h/d, https://x:***@z"
    assert mask_urls("http://host:8080/a@b") == "http://host:8080/a@b"


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).map(lambda text: f"Q{text}Q"))
def test_no_password_is_ever_shown(password: str) -> None:
    said = ""
    try:
        url = DatabaseUrl.parse(f"postgresql://u:{password}@h/d")
    except ValueError as error:
        said = str(error)
    else:
        said = str(url)
        assert password in url.reveal()
    assert said
    assert password not in said
