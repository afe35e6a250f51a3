"""What a file of this name is, for somebody who looks for a student's work."""

from __future__ import annotations

import re
from enum import Enum

from autograder.intake.walk import ending, names_in


def _endings(text: str) -> frozenset[str]:
    return frozenset(f".{each}" for each in names_in(text))


class Kind(Enum):
    """`LITTER` is what tools and systems leave behind, `STUB` stands for a file that was not handed in."""

    NOTEBOOK = "a notebook"
    CODE = "code"
    TEXT = "text"
    DOCUMENT = "a document"
    PICTURE = "a picture"
    ARCHIVE = "an archive"
    STUB = "a placeholder"
    DATA = "data"
    LOG = "a log"
    LITTER = "litter"
    UNKNOWN = "unknown"

    @property
    def is_read(self) -> bool:
        return self in (Kind.CODE, Kind.TEXT, Kind.DATA, Kind.UNKNOWN)


ENDINGS = {
    Kind.CODE: _endings("py pyw ipy"),
    Kind.TEXT: _endings("md markdown mdown mkd txt text rst org tex qmd rmd adoc html htm xhtml"),
    Kind.DOCUMENT: _endings(
        "pdf doc docx docm dot dotx odt ott rtf rtfd pages ppt pptx odp key xls xlsx ods numbers wps et dps xps ps eps"
        " epub djvu mht mhtml webarchive one enex caj ofd drawio vsdx excalidraw"
    ),
    Kind.PICTURE: _endings("png jpg jpeg jpe jfif gif webp bmp tif tiff heic heif avif svg ico psd"),
    Kind.ARCHIVE: _endings(
        "zip zipx rar 7z tar gz tgz taz bz2 tbz tbz2 xz txz lzma tlz lz lz4 zst tzst z br cab iso dmg sit sitx arj ace"
        " cpio ar deb rpm pax z01 r00 xar wim"
    ),
    Kind.STUB: _endings(
        "icloud gdoc gsheet gslides gdraw gnote glink gform gmap gsite gscript gjam gcolab webloc url lnk desktop"
        " crdownload part partial download opdownload cloud cloudf onedrive filepart aria2 bc!"
    ),
    Kind.DATA: _endings(
        "csv tsv json jsonl ndjson yaml yml toml cfg ini npy npz pkl pickle parquet feather arrow pt pth bin"
        " safetensors gguf onnx h5 hdf5 db sqlite sqlite3 whl mp4 mov avi mkv webm mp3 wav m4a ttf otf woff woff2"
        " so dll dylib exe a o obj css js map ts xml dat mat nsys-rep qdrep ncu-rep ptx cubin cu cuh c h cc cpp hpp"
        " sh bash bat ps1 cmd r jl java go rs"
    ),
    Kind.LOG: _endings("log out err trace prof stats"),
    Kind.LITTER: _endings("pyc pyo swp swo swn lock pid class tmp temp egg-link pyi"),
}
_KINDS = {end: kind for kind, ends in ENDINGS.items() for end in ends}
LITTER = names_in(
    "desktop.ini .ds_store thumbs.db ehthumbs.db ehthumbs_vista.db .directory .localized timestamp.txt"
    " submission_secret.txt .gitignore .gitattributes .gitmodules .gitkeep .keep .dockerignore .editorconfig"
    " .python-version .nojekyll .bash_history .python_history .bashrc .profile .bash_logout .viminfo .lesshst"
    " .wget-hsts .gitconfig .coverage .hidden .apdisk .volumeicon.icns .pre-commit-config.yaml"
)
_LITTER = re.compile(r"(?:.*zone\.identifier|\._.*|~\$.*|\.~lock.*|\.fuse_hidden.*|\.nfs[0-9a-f]+|icon\r?)$")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def kind_of(name: str) -> Kind:
    name = name.lower()
    if name in LITTER or _LITTER.match(name):
        return Kind.LITTER
    end = ending(name)
    if end in COMPRESSED and _KINDS.get(ending(name.removesuffix(end))) in (Kind.DATA, Kind.LOG):
        return Kind.DATA
    kind = _KINDS.get(end.removeprefix(".tar") if end != ".tar" else end, Kind.UNKNOWN)
    if ".ipynb" in name and kind in (Kind.UNKNOWN, Kind.TEXT, Kind.DATA) and end not in (".html", ".htm", ".md"):
        return Kind.NOTEBOOK
    return kind
