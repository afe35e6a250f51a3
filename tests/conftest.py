"""What a test may need from the machine: a user without it gets a skip that names it, CI gets a failure."""

import functools
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

# A shell starts what it runs in the background with Ctrl-C switched off, and there are tests of Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _has_command(name: str) -> bool:
    return shutil.which(name) is not None


def _has_chinese_font() -> bool:
    if not _has_command("fc-list"):
        return False
    return bool(subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=True).stdout.strip())


# Asked by what the package brings, so that another distribution's package counts too.
DEBIAN_PACKAGES: dict[str, Callable[[], bool]] = {
    "bubblewrap": lambda: _has_command("bwrap"),
    "chromium": lambda: _has_command("chromium"),
    "fonts-noto-cjk": _has_chinese_font,
    "git": lambda: _has_command("git"),
    "make": lambda: _has_command("make"),
}


def unavailable(reason: str) -> NoReturn:
    """Skip the running test with `reason`; with CI=true, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (CI=true: nothing may be skipped)", pytrace=False)
    pytest.skip(reason)


def missing_debian_packages(packages: tuple[str, ...]) -> list[str]:
    """Return those of `packages` that are not installed; KeyError for a package that this file does not know."""
    return [name for name in packages if not DEBIAN_PACKAGES[name]()]


@functools.cache
def package_index_answers() -> bool:
    """Ask pip, so that whatever index or mirror this machine uses is the one that is asked."""
    ask = [sys.executable, "-m", "pip", "index", "versions", "pip", "--retries", "0", "--timeout", "20", "--quiet"]
    return subprocess.run(ask, capture_output=True, check=False).returncode == 0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("requires_debian"):
        missing = missing_debian_packages(mark.args)
        if missing:
            unavailable(f"missing Debian package: apt-get install {' '.join(missing)}")
    if item.get_closest_marker("requires_network") and not package_index_answers():
        unavailable("the package index cannot be reached")


@pytest.fixture(autouse=True, scope="module")
def _process_stays_as_it_is() -> Iterator[None]:
    """What a test sets for the whole process would fail others far from it: limits, and what Ctrl-C does."""
    before = resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGINT)
    yield
    assert (resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGINT)) == before


_seconds: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds["/".join(Path(report.nodeid.split("::")[0]).parts[:2])] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("minutes per part")
    for part, seconds in sorted(_seconds.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{seconds / 60:6.2f}  {part}")
