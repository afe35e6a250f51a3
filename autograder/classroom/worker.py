"""What the fork server loads once, so that a worker starts at once: the grader, and what the sandbox shows."""

from autograder import cli
from autograder.classroom import submission
from autograder.running.sandbox import sandbox

sandbox()
submission.grader()

__all__ = ["cli"]
