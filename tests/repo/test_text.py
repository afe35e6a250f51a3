"""What the files say: commands that exist, links that lead somewhere, nothing about the machine they were written on."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = ["README.md", "README.zh.md"]
PAGES = [*READMES, "CONTRIBUTING.md", "CHANGELOG.md"]

# An absolute path with something below it; a URL's path or a longer path does not count.
MACHINE_PATH = re.compile(r"(?<![\w.~)}-])/(?:home|opt|private|root|tmp|Users|work)/[\w.]")
REGISTRY_HOST = re.compile(r"\b(?:pypi|pythonhosted|npmjs|test\.pypi)\.(?:org|com)\b|\b(?:deb|security)\.debian\.org\b")


def repository_files() -> list[Path]:
    """Every file that git holds or would hold."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return sorted({ROOT / name for name in names if name and (ROOT / name).is_file()})


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", errors="replace")


def findings(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in repository_files()
        for match in pattern.finditer(text_of(path))
    ]


@pytest.mark.requires_debian("git")
def test_no_file_names_a_path_of_a_machine() -> None:
    assert findings(MACHINE_PATH) == []


@pytest.mark.requires_debian("git")
def test_no_file_names_a_package_registrys_host() -> None:
    assert findings(REGISTRY_HOST) == []


@pytest.mark.parametrize("text", [f'open("/{top}/x")' for top in ("home", "opt", "root", "tmp", "Users", "work")])
def test_the_search_would_find_a_machine_path(text: str) -> None:
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("name", ["pypi", "files.pythonhosted", "registry.npmjs", "deb.debian"])
def test_the_search_would_find_a_registry_host(name: str) -> None:
    assert REGISTRY_HOST.search(f"https://{name}.org/simple")


@pytest.mark.parametrize(
    "text", ["https://example.org/home/index.html", "--tmpfs /tmp ", "../root/x", "a/work/b", "$HOME/work/x"]
)
def test_the_search_leaves_other_paths_alone(text: str) -> None:
    assert not MACHINE_PATH.search(text)


def code_on(page: str) -> str:
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL))


@pytest.mark.parametrize("page", PAGES)
def test_every_make_command_on_a_page_is_a_target(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)", code_on(page))) <= targets


@pytest.mark.parametrize("main", ["minivllm.cli", "autograder.cli"])
def test_every_command_of_ours_in_the_readme_exists(main: str) -> None:
    name = main.split(".")[0]
    commands = set(re.findall(rf"(?:bin/|-m ){name} (bench [a-z-]+|[a-z-]+)", code_on("README.md")))
    assert commands
    for command in commands:
        code = [sys.executable, "-c", f"from {main} import main; main()", *command.split(), "--help"]
        done = subprocess.run(code, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name} {command}: {done.stderr}"


@pytest.mark.parametrize("page", READMES)
def test_a_readme_gives_the_two_commands(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "make lab" in text
    assert "make test" in text


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_leads_to_one(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)|<img[^>]+src=\"(?!https?:)([^\"]+)\"", text)
    for target in filter(None, (link or image for link, image in targets)):
        assert (ROOT / target).exists(), f"{page} links to {target}"


def test_both_readmes_have_the_same_parts() -> None:
    """Same number of headings at each level, the same code blocks less comments, the same rows in tables."""

    def shape(page: str) -> tuple[list[int], list[str], int]:
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = re.findall(r"```\w*\n(.*?)```", text, flags=re.DOTALL)
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        headings = [len(level) for level in re.findall(r"^(#+) ", prose, flags=re.MULTILINE)]
        return (
            headings,
            [re.sub(r"\s*#.*", "", block) for block in blocks],
            len(re.findall(r"^\|", prose, flags=re.MULTILINE)),
        )

    assert shape("README.md") == shape("README.zh.md")
