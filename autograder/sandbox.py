"""Where a student's file runs: apart from the answers, this machine's files, its network and its other processes.

bubblewrap shows it the interpreter with its libraries, minivllm as students get it, and its own folder; the clone with
the answers is not there. Without bubblewrap `unshare` (util-linux) still ends whatever the file leaves running and
keeps it from signalling the grader, but files can be read. Without either, a kill of the process group has to do.
"""

from __future__ import annotations

import functools
import os
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import minivllm

CLONE = Path(__file__).resolve().parent.parent
CHILD = Path(__file__).resolve().with_name("trusted_child.py")
NOBODY = 65534
PROCESSES = 1000
SYSTEM = ("/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")


@dataclass(frozen=True)
class Sandbox:
    """How to start a process apart. Root's takes on the user id `user` there and is held to PROCESSES processes."""

    prefix: tuple[str, ...]
    user: int | None
    lacks: str = ""
    """What a file can do here that it could not in bubblewrap."""

    def command(self, folder: str, *arguments: str) -> list[str]:
        """This interpreter with `arguments`; `folder` is all that it can write to."""
        prefix = list(self.prefix)
        if prefix[:1] == ["bwrap"]:
            prefix += [*_in_order({Path(folder): ("--bind", folder, folder)}), "--remount-ro", "/", "--chdir", folder]
        return [*prefix, *(["--"] if prefix else []), sys.executable, "-I", *arguments]


def environment(folder: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PATH") if name in os.environ}
    return kept | {"HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}


@functools.cache
def sandbox() -> Sandbox:
    """The strongest one that works on this machine."""
    root = os.geteuid() == 0
    boxed = Sandbox(_bubblewrap(root), NOBODY if root else None)
    fault = _fault(boxed)
    if fault is None:
        return boxed
    lacks = f"no bubblewrap ({fault}): a file under test can read this machine's files, the answer included"
    unshared = ("unshare", *(() if root else ("--user",)), "--pid", "--fork", "--kill-child")
    apart = Sandbox(unshared, None, lacks)
    if _fault(apart) is None:
        return apart
    user = NOBODY if root and _open_to_all(Path(sys.base_prefix), Path(sys.prefix), CLONE) else None
    return Sandbox((), user, f"{lacks}, and no unshare: processes that it leaves behind may live on")


def _fault(box: Sandbox) -> str | None:
    """Why nothing can be started in `box`, or None."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "env": environment(folder)}
        try:
            done = subprocess.run(box.command(folder, "-c", ""), timeout=10, check=False, **options)  # type: ignore[call-overload]
        except FileNotFoundError:
            return "not installed"
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return None if done.returncode == 0 else " ".join(done.stderr.split())[:200] or f"exit status {done.returncode}"


def _bubblewrap(root: bool) -> tuple[str, ...]:
    unshare = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent")
    change_user = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID") if root else ()
    shown = [Path("/usr"), Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]]
    shown += [Path(minivllm.__file__).resolve().parent, CHILD]
    mounts: dict[Path, tuple[str, ...]] = {
        path: ("--ro-bind", str(path), str(path)) for path in shown if path != Path("/")
    }
    mounts |= {Path(path): ("--ro-bind-try", path, path) for path in SYSTEM}
    mounts[CLONE] = ("--perms", "0755", "--tmpfs", str(CLONE))  # hides it where it lies in one of the others
    return ("bwrap", *unshare, *change_user, "--dev", "/dev", *_in_order(mounts))


def _in_order(mounts: dict[Path, tuple[str, ...]]) -> list[str]:
    """The options of `mounts`, outer folders first. bubblewrap would make missing ones for the owner alone."""
    made = {folder: ("--perms", "0755", "--dir", str(folder)) for path in mounts for folder in path.parents}
    every: dict[Path, tuple[str, ...]] = {**made, **mounts}
    return [word for path in sorted(every, key=lambda path: len(path.parts)) if path.name for word in every[path]]


def _open_to_all(*folders: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for folder in folders for path in (folder, *folder.parents))
