"""The command line without arguments."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", ["minivllm", "minivllm bench", "autograder"])
def test_without_arguments_a_command_shows_its_help_and_no_error(command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command.split()], capture_output=True, text=True, timeout=120)
    assert (done.stdout + done.stderr).count("Usage: ") == 1
    assert "Commands" in done.stdout + done.stderr
    assert "error:" not in done.stderr
    assert done.returncode == 2
