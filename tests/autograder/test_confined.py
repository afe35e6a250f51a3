"""What student code can see and do, in the process that is graded and in a Jupyter kernel: nothing of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from autograder.paths import CLONE
from autograder.running import provisioner
from autograder.running.sandbox import Sandbox, SandboxError
from autograder.running.trusted import Student

pytestmark = pytest.mark.requires_debian("bubblewrap")
CANARY = f"canary-{uuid.uuid4().hex}"
Evaluate = Callable[[str], Any]


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Files that everybody may read, in the places where answers, grades and private things lie."""
    room = tmp_path_factory.mktemp("classroom") / "submitted" / "a" / "lesson-2"
    room.mkdir(parents=True)
    places = [Path("/"), CLONE, CLONE / "solutions", CLONE / "autograder", CLONE / "src", CLONE / "tests", Path.home()]
    planted = []
    for place in (*places, room, Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path("/usr/share"), Path("/etc")):
        with suppress(OSError):  # a plain user can't plant everywhere
            path = place / f"{CANARY}.txt"
            path.write_text(CANARY)
            path.chmod(0o644)
            planted.append(path)
    assert len(planted) >= 6
    yield list(map(str, planted))
    for path in planted:
        path.unlink()


def in_graded_process(name: str) -> Any:
    with Student("__main__", 20) as student:
        assert student.run("probe", PROBE).error is None
        assert student.run("result", f"result = {name}()").error is None
        return student.call("result").value


@contextmanager
def sandboxed_kernel() -> Iterator[tuple[Any, Any]]:
    """The manager and the client of a kernel that the provisioner has started."""
    provisioner.register()
    factory = KernelProvisionerFactory.instance()
    before = factory.default_provisioner_name
    factory.default_provisioner_name = provisioner.NAME
    try:
        manager, client = start_new_kernel(kernel_name="python3")
    finally:
        factory.default_provisioner_name = before
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def in_kernel(name: str) -> Any:
    printed: list[str] = []

    def hook(message: Any) -> None:
        if message["content"].get("name") == "stdout":
            printed.append(message["content"]["text"])

    with sandboxed_kernel() as (_, client):
        reply = client.execute_interactive(f"{PROBE}\nprint({name}())", timeout=30, output_hook=hook)
        assert reply["content"]["status"] == "ok", reply
    return eval("".join(printed))


PROBE = dedent(f"""
    import os, socket, subprocess, sys

    def files():
        found = []
        for top in ("/", *os.listdir("/")):
            for folder, folders, names in os.walk(os.path.join("/", top)):
                folders[:] = [name for name in folders if name not in ("packages", "lib", "lib64")]
                found += [os.path.join(folder, name) for name in names if {CANARY!r} in name]
        return found

    def notes():
        return sorted(name for name in os.listdir("/") if name not in ("dev", "home", "run", "tmp", "packages"))

    def network():
        reached = []
        for address in (("127.0.0.1", 22), ("1.1.1.1", 53)):
            try:
                socket.create_connection(address, 1)
                reached.append(address)
            except OSError:
                pass
        return reached, [name for _, name in socket.if_nameindex()]

    def processes():
        try:
            os.kill({os.getpid()}, 0)
        except ProcessLookupError:
            return [], os.path.exists("/proc/1")
        return ["the tester"], os.path.exists("/proc/1")

    def user():
        try:
            os.setuid(0)
        except OSError:
            pass
        return os.getuid() != 0 and os.geteuid() != 0 and {os.getuid()} != {{0}}

    def written():
        done = []
        for place in ("/", "/usr/lib", "/packages", "/packages/minivllm", "/run", "/dev", "/home", "/etc", "/lib"):
            try:
                open(os.path.join(place, "litter"), "w").close()
                done.append(place)
            except OSError:
                pass
        return done

    def imported():
        done = []
        for name in ("autograder", "nbgrader", "solutions", "tests", "pytest"):
            try:
                __import__(name)
                done.append(name)
            except ImportError:
                pass
        return done

    def works():
        import matplotlib.pyplot, minivllm.lesson, numpy, torch
        return int(numpy.arange(3).sum() + torch.ones(3).sum())

    def limits():
        import resource
        kinds = (resource.RLIMIT_DATA, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE)
        return all(hard != resource.RLIM_INFINITY for _, hard in map(resource.getrlimit, kinds))
""")


