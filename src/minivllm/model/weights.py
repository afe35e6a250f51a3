"""The tensors of a model, by their Hugging Face names, from safetensors or GGUF files.

Mirrors the place of vllm/model_executor/model_loader/default_loader.py (DefaultModelLoader.get_all_weights). Names and
shapes are checked before a single weight is read; nothing is copied before it is asked for.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf
import torch
from safetensors import SafetensorError, safe_open

from minivllm.model.config import LlamaConfig
from minivllm.model.errors import ModelError, unreadable
from minivllm.model.gguf_file import GGUFFile
from minivllm.model.json_files import read_json

_INDEX_NAME = "model.safetensors.index.json"
_FLOAT_DTYPES = ("F64", "F32", "F16", "BF16")


class Checkpoint(ABC):
    """A model on disk.

    Attributes:
        path: the GGUF or safetensors file, or the folder that holds ``config.json`` and the safetensors files.
        config: its shape.
    """

    path: Path
    config: LlamaConfig

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every weight of the model as (Hugging Face name, CPU tensor of its shape), read one after another.

        Raises:
            ModelError: a file is cut off.
        """
        for name in self.config.weight_shapes():
            yield name, self.read(name)

    @abstractmethod
    def read(self, name: str) -> torch.Tensor:
        """The weight with this Hugging Face name, in a floating-point dtype."""

    def _check_num_layers(self, num_tensors: int) -> None:
        """Raises ModelError for a damaged number, before anything is made for that many layers."""
        if self.config.num_hidden_layers > num_tensors:
            raise ModelError(
                f"num_hidden_layers of {self.path} is {self.config.num_hidden_layers}, but it has only {num_tensors} "
                "tensors: get the whole model again."
            )

    def _check_shapes(self, found: dict[str, tuple[int, ...]]) -> None:
        """Raises ModelError unless ``found`` has every tensor that the config asks for, and no other weight."""
        expected = self.config.weight_shapes()
        for name, shape in expected.items():
            if name not in found:
                raise ModelError(f"{self.path} has no tensor {name!r} of shape {shape}: get the whole model again.")
            if found[name] != shape:
                raise ModelError(
                    f"Tensor {name!r} in {self.path} has shape {found[name]}, but must have {shape}: "
                    "its config is another model's."
                )
        for name in found.keys() - expected.keys():
            is_tied_copy = name == "lm_head.weight" and self.config.tie_word_embeddings
            if not is_tied_copy and not name.endswith("rotary_emb.inv_freq"):
                raise ModelError(
                    f"{self.path} has a tensor {name!r} that a Llama of its config has no place for: use another model."
                )


