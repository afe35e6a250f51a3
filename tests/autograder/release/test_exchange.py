"""nbgrader's exchange, with nbgrader's own commands on the students' side: out, in, and the feedback back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.config import ConfigError, clone_config
from autograder.intake.handing_in import SECRET, TIMESTAMP, carried, for_nbgrader
from autograder.paths import CLONE
from autograder.release.course import CourseError
from autograder.release.feedback_exchange import hand_out
from autograder.release.publish import exchange_folder
from tests.autograder.classroom import LESSON, NOTEBOOK

BY_HAND = "came-by-mail"


class Hub:
    """A machine with an exchange folder that Jupyter's own configuration names, an instructor and a student."""

    def __init__(self, root: Path) -> None:
        self.exchange, self.room, self.home = root / "exchange", root / "class", root / "home"
        self.jupyter = root / "jupyter"
        for folder in (self.exchange, self.room, self.home, self.jupyter):
            folder.mkdir()
        self.exchange.chmod(0o777)
        self.configure(self.exchange)

    def configure(self, exchange: Path) -> None:
        named = f"c.Exchange.root = {str(exchange)!r}\nc.CourseDirectory.course_id = 'minivllm'\n"
        (self.jupyter / "nbgrader_config.py").write_text(named)

    def run(self, *command: str, cwd: Path = CLONE, code: int = 0) -> str:
        environment = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(self.jupyter),
            "JUPYTER_DATA_DIR": str(self.home / ".jupyter"),
            "MINIVLLM_CLASSROOM": str(self.room),
            "PYTHONPATH": str(CLONE),
        }
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def student(self, *command: str) -> str:
        return self.run("nbgrader", *command, cwd=self.home)

    @property
    def who(self) -> str:
        [folder] = [path.name for path in (self.room / "submitted").iterdir() if path.name != BY_HAND]
        return folder

    @property
    def pages(self) -> list[Path]:
        return sorted((self.home / LESSON / "feedback").glob("*/*.html"))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Hub:
    """A student has handed in through the exchange and another by hand, and both are graded."""
    hub = Hub(tmp_path_factory.mktemp("hub"))
    told = hub.run("autograder", "release", "zh", "--exchange")
    outbound = hub.exchange / "minivllm" / "outbound" / LESSON
    assert f"released: {CLONE / 'course' / 'zh' / LESSON} and {outbound}" in told
    released = (CLONE / "course" / "zh" / LESSON / f"{NOTEBOOK}.ipynb").read_bytes()
    assert (outbound / f"{NOTEBOOK}.ipynb").read_bytes() == released
    hub.student("fetch_assignment", LESSON)
    hub.student("submit", LESSON)
    hub.run("nbgrader", "collect", LESSON)
    by_hand = hub.room / "submitted" / BY_HAND / LESSON
    by_hand.mkdir(parents=True)
    (by_hand / f"{NOTEBOOK}.ipynb").write_bytes(released)
    told = hub.run("autograder", "grade")
    assert "2 graded" in told
    return hub


pytestmark = pytest.mark.requires_debian("bubblewrap")


def test_feedback_of_nbgraders_own_comes_to_the_student_though_another_has_no_secret(hub: Hub) -> None:
    autograded = hub.room / "autograded" / hub.who / LESSON
    for name in (SECRET, TIMESTAMP):
        submitted = hub.room / "submitted" / hub.who / LESSON / name
        assert (autograded / name).read_text().strip() == submitted.read_text().strip() != ""
    hub.run("nbgrader", "generate_feedback", LESSON)
    hub.run("nbgrader", "release_feedback", LESSON)
    hub.student("fetch_feedback", LESSON)
    assert f"{NOTEBOOK}.html" in [page.name for page in hub.pages]
    assert all("HIDDEN TESTS" not in page.read_text(encoding="utf-8") for page in hub.pages)


