"""Where student code runs: apart from the answers, this machine's files, its network and its other processes.

bubblewrap shows it the interpreter, the system's shared libraries and the packages of `autograder.running.packages`,
all read-only, and an empty home and /tmp that vanish with it. Neither /, the clone, the class nor a home is there.
Without bubblewrap `unshare` (util-linux) still ends whatever the code leaves running and keeps it from signalling the
grader, but files can be read. Without either, a kill of the process group has to do.
"""

from __future__ import annotations

import functools
import itertools
import os
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autograder.paths import CLONE
from autograder.running.packages import importable

CHILD = Path(__file__).resolve().with_name("trusted_child.py")
INTERPRETER = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
"""The one behind a virtual environment."""
BASE_LIBRARIES = Path(sys.base_prefix) / "lib"
SYSTEM_LIBRARIES = tuple(map(Path, ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache")))
REMEDY = "install bubblewrap 0.7 or newer (Debian: apt-get install bubblewrap) and let this user make namespaces"

HOME, PACKAGES, CHILD_INSIDE = "/student", "/packages", "/run/child.py"
HOME_SIZE, TMP_SIZE, SHM_SIZE = 64 << 20, 256 << 20, 64 << 20  # bytes
PROCESSES = 1000  # and threads, the ended ones that nobody waited for included

_numbers = itertools.count()


class SandboxError(Exception):
    """Student code can't be run apart on this machine; the text says why, and the remedy."""


@dataclass(frozen=True)
class Sandbox:
    """How to start a process apart."""

    prefix: tuple[str, ...]
    changes_user: bool
    """The process is root at first and takes on a user id of its own."""
    lacks: str = ""
    """What student code can do here that it could not in bubblewrap."""

    @property
    def boxed(self) -> bool:
        return self.prefix[:1] == ("bwrap",)

    @property
    def counts_processes(self) -> bool:
        """A limit counts the processes of a user id, or those in the box."""
        return self.changes_user or self.boxed

    def command(self, *arguments: str, shown: tuple[Path, ...] = ()) -> list[str]:
        """The command that runs trusted_child.py with `arguments`; the code in it can also write to `shown`."""
        if not self.boxed:
            return [*self.prefix, *(["--"] if self.prefix else []), sys.executable, "-I", str(CHILD), *arguments]
        binds = _in_order({path: ("--bind", str(path), str(path)) for path in shown})
        last = (*binds, "--remount-ro", "/", "--chdir", HOME, "--setenv", "PATH", os.defpath, "--")
        return [*self.prefix, *last, str(INTERPRETER), "-s", "-P", "-B", CHILD_INSIDE, *arguments]

    def packages(self) -> Path:
        """The folder of minivllm as the process sees it."""
        return Path(PACKAGES) / "minivllm" if self.boxed else importable()["minivllm"]

    def environment(self, home: str = HOME) -> dict[str, str]:
        """`home` is the process's own folder where it is not boxed."""
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        kept |= {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "LOGNAME": "student"}
        kept |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        inside = {"HOME": HOME, "TMPDIR": "/tmp", "PYTHONPATH": PACKAGES}
        return kept | (inside if self.boxed else {"HOME": home, "TMPDIR": home})

    def user(self) -> int | None:
        """A user id that no other process has, or None where the process keeps the one that it has."""
        return 20_000 + (os.getpid() * 31 + next(_numbers)) % 40_000 if self.changes_user else None


@functools.cache
def sandbox() -> Sandbox:
    """The strongest one that works on this machine."""
    root = os.geteuid() == 0
    boxed = Sandbox(_bubblewrap(root), changes_user=root)
    fault = _fault(boxed)
    if fault is None:
        return boxed
    lacks = f"no bubblewrap ({fault}): student code can read this machine's files, the answers included"
    unshared = ("unshare", *(() if root else ("--user",)), "--pid", "--fork", "--kill-child")
    changes_user = root and _open_to_all(Path(sys.base_prefix), Path(sys.prefix), CLONE)
    apart = Sandbox(unshared, changes_user, lacks)
    if _fault(apart) is None:
        return apart
    return Sandbox((), changes_user, f"{lacks}, and no unshare: processes that it leaves behind may live on")


def _fault(box: Sandbox) -> str | None:
    """Why nothing can be started in `box`, or None."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "env": box.environment(folder)}
        try:
            done = subprocess.run(box.command(), timeout=10, check=False, **options)  # type: ignore[call-overload]
        except FileNotFoundError:
            return "not installed"
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return None if done.returncode == 0 else " ".join(done.stderr.split())[:200] or f"exit status {done.returncode}"


def _bubblewrap(root: bool) -> tuple[str, ...]:
    unshare = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    rights = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID") if root else ("--unshare-user",)
    mounts: dict[Path, tuple[str, ...]] = {}
    for path in (*SYSTEM_LIBRARIES, BASE_LIBRARIES, INTERPRETER):
        mounts[path] = ("--ro-bind-try", str(path), str(path))
    for libraries in (BASE_LIBRARIES, *SYSTEM_LIBRARIES):
        for path in libraries.glob("python*/*-packages"):
            mounts[path] = ("--perms", "0755", "--tmpfs", str(path))  # only the packages of the list are shown
    for name, path in importable().items():
        mounts[Path(PACKAGES) / name] = ("--ro-bind", str(path), f"{PACKAGES}/{name}")
    mounts[Path(CHILD_INSIDE)] = ("--ro-bind", str(CHILD), CHILD_INSIDE)
    for private, size in ((HOME, HOME_SIZE), ("/tmp", TMP_SIZE), ("/dev/shm", SHM_SIZE)):
        mounts[Path(private)] = ("--perms", "1777", "--size", str(size), "--tmpfs", private)
    mounts[Path("/dev")] = ("--dev", "/dev")
    return ("bwrap", *unshare, "--die-with-parent", *rights, *_in_order(mounts), "--remount-ro", "/dev")


def _in_order(mounts: dict[Path, tuple[str, ...]]) -> list[str]:
    """The options of `mounts`, outer folders first. bubblewrap would make missing ones for the owner alone."""
    made = {folder: ("--perms", "0755", "--dir", str(folder)) for path in mounts for folder in path.parents}
    every: dict[Path, tuple[str, ...]] = {**made, **mounts}
    return [word for path in sorted(every, key=lambda path: len(path.parts)) if path.name for word in every[path]]


def _open_to_all(*folders: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for folder in folders for path in (folder, *folder.parents))