@pytest.mark.parametrize("inside", [in_graded_process, in_kernel])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("files", []),
        ("network", ([], ["lo"])),
        ("processes", ([], False)),
        ("user", True),
        ("written", []),
        ("imported", []),
        ("works", 6),
        ("limits", True),
    ],
)
def test_student_code_is_confined(inside: Evaluate, name: str, expected: Any, canaries: list[str]) -> None:
    assert all(Path(path).read_text() == CANARY for path in canaries)
    assert inside(name) == expected


def test_a_canary_is_not_read_by_its_path(canaries: list[str]) -> None:
    source = "def read(path):\n    with open(path) as file:\n        return file.read()\n"
    with Student("__main__", 20) as student:
        student.run("read", source)
        for path in canaries:
            error = student.call("read", path).error
            assert error is not None and error.is_a("FileNotFoundError"), path


def test_a_kernel_that_hangs_is_interrupted_and_leaves_nothing() -> None:
    with sandboxed_kernel() as (manager, client):
        folder = Path(manager.connection_file).parent
        client.execute("import time\nprint('hanging', flush=True)\ntime.sleep(600)")
        while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
            pass
        manager.interrupt_kernel()
        assert client.get_shell_msg(timeout=60)["content"]["status"] == "error"
        assert client.execute_interactive("1 + 1", timeout=60)["content"]["status"] == "ok"
    assert not folder.exists()


def test_a_kernel_is_refused_where_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisioner, "sandbox", lambda: Sandbox((), False, "no bubblewrap (not installed)"))
    provisioner.register()
    factory = KernelProvisionerFactory.instance()
    before = factory.default_provisioner_name
    factory.default_provisioner_name = provisioner.NAME
    try:
        with pytest.raises(SandboxError, match="apt-get install bubblewrap"):
            start_new_kernel(kernel_name="python3")
    finally:
        factory.default_provisioner_name = before


PLAIN_USER = 1000
AS_PLAIN_USER = """
from autograder.running.sandbox import sandbox
from autograder.running.trusted import Student
assert sandbox().boxed, sandbox().lacks
with Student("__main__", 20) as student:
    student.run("probe", "import os\\ndef probe():\\n    return os.getuid(), os.path.exists('/etc/passwd')\\n")
    assert student.call("probe").value == (UID, False), student.call("probe")
    bomb = student.run("bomb", "import os\\nwhile True:\\n    os.fork()\\n")
    assert "processes" in bomb.error.message, bomb
    assert student.call("probe").value == (UID, False)
"""


def test_it_works_as_a_plain_user_too() -> None:
    """Root takes on a plain user's id for it; a plain user is one already."""
    if os.geteuid() != 0:
        done = _run_plainly(os.geteuid(), [sys.executable], [CLONE / "src", CLONE, *map(Path, sys.path)])
        assert done.returncode == 0, done.stderr
        return
    python = shutil.which(f"python3.{sys.version_info[1]}", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip(f"no Python 3.{sys.version_info[1]} that a plain user can run")
    # What is imported may lie where a plain user can't go: show it in a place where they can.
    packages = [Path(path) for path in sys.path if path.endswith("site-packages")]
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        shown = {CLONE / name: Path(place) / name for name in ("src", "autograder")}
        shown |= {path: Path(place) / f"packages{i}" for i, path in enumerate(packages)}
        for there in shown.values():
            there.mkdir()
        mounts = [shlex.join(["mount", "--bind", str(path), str(there)]) for path, there in shown.items()]
        mounted = ["unshare", "--mount", "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh"]
        changed = ["setpriv", f"--reuid={PLAIN_USER}", f"--regid={PLAIN_USER}", "--clear-groups", python, "-B"]
        places = [Path(place) / "src", Path(place), *(shown[path] for path in packages)]
        done = _run_plainly(PLAIN_USER, [*mounted, *changed], places)
    assert done.returncode == 0, done.stderr


def _run_plainly(user: int, command: list[str], path: list[Path]) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, path)), "HOME": "/tmp"}
    code = AS_PLAIN_USER.replace("UID", str(user))
    return subprocess.run([*command, "-c", code], env=environment, capture_output=True, text=True, check=False, cwd="/")