def test_the_courses_own_page_comes_to_the_student_in_the_place_of_nbgraders(hub: Hub, tmp_path: Path) -> None:
    page = tmp_path / "feedback.html"
    page.write_text("<p>your feedback</p>", encoding="utf-8")
    config = clone_config()
    config.Exchange.root = str(hub.exchange)
    config.CourseDirectory.submitted_directory = str(hub.room / "submitted")
    folder, without = hand_out(config, LESSON, {hub.who: page, BY_HAND: page, "nobody": page})
    assert (folder, without) == (hub.exchange / "minivllm" / "feedback", [BY_HAND, "nobody"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o711
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.glob("*.html")} == {0o644}
    hub.student("fetch_feedback", LESSON)
    assert len(hub.pages) == len([*(CLONE / "course" / "en" / LESSON).glob("*.ipynb")])
    assert {each.read_text(encoding="utf-8") for each in hub.pages} == {"<p>your feedback</p>"}


@pytest.fixture
def jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's folder for configuration."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("MINIVLLM_CLASSROOM", str(tmp_path / "class"))
    (tmp_path / "jupyter").mkdir()
    return tmp_path / "jupyter"


def test_the_configuration_is_read_where_nbgrader_reads_it_and_the_clones_wins(jupyter: Path) -> None:
    (jupyter / "nbgrader_config.py").write_text("c.Exchange.root = '/x'\nc.CourseDirectory.course_id = 'other'\n")
    assert clone_config().Exchange.root == "/x"
    assert clone_config().CourseDirectory.course_id == "minivllm"
    (jupyter / "nbgrader_config.py").unlink()
    (jupyter / "nbgrader_config.json").write_text('{"Exchange": {"root": "/y"}}')
    assert clone_config().Exchange.root == "/y"


def test_the_configuration_on_jupyters_path_is_read_too(
    jupyter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "nbgrader_config.py").write_text("c.Exchange.root = '/site'\n")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "site"))
    assert clone_config().Exchange.root == "/site"
    (jupyter / "nbgrader_config.py").write_text("c.Exchange.root = '/mine'\n")
    assert clone_config().Exchange.root in ("/mine", "/site")


def test_a_configuration_that_can_not_be_read_is_named(jupyter: Path) -> None:
    (jupyter / "nbgrader_config.py").write_text("c.Exchange.root = \n")
    with pytest.raises(
        ConfigError, match=rf"can't be read \(SyntaxError: .*correct the nbgrader_config\.py in .*{jupyter}"
    ):
        clone_config()


def test_an_exchange_that_is_not_there_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    hub.configure(tmp_path / "none")
    told = hub.run("autograder", "release", "en", "--exchange", code=2)
    assert f"error: nbgrader's exchange folder {tmp_path / 'none'} is not there: make it (`mkdir -p" in told
    assert "c.Exchange.root" in told and told.count("\n") == 1 and not (hub.room / "gradebook.db").exists()


def test_an_exchange_that_can_not_be_written_to_is_refused(jupyter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (jupyter / "nbgrader_config.py").write_text(f"c.Exchange.root = {str(jupyter)!r}\n")
    monkeypatch.setattr("autograder.release.publish.check_directory", lambda *_, **__: False)  # root may write anywhere
    with pytest.raises(CourseError, match=rf"exchange folder {jupyter} can't be written to: open it"):
        exchange_folder(clone_config())


@pytest.mark.parametrize("name", [TIMESTAMP, SECRET])
def test_what_lies_beside_the_notebooks_is_carried_only_where_it_is_what_it_should_be(
    tmp_path: Path, name: str
) -> None:
    right = {TIMESTAMP: "2026-05-02 14:00:00 UTC", SECRET: "a" * 128}[name]
    path = tmp_path / name
    path.write_text(right)
    files, notes = carried(tmp_path)
    assert notes == [] and files[name].decode().strip() == right
    wrong = ["", "no", "x" * 10_000, right + "\0", "é" * 40, "2026-99-99 99:99:99 UTC"]
    for text in wrong:
        path.write_text(text)
        files, notes = carried(tmp_path)
        assert files == {} and [note.kind for note in notes] == ["flagged"], text
    path.unlink()
    path.symlink_to("/etc/hostname")
    assert carried(tmp_path)[0] == {}
    path.unlink()
    os.mkfifo(path)
    assert carried(tmp_path)[0] == {}
    path.unlink()
    path.mkdir()
    assert carried(tmp_path)[0] == {}
    assert carried(tmp_path / "none") == ({}, [])


def test_where_files_are_lacking_nbgrader_gets_some_with_which_nobody_finds_anything() -> None:
    one, other = for_nbgrader({}), for_nbgrader({})
    assert one[TIMESTAMP] == b"" and len(one[SECRET]) == 128 and one[SECRET] != other[SECRET]
    assert for_nbgrader({SECRET: b"s", TIMESTAMP: b"t"}) == {SECRET: b"s", TIMESTAMP: b"t"}