class SafetensorsCheckpoint(Checkpoint):
    """A folder as Hugging Face publishes it: ``config.json`` beside one or more safetensors files.

    Given the path of a safetensors file it reads that one alone, or, if the index names it, all that the index names.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = folder = path.parent if path.is_file() else path
        content = read_json(folder / "config.json")
        with _naming(folder / "config.json"):
            self.config = LlamaConfig.from_hf(content)
        self._files: dict[str, Any] = {}
        for file in self._file_names():
            handle = _open_safetensors(folder / file)
            self._files |= dict.fromkeys(handle.keys(), handle)
        self._check_num_layers(len(self._files))
        slices = {name: handle.get_slice(name) for name, handle in self._files.items()}
        self._check_shapes({name: tuple(slice_.get_shape()) for name, slice_ in slices.items()})
        for name, slice_ in slices.items():
            if slice_.get_dtype() not in _FLOAT_DTYPES:
                raise ModelError(
                    f"Tensor {name!r} in {path} is stored as {slice_.get_dtype()}, but must be one of "
                    f"{', '.join(_FLOAT_DTYPES)}: use a model that is not quantized."
                )

    def read(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        return tensor

    def _file_names(self) -> list[str]:
        named = self.path.name if self.path.is_file() else None
        index = self._folder / _INDEX_NAME
        if index.is_file():
            weight_map = read_json(index).get("weight_map")
            if weight_map is None:
                raise ModelError(f"{index} has no weight_map: get it again.")
            names = sorted(set(map(str, weight_map.values())))
            if named is None or named in names:
                return names
        if named is not None:
            return [named]
        names = sorted(file.name for file in self._folder.glob("*.safetensors"))
        if len(names) == 1:
            return names
        if not names:
            raise ModelError(f"{self.path} holds no safetensors file: give a folder with a model in it.")
        if "model.safetensors" in names:
            return ["model.safetensors"]
        raise ModelError(
            f"{self.path} holds {len(names)} safetensors files and no {_INDEX_NAME}: add it, it says which file holds "
            "which tensor."
        )


class GGUFCheckpoint(Checkpoint):
    """One GGUF file; weights of any type that ``gguf.quants`` knows come out as float32."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = GGUFFile(path)
        tensors = self.file.tensors
        with _naming(path):
            self.config = LlamaConfig.from_gguf(self.file.metadata, tied="output.weight" not in tensors)
        self._check_num_layers(len(tensors))
        names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, self.config.num_hidden_layers)
        self._gguf_names = {name: names.get_name(name, (".weight",)) or name for name in self.config.weight_shapes()}
        hf_names = {gguf_name: name for name, gguf_name in self._gguf_names.items()}
        self._check_shapes({hf_names.get(name, name): tensor.shape for name, tensor in tensors.items()})
        for name in self._gguf_names.values():
            self.file.raw(tensors[name])

    def read(self, name: str) -> torch.Tensor:
        tensor = self.file.tensors[self._gguf_names[name]]
        try:
            values = gguf.quants.dequantize(self.file.raw(tensor), tensor.type)
        except NotImplementedError:
            raise ModelError(
                f"Tensor {tensor.name!r} in {self.path} is stored as {tensor.type.name}, which is not read: use a file "
                "of F16, Q8_0, Q4_1 or Q4_0."
            ) from None
        weight = torch.from_numpy(values)
        if name.endswith("q_proj.weight"):
            return _undo_permutation(weight, self.config.num_attention_heads)
        if name.endswith("k_proj.weight"):
            return _undo_permutation(weight, self.config.num_key_value_heads)
        return weight


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file, or safetensors beside their ``config.json`` (the file or the folder); check names and shapes.

    Raises:
        ModelError: the model cannot be used; the message names the tensor and the shape it must have.
    """
    is_gguf = path.is_file() and path.suffix != ".safetensors"
    return GGUFCheckpoint(path) if is_gguf else SafetensorsCheckpoint(path)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Puts the file before what is wrong with the config that it holds."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _undo_permutation(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """llama.cpp rotates neighbours (0, 1), (2, 3), ... and its files have the rows of each head reordered for that.

    Here, as in transformers and vLLM, element i turns with element i + head_dim / 2.
    """
    return weight.view(num_heads, -1, 2, weight.shape[-1]).transpose(1, 2).reshape(weight.shape)


def _open_safetensors(path: Path) -> Any:
    try:
        path.open("rb").close()  # of a file that may not be read, safe_open says that there is none
        return safe_open(path, framework="pt")
    except FileNotFoundError:
        raise ModelError(
            f"There is no file {path}, though a link or {_INDEX_NAME} names it: get the whole model again."
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None
    except SafetensorError as error:
        raise ModelError(
            _truncation(path) or f"{path} is no readable safetensors file ({error}): get it again."
        ) from None


def _truncation(path: Path) -> str | None:
    """Names the first tensor that the file ends before; None if the file is broken in another way."""
    size = path.stat().st_size
    with path.open("rb") as file:
        data_start = 8 + int.from_bytes(file.read(8), "little")
        if data_start > size:
            return f"{path} is no safetensors file, or ends inside its header: delete it and get it again."
        try:
            header = json.loads(file.read(data_start - 8))
            ends = {
                name: data_start + info["data_offsets"][1] for name, info in header.items() if name != "__metadata__"
            }
            shapes = {name: f"{tuple(header[name]['shape'])} ({header[name]['dtype']})" for name in ends}
        except (ValueError, LookupError, TypeError, AttributeError):
            return None
    for name in sorted(ends, key=ends.__getitem__):
        if ends[name] > size:
            return (
                f"{path} is cut off: tensor {name!r} of shape {shapes[name]} ends at byte {ends[name]}, but the file "
                f"has {size}; delete it and get it again."
            )
    return None
