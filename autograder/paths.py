"""Where the course lies in the clone, and its editions."""

from pathlib import Path

CLONE = Path(__file__).resolve().parent.parent
SOLUTIONS = CLONE / "solutions"
SOURCES = CLONE / "build" / "source"
"""nbgrader's *source*, an edition a folder: with answers and hidden tests."""
COURSE = CLONE / "course"
"""nbgrader's *release*, an edition a folder: what students get."""
EDITIONS = ("en", "zh")
MASTER_EDITION = "en"
"""The edition whose cells the gradebook keeps. Grade ids, points and code cells are the same in all."""
