"""What is told of a broken invariant."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """One thing that should hold and does not."""

    object: str
    expected: str
    actual: str
    why: str

    def __str__(self) -> str:
        return f"{self.object}: expected {self.expected}, actual {self.actual}; {self.why}"


class InvariantError(AssertionError):
    """At least one invariant is broken; the message gives each violation on a line of its own."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        super().__init__("\n".join(map(str, violations)))
