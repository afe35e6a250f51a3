"""Where nbgrader finds and puts things, and what it does beyond its own: the one place.

nbgrader reads this file through the nbgrader_config.py in the root of the clone, from where its commands are run.
The class's own files (gradebook.db, submitted/, autograded/, feedback/) live in classroom/ of the clone, or where the
environment variable MINIVLLM_CLASSROOM says.
"""

import importlib.util
import os
import sys
from pathlib import Path

from autograder.gradebook import formgrader, preprocessors
from autograder.paths import CLONE, COURSE, MASTER_EDITION, SOURCES
from autograder.release import course
from autograder.running.provisioner import NAME, register

# nbgrader calls `alembic` by its bare name; it stands beside this interpreter, activated or not.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
# The formgrader takes MathJax from here instead of the internet, where it is installed.
if importlib.util.find_spec("jupyter_server_mathjax"):
    templates = str(CLONE / "autograder" / "jupyter")
    os.environ["JUPYTER_PATH"] = os.pathsep.join([templates, os.environ.get("JUPYTER_PATH", "")]).rstrip(os.pathsep)

c = get_config()
course.configure(c)
preprocessors.configure(c)
register()
formgrader.listen()
c.KernelProvisionerFactory.default_provisioner_name = NAME

classroom = Path(os.environ.get("MINIVLLM_CLASSROOM") or CLONE / "classroom").absolute()
try:
    classroom.mkdir(parents=True, exist_ok=True)
except OSError as error:
    remedy = "let MINIVLLM_CLASSROOM name a folder that you may write to"
    raise OSError(f"the class's folder {classroom} can't be made ({error.strerror}): {remedy}") from None

c.CourseDirectory.course_id = "minivllm"
c.CourseDirectory.root = str(CLONE)
c.CourseDirectory.source_directory = str(SOURCES / MASTER_EDITION)
c.CourseDirectory.release_directory = str(COURSE / MASTER_EDITION)
for step in ("submitted", "autograded", "feedback", "solution"):
    setattr(c.CourseDirectory, f"{step}_directory", str(classroom / step))
c.CourseDirectory.db_url = f"sqlite:///{classroom / 'gradebook.db'}"
c.ZipCollectApp.downloaded_directory = os.path.relpath(classroom / "downloaded", CLONE)  # is joined to the root
# Names of files as learning platforms give them, in folders or without:
#   Blackboard  lesson-2_STUDENT_attempt_2026-01-31-12-00-00_1-budget-planner.ipynb
#   Moodle      STUDENT_1234_assignsubmission_file/1-budget-planner.ipynb
#   Canvas      STUDENT_1234_5678_1-budget-planner.ipynb
c.FileNameCollectorPlugin.named_regexp = (
    r".*/extracted/(?:.*/)?(?:[^/_]*_(?=[^/]*_attempt_))?(?P<student_id>[^/]+?)"
    r"(?:_attempt_(?P<timestamp>[0-9-]+)_|_assignsubmission_file_?|(?:_LATE)?_\d+_\d+_)"
    r"(?:.*/)?(?P<file_id>[^/]+)$"
)
