"""The password of the gradebook's database is printed nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.commands import told_plainly
from autograder.gradebook.address import file_of, shown, without_password
from minivllm.cli import UsageError

SECRET = "ge@h/eim"
ADDRESSES = (
    "postgresql://ta:ge%40h%2Feim@db.example:5432/grades",
    "postgresql+psycopg://ta:ge%40h%2Feim@db.example/grades?sslmode=require",
    "postgresql://db.example/grades?user=ta&password=ge%40h%2Feim",
    "postgresql://db.example/grades?sslmode=require&sslpassword=ge%40h%2Feim",
    "mysql+pymysql://ta:ge%40h%2Feim@db.example/grades?passwd=ge%40h%2Feim",
    "mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BPWD%3Dge%40h%2Feim%3BSERVER%3Ddb.example",
    "ta:ge@h/eim@db.example",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_shown_without_its_password(address: str) -> None:
    for told in (shown(address), without_password(f"could not reach {address} with {SECRET!r} as {address}", address)):
        assert SECRET not in told and "ge%40h%2Feim" not in told and "eim" not in told
    assert file_of(address) is None


def test_what_is_no_secret_is_shown() -> None:
    assert shown(ADDRESSES[0]) == "postgresql://ta:***@db.example:5432/grades"
    assert shown(ADDRESSES[2]) == "postgresql://db.example/grades?password=***&user=ta"
    assert shown("sqlite:////srv/class/gradebook.db") == "/srv/class/gradebook.db"
    assert file_of("sqlite:////srv/class/gradebook.db") == Path("/srv/class/gradebook.db")


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_error_about_the_gradebook_is_one_sentence_without_the_password(address: str) -> None:
    """A driver that is not installed, a name that is unknown, an address that is none: whatever comes of it here."""
    from nbgrader.api import Gradebook

    with pytest.raises(UsageError) as caught, told_plainly(address):
        Gradebook(address)
    told = str(caught.value.message)  # type: ignore[attr-defined]
    assert "the gradebook" in told and "can't be used" in told and "eim" not in told.replace("time", "")


def test_what_a_driver_repeats_of_the_address_is_hidden_too() -> None:
    from sqlalchemy.exc import OperationalError

    with pytest.raises(UsageError) as caught, told_plainly(ADDRESSES[0]):
        raise OperationalError("select 1", None, RuntimeError(f"password {SECRET} is wrong for {ADDRESSES[0]}"))
    assert "eim" not in str(caught.value.message)  # type: ignore[attr-defined]
    assert "see that the database runs" in str(caught.value.message)  # type: ignore[attr-defined]
