"""The header of a GGUF file: metadata, and where each tensor lies.

``gguf.GGUFReader`` makes two numpy arrays for every string of the vocabulary, which takes seconds; this reader makes
Python values only.
"""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGUF_DEFAULT_ALIGNMENT, GGMLQuantizationType, GGUFValueType

from minivllm.model.errors import ModelError, unreadable

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}


@dataclass(frozen=True)
class GGUFTensor:
    """One tensor in the file.

    Attributes:
        shape: [out, in], as torch has it; the file stores the fastest dimension first.
        start: offset of its first byte in the file.
        num_bytes: size in the file, as it is quantized there.
    """

    name: str
    shape: tuple[int, ...]
    type: GGMLQuantizationType
    start: int
    num_bytes: int


class GGUFFile:
    """A GGUF file, version 2 or 3, little endian, mapped into memory.

    Attributes:
        metadata: every key of the header with its value.
        tensors: every tensor by its name in the file.

    Raises:
        ModelError: an unreadable file, no GGUF file, a version or a tensor type that is not known, or a file that ends
            too early.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    raise ModelError(
                        f"{path} is no GGUF file: it does not begin with {_MAGIC.decode()!r}; get it again."
                    )
                # Private pages: torch wants memory that it may write to, and the file stays as it is.
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise unreadable(path, error) from None
        self._offset = len(_MAGIC)
        try:
            self._read_header()
        except (struct.error, UnicodeDecodeError):
            raise ModelError(f"{path} ends or breaks off inside its header: delete it and get it again.") from None

    def raw(self, tensor: GGUFTensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of a tensor as they lie in the file, [..., bytes of a row], without a copy.

        Raises:
            ModelError: the file ends before the tensor does.
        """
        end = tensor.start + tensor.num_bytes
        if end > len(self._data):
            raise ModelError(
                f"{self.path} is cut off: tensor {tensor.name!r} of shape {tensor.shape} ({tensor.type.name}) ends at "
                f"byte {end}, but the file has {len(self._data)}; delete it and get it again."
            )
        data = np.frombuffer(self._data, np.uint8, tensor.num_bytes, tensor.start)
        return data.reshape(*tensor.shape[:-1], -1)

    def _read_header(self) -> None:
        (version,) = self._unpack("I")
        if version not in _VERSIONS:
            raise ModelError(
                f"{self.path} is GGUF version {version}, but only 2 and 3 are read: convert the model again."
            )
        num_tensors, num_keys = self._unpack("QQ")
        self.metadata: dict[str, Any] = {}
        for _ in range(num_keys):
            key = self._string()
            self.metadata[key] = self._value(self._unpack("I")[0])
        infos = [self._tensor_info() for _ in range(num_tensors)]
        alignment = self.metadata.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment < 1:
            raise ModelError(
                f"general.alignment of {self.path} is {alignment!r}, but must be an int of at least 1: convert the "
                "model again."
            )
        data_start = -(-self._offset // alignment) * alignment
        self.tensors = {name: self._tensor(name, shape, kind, data_start + start) for name, shape, kind, start in infos}

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self._data, self._offset)
        self._offset += struct.calcsize("<" + layout)
        return values

    def _string(self) -> str:
        (length,) = self._unpack("Q")
        end = self._offset + length
        if end > len(self._data):
            raise struct.error
        text = self._data[self._offset : end].decode()
        self._offset = end
        return text

    def _value(self, kind: int) -> Any:
        if kind == GGUFValueType.STRING:
            return self._string()
        if kind == GGUFValueType.ARRAY:
            item_kind, length = self._unpack("IQ")
            if item_kind in _SCALARS:
                return list(self._unpack(f"{length}{_SCALARS[item_kind]}"))
            read: Callable[[], Any] = (
                self._string if item_kind == GGUFValueType.STRING else lambda: self._value(item_kind)
            )
            return [read() for _ in range(length)]
        if kind not in _SCALARS:
            raise ModelError(f"{self.path} has a metadata value of unknown type {kind}: delete it and get it again.")
        return self._unpack(_SCALARS[GGUFValueType(kind)])[0]

    def _tensor_info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        (num_dims,) = self._unpack("I")
        shape = self._unpack(f"{num_dims}Q")[::-1]
        kind, start = self._unpack("IQ")
        return name, shape, kind, start

    def _tensor(self, name: str, shape: tuple[int, ...], kind: int, start: int) -> GGUFTensor:
        try:
            type_ = GGMLQuantizationType(kind)
        except ValueError:
            raise ModelError(
                f"Tensor {name!r} in {self.path} has the unknown GGML type {kind}: convert the model again."
            ) from None
        block_size, block_bytes = GGML_QUANT_SIZES[type_]
        if not shape or shape[-1] % block_size:
            raise ModelError(
                f"Tensor {name!r} in {self.path} has shape {shape}, but rows of {type_.name} hold a "
                f"multiple of {block_size} elements: convert the model again."
            )
        return GGUFTensor(name, shape, type_, start, prod(shape) // block_size * block_bytes)
