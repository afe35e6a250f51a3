"""The gradebook's address in print: never with a password."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, quote_plus

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

SECRET = re.compile(r"pass|pwd|secret|token|key|odbc_connect", flags=re.IGNORECASE)
"""Names of parameters in an address that may hold one."""
HIDDEN = "***"
UNREADABLE = "the database that c.CourseDirectory.db_url names"


def shown(db_url: object) -> str:
    """The path of an SQLite gradebook, or the address less what is secret in it."""
    url = _read(db_url)
    if url is None:
        return UNREADABLE
    if file := file_of(db_url):
        return str(file)
    secret = {name: HIDDEN for name in url.query if SECRET.search(name)}
    return url.update_query_dict(secret).render_as_string(hide_password=True).replace(quote(HIDDEN), HIDDEN)


def without_password(text: str, db_url: object) -> str:
    """`text`, in which a driver may have repeated its address, or only the password."""
    text = text.replace(str(db_url), shown(db_url))
    for secret in sorted(_secrets(str(db_url)), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def file_of(db_url: object) -> Path | None:
    """Where an SQLite gradebook lies; None if a server has it."""
    url = _read(db_url)
    if url is None or url.get_backend_name() != "sqlite" or url.host or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database).removeprefix("file:"))


def _read(db_url: object) -> URL | None:
    try:
        return make_url(str(db_url))
    except (ArgumentError, ValueError):
        return None


def _secrets(db_url: str) -> set[str]:
    url = _read(db_url)
    if url is None:
        found = re.findall(r"(?:^|//)[^:/@]*:(.+)@", db_url)
    else:
        named = [value for name, value in url.query.items() if SECRET.search(name)]
        found = [part for value in named for part in ([value] if isinstance(value, str) else value)]
        found += [word for value in found for word in re.findall(r"pwd=([^;]+)", value, flags=re.IGNORECASE)]
        found += [str(url.password)] if url.password else []
    return {form for secret in found for form in (secret, quote(secret, safe=""), quote_plus(secret))}
