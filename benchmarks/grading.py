"""A class graded by ``python -m autograder grade``'s own code beside plain nbgrader, in one run.

python benchmarks/grading.py [--students 60] [--plain 2] [--output benchmarks/results/grading.json]

Both sides get the same submissions: the released notebooks of lesson-2 with the model answers, editions in turn. Ours
takes them in, runs the graded cells in a sandbox and the tests outside it, and enters the points. Plain nbgrader is
``nbgrader autograde`` with its own preprocessors: every cell runs in one kernel, without a sandbox. That takes a minute
and more, so it gets the first few submissions alone; what is compared is the time of one.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nbgrader.apps import NbGraderAPI
from nbgrader.converters import Autograde

from autograder.classroom import demo, demo_files
from autograder.classroom.classroom import Classroom, clone_config, grade_class
from autograder.classroom.workers import Workers
from minivllm.bench.machine import where_and_when

LESSON = demo_files.LESSON


def time_ours(room: Classroom, jobs: int) -> tuple[float, int]:
    """Seconds for the class, and how many submissions got points."""
    start = time.perf_counter()
    rows = list(grade_class(room, Workers(jobs)))
    seconds = time.perf_counter() - start
    for row in rows:
        if row.reason:
            print(f"{row.student}: {row.reason}", file=sys.stderr)
    return seconds, sum(row.points is not None for row in rows)


def time_plain(students: list[str]) -> tuple[float, int]:
    """Seconds for `students`, one after the other as nbgrader does it, and how many it graded."""
    config = clone_config()
    config.Autograde.sanitize_preprocessors = Autograde.sanitize_preprocessors.default()
    config.Autograde.autograde_preprocessors = Autograde.autograde_preprocessors.default()
    config.MultiKernelManager.clear()
    config.KernelProvisionerFactory.clear()
    api = NbGraderAPI(config=config)
    start = time.perf_counter()
    graded = sum(bool(api.autograde(LESSON, student, force=True)["success"]) for student in students)
    return time.perf_counter() - start, graded


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--students", type=int, default=60)
    parser.add_argument("--plain", type=int, default=2, help="submissions that plain nbgrader grades")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    names = [f"student-{number:03}" for number in range(options.students)]
    jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        room = demo.create(Path(folder), {name: {"edition": ("en", "zh")[i % 2]} for i, name in enumerate(names)})
        seconds, graded = time_ours(room, jobs)
        plain_seconds, plain_graded = time_plain(names[: options.plain])
    ours, plain = seconds / len(names), plain_seconds / options.plain
    result: dict[str, Any] = {
        **where_and_when(),
        "jobs": jobs,
        "ours": {"students": len(names), "graded": graded, "seconds": round(seconds, 1), "each": round(ours, 2)},
        "plain": {
            "students": options.plain,
            "graded": plain_graded,
            "seconds": round(plain_seconds, 1),
            "each": round(plain, 2),
        },
        "ratio": round(ours / plain, 3),
    }
    for side in ("ours", "plain"):
        row = result[side]
        print(f"{side:5}: {row['graded']} of {row['students']} graded in {row['seconds']} s, {row['each']} s each")
    print(f"ratio: {result['ratio']}")
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if graded == len(names) and plain_graded == options.plain else 1


if __name__ == "__main__":
    sys.exit(main())
