"""pyproject.toml gives ranges, constraints.txt pins what was tested, environment.yml and the Makefile install the same."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
DEPENDENCIES = {str(canonicalize_name(r.name)): r for r in map(Requirement, PROJECT["dependencies"])}
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
PINS = {str(canonicalize_name(r.name)): r for r in map(Requirement, LINES)}
EVERYTHING = [Requirement(line) for lines in (PROJECT["dependencies"], *EXTRAS.values()) for line in lines]


def pinned(name: str) -> str:
    (specifier,) = PINS[canonicalize_name(name)].specifier
    return specifier.version


@pytest.mark.parametrize(
    ("name", "tested"), [("torch", "2.13.0"), ("triton", "3.7.1"), ("jupyterlab", "4.6.6"), ("nbgrader", "0.9.6")]
)
def test_constraints_pin_the_tested_versions(name: str, tested: str) -> None:
    assert pinned(name) == tested


def test_a_constraint_is_one_exact_public_version() -> None:
    for requirement in map(Requirement, LINES):
        assert requirement.url is None
        assert [specifier.operator for specifier in requirement.specifier] == ["=="]
        assert "+" not in str(requirement), "a local version such as +cpu holds on one kind of machine only"


@pytest.mark.parametrize("requirement", EVERYTHING, ids=str)
def test_every_range_of_pyproject_allows_its_pin(requirement: Requirement) -> None:
    assert requirement.specifier.contains(pinned(requirement.name))


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_supported_pythons(python: str) -> None:
    assert SpecifierSet(PROJECT["requires-python"]).contains(f"{python}.0")


@pytest.mark.parametrize("python", ["3.10.14", "3.14.0"])
def test_unsupported_pythons(python: str) -> None:
    assert not SpecifierSet(PROJECT["requires-python"]).contains(python)


def test_colabs_versions_are_in_range() -> None:
    assert SpecifierSet(PROJECT["requires-python"]).contains("3.12.11")
    assert DEPENDENCIES["ipywidgets"].specifier.contains("7.7.1")


def test_no_range_has_an_upper_end_so_that_the_users_own_torch_stands() -> None:
    operators = {specifier.operator for requirement in DEPENDENCIES.values() for specifier in requirement.specifier}
    assert operators == {">="}
    assert DEPENDENCIES["torch"].specifier.contains("2.6.0")


def test_triton_is_asked_for_on_linux_only() -> None:
    marker = DEPENDENCIES["triton"].marker
    assert marker is not None
    assert [marker.evaluate({"sys_platform": name}) for name in ("linux", "darwin", "win32")] == [True, False, False]


def test_environment_yml_installs_what_pyproject_says_with_the_same_pins() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    packages = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    (python,) = [Requirement(entry) for entry in packages if entry.startswith("python")]
    assert python.specifier == SpecifierSet(PROJECT["requires-python"])
    assert {Requirement(entry).name for entry in packages} == {"python", "pip", "make"}
    assert pip == ["-c constraints.txt", f"-e .[{','.join(EXTRAS)}]"]
    assert environment["name"] == PROJECT["name"]


def test_make_installs_what_environment_yml_installs() -> None:
    assert f'-c constraints.txt -e ".[{",".join(EXTRAS)}]"' in (ROOT / "Makefile").read_text()


def test_citation_and_package_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])


def resolve(*requirements: str) -> dict[str, dict[str, Any]]:
    """Resolve with pip from its default index and our constraints; return each package's metadata. Downloads metadata, no wheels."""
    # A machine may offer pip a CPU build of torch of its own; here the public CUDA build is what is asked about.
    environ = {key: value for key, value in os.environ.items() if key not in {"PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"}}
    environ["PIP_CONFIG_FILE"] = os.devnull
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--only-binary=:all:",
        "--quiet",
    ]
    command += ["--report=-", f"--constraint={ROOT / 'constraints.txt'}", *requirements]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    packages = [item["metadata"] for item in json.loads(done.stdout)["install"]]
    return {canonicalize_name(package["name"]): package for package in packages}


@pytest.mark.requires_network
@pytest.mark.skipif(sys.platform != "linux", reason="skipped: torch's CUDA build exists for Linux only")
def test_the_cuda_build_of_torch_resolves_with_everything_else_and_demands_our_triton() -> None:
    packages = resolve(*(str(requirement) for requirement in EVERYTHING))
    torch = packages["torch"]
    demands = {str(canonicalize_name(r.name)): r for r in map(Requirement, torch["requires_dist"])}
    assert any(name.startswith("nvidia-") for name in packages), "this is not the CUDA build"
    assert torch["version"] == pinned("torch")
    assert str(demands["triton"].specifier) == f"=={pinned('triton')}"
    assert packages["triton"]["version"] == pinned("triton")
    unpinned = {name for name in packages if name not in PINS}
    assert all(name.startswith(("nvidia-", "cuda-")) for name in unpinned), f"not in constraints.txt: {unpinned}"
