"""Pictures in a student's cells: decoded within bounds and written anew, so that what is kept is a picture alone."""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from dataclasses import dataclass

from PIL import Image, ImageOps

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
MAX_KEPT = 1 << 20  # bytes of a picture as it is kept
MAX_ENCODED = 32 << 20  # characters of base64
MAX_PIXELS = 120_000_000  # of one picture: a telephone's largest
MAX_DECODED = 40_000_000  # pixels at once, after a JPEG was read smaller
MAX_ALL = 400_000_000  # pixels in one notebook
SIDES = (2_000, 1_400, 1_000, 600)


@dataclass
class Painter:
    """Redraws the pictures of one notebook."""

    pixels_left: int = MAX_ALL

    def redrawn(self, encoded: str) -> dict[str, str] | None:
        """The picture in `encoded` (base64) as nbformat keeps it; None if it can't be drawn."""
        if len(encoded) > MAX_ENCODED:
            return None
        try:
            data = base64.b64decode(encoded)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._drawn(data)
        except (binascii.Error, OSError, ValueError, SyntaxError, MemoryError, OverflowError, IndexError):
            return None  # told by whoever asked: the picture counts as lost
        except (Image.DecompressionBombError, EOFError, TypeError, KeyError, AttributeError):
            return None

    def _drawn(self, data: bytes) -> dict[str, str] | None:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            pixels = picture.width * picture.height
            self.pixels_left -= pixels
            if pixels > MAX_PIXELS or self.pixels_left < 0:
                return None
            is_photo = picture.format == "JPEG"
            if is_photo:
                picture.draft("RGB", (SIDES[0], SIDES[0]))
            if picture.width * picture.height > MAX_DECODED:
                return None
            picture.load()
            upright = ImageOps.exif_transpose(picture)
        return _encoded(upright, is_photo)


def _encoded(picture: Image.Image, is_photo: bool) -> dict[str, str]:
    picture = picture.convert("RGBA" if "A" in picture.mode or "transparency" in picture.info else "RGB")
    data = b""
    for side in SIDES:
        picture.thumbnail((side, side))
        if not is_photo and len(data := _saved(picture, "PNG")) <= MAX_KEPT:
            return {"image/png": base64.b64encode(data).decode()}
        if len(data := _saved(_on_white(picture), "JPEG")) <= MAX_KEPT:
            break
    return {"image/jpeg": base64.b64encode(data).decode()}


def _on_white(picture: Image.Image) -> Image.Image:
    if picture.mode != "RGBA":
        return picture
    ground = Image.new("RGB", picture.size, "white")
    ground.paste(picture, mask=picture.getchannel("A"))
    return ground


def _saved(picture: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **({"quality": 80} if kind == "JPEG" else {}))
    return file.getvalue()
