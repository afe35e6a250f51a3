"""A list of students comes into the gradebook whole or not at all, however a registrar or Excel wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.gradebook.roster import Listed, RosterError, enter, read

ROWS = [Listed("wang", "小明", "王", "wang@example.edu"), Listed("zoe", "Zoë", "O'Brien", "")]
PLAIN = "id,first_name,last_name,email\nwang,小明,王,wang@example.edu\nzoe,Zoë,O'Brien,\n"


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "students.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.replace(",", ";"),
        b"\xef\xbb\xbfsep=;\r\n" + PLAIN.replace(",", ";").replace("\n", "\r\n").encode(),
        PLAIN.replace(",", "\t"),
        "Email,Last Name,ID,First Name\nwang@example.edu,王,wang,小明\n,O'Brien,zoe,Zoë\n",
        'id,first_name,last_name,email\n\nwang , 小明,王,wang@example.edu\n,,,\nzoe,Zoë,"O\'Brien",\n\n',
    ],
    ids=["plain", "BOM", "semicolons", "Excel", "tabs", "any order", "blank lines and spaces"],
)
def test_a_table_is_read_as_registrars_and_excel_write_it(tmp_path: Path, content: str | bytes) -> None:
    assert read(written(tmp_path, content)) == (ROWS, [])


def test_columns_that_are_not_used_are_named(tmp_path: Path) -> None:
    assert read(written(tmp_path, "id,seat\nwang,7\n")) == ([Listed("wang")], ["seat"])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty: its first line names the columns id, first_name, last_name, email"),
        ("id,email\n", "names no student"),
        ("name,email\nwang,\n", "has the columns name, email: its first line names id"),
        ("id,id\nwang,wang\n", "and no column twice"),
        ("id\nwang\n../etc\n", "line 3 has the id '../etc', which can't be a folder's name"),
        ("id\n.hidden\n", "line 2 has the id '.hidden'"),
        ("id\na*\n", "line 2 has the id 'a*'"),
        ("id,email\n,a@b.c\n", "line 2 has no id"),
        ("id,email\nwang,nowhere\n", "line 2 has the email 'nowhere', which is none"),
        ("id,email\nwang,a@b.c,more\n", "line 2 has 3 fields, and the first line 2"),
        ("id,email\nwang\n", "line 2 has 1 fields, and the first line 2"),
        ("id\nwang\nzoe\nwang\n", "line 4 has the id 'wang' of line 2 again"),
        (f"id\n{'x' * 129}\n", "line 2 has more than 128 characters in id"),
        ("id,email\nx,bad\n" + "".join(f"{n}/,\n" for n in range(20)), "and 11 more: nobody was entered"),
        (PLAIN.encode("utf-16"), "is not UTF-8: in Excel, save it as `CSV UTF-8`"),
        (PLAIN.encode("gb18030", "replace"), "is not UTF-8"),
        (b"PK\x03\x04\x00\x00", "is not UTF-8"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, content: str | bytes, told: str) -> None:
    with pytest.raises(RosterError) as caught:
        read(written(tmp_path, content))
    assert told in str(caught.value) and str(tmp_path / "students.csv") in str(caught.value)


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(RosterError, match=r"can't be read \(.*\): name a CSV file"):
            read(path)


def test_entering_twice_changes_nothing_and_a_new_address_only_itself(tmp_path: Path) -> None:
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        assert enter(gradebook.db, ROWS) == (2, 0)
        assert enter(gradebook.db, ROWS) == (0, 0)
        assert enter(gradebook.db, [Listed("wang", email="ming@example.edu"), Listed("new")]) == (1, 1)
        wang = gradebook.find_student("wang")
        assert (wang.first_name, wang.last_name, wang.email) == ("小明", "王", "ming@example.edu")
        assert {student.id for student in gradebook.students} == {"wang", "zoe", "new"}
