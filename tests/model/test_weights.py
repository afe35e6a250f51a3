"""Files that are read right, and files that are refused: cut off, of the wrong shape, of another architecture."""

import contextlib
import errno
import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from minivllm.model.config import LlamaConfig
from minivllm.model.errors import ModelError
from minivllm.model.gguf_file import GGUFFile
from minivllm.model.weights import open_checkpoint
from tests.model.tiny import SHAPES, TINY, config_json, random_weights, write_gguf, write_safetensors

DOWN = "model.layers.1.mlp.down_proj.weight"
QUERY = "model.layers.0.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("kind", "error"), [(Type.F32, 0), (Type.F16, 2e-3), (Type.Q8_0, 2e-2), (Type.Q4_1, 0.2), (Type.Q4_0, 0.3)]
)
def test_a_gguf_file_of_each_type_is_read(kind: Type, error: float, tmp_path: Path) -> None:
    weights = random_weights(TINY)
    checkpoint = open_checkpoint(write_gguf(tmp_path / "model.gguf", TINY, weights, kind))
    read = dict(checkpoint.weights())
    assert list(read) == list(TINY.weight_shapes())
    for name, weight in weights.items():
        assert read[name].dtype == torch.float32
        assert (read[name] - weight).abs().max() <= error * weight.abs().max()


def test_a_gguf_file_is_read_as_its_library_reads_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", TINY, random_weights(TINY), Type.Q4_1)
    ours, theirs = GGUFFile(path), gguf.GGUFReader(path)
    fields = {key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert ours.metadata == fields
    assert {name: ours.raw(tensor).tobytes() for name, tensor in ours.tensors.items()} == {
        tensor.name: np.asarray(tensor.data).tobytes() for tensor in theirs.tensors
    }


def test_the_real_gguf_file_is_read_as_its_library_reads_it(smollm2_file: Path) -> None:
    ours, theirs = GGUFFile(smollm2_file), gguf.GGUFReader(smollm2_file)
    assert ours.metadata == {k: f.contents() for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    for tensor in theirs.tensors:
        mine = ours.tensors[tensor.name]
        assert (mine.start, mine.num_bytes, mine.type) == (tensor.data_offset, tensor.n_bytes, tensor.tensor_type)
        assert mine.shape == tuple(reversed(tensor.shape.tolist()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_safetensors_of_each_dtype_are_read(dtype: torch.dtype, tmp_path: Path) -> None:
    weights = {name: weight.to(dtype) for name, weight in random_weights(TINY).items()}
    checkpoint = open_checkpoint(write_safetensors(tmp_path, TINY, weights))
    assert all(torch.equal(weight, weights[name]) for name, weight in checkpoint.weights())


def write_shards(folder: Path, weights: dict[str, torch.Tensor]) -> Path:
    write_safetensors(folder, TINY, weights)
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: weights[name] for name in part}, folder / file)
    weight_map = {name: file for file, part in shards.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def test_several_safetensors_files_are_read_by_their_index(tmp_path: Path) -> None:
    weights = random_weights(TINY)
    checkpoint = open_checkpoint(write_shards(tmp_path, weights))
    assert all(torch.equal(weight, weights[name]) for name, weight in checkpoint.weights())


def test_a_copy_of_the_tied_head_and_stored_frequencies_are_ignored(tmp_path: Path) -> None:
    weights = random_weights(TINY)
    extra = {
        "lm_head.weight": weights["model.embed_tokens.weight"].clone(),
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8),
    }
    checkpoint = open_checkpoint(write_safetensors(tmp_path, TINY, weights | extra))
    assert set(dict(checkpoint.weights())) == set(weights)


def refused(path: Path) -> str:
    """The message; reading goes as far as it can, as loading does."""
    with pytest.raises(ModelError) as caught:
        for _ in open_checkpoint(path).weights():
            pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


Writer = Callable[[Path, LlamaConfig, dict[str, torch.Tensor]], Path]


def as_gguf(folder: Path, config: LlamaConfig, weights: dict[str, torch.Tensor]) -> Path:
    return write_gguf(folder / "model.gguf", config, weights)


BOTH = pytest.mark.parametrize("write", [write_safetensors, as_gguf], ids=["safetensors", "gguf"])


@BOTH
def test_a_missing_tensor_is_named_with_its_shape(write: Writer, tmp_path: Path) -> None:
    weights = random_weights(TINY)
    del weights[DOWN]
    message = refused(write(tmp_path, TINY, weights))
    assert f"no tensor {DOWN!r} of shape (64, 96)" in message


@BOTH
def test_a_tensor_of_the_wrong_shape_is_named_with_the_right_one(write: Writer, tmp_path: Path) -> None:
    weights = random_weights(TINY) | {DOWN: torch.zeros(64, 64)}
    message = refused(write(tmp_path, TINY, weights))
    assert f"{DOWN!r}" in message
    assert "has shape (64, 64), but must have (64, 96)" in message


@BOTH
def test_a_tensor_without_a_place_is_named(write: Writer, tmp_path: Path) -> None:
    weights = random_weights(TINY) | {"model.layers.0.self_attn.q_norm.weight": torch.ones(16)}
    assert "q_norm" in refused(write(tmp_path, TINY, weights))


def test_a_layer_too_many_is_named(tmp_path: Path) -> None:
    weights = random_weights(replace(TINY, num_hidden_layers=3))
    assert "model.layers.2" in refused(write_safetensors(tmp_path, TINY, weights))


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9, 0.999])
@BOTH
def test_a_file_that_is_cut_off_is_refused_with_a_tensor_and_its_shape(
    write: Writer, keep: float, tmp_path: Path
) -> None:
    path = write(tmp_path, SHAPES["gqa-untied"], random_weights(SHAPES["gqa-untied"]))
    file = path if path.is_file() else path / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * keep)])
    message = refused(path)
    assert "cut off: tensor '" in message
    assert "of shape (" in message
    assert "get it again" in message


@pytest.mark.parametrize("size", [0, 3, 4, 7, 20, 100, 700])
@BOTH
def test_a_file_that_ends_inside_its_header_is_refused(write: Writer, size: int, tmp_path: Path) -> None:
    path = write(tmp_path, TINY, random_weights(TINY))
    file = path if path.is_file() else path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    assert str(file) in refused(path)


@BOTH
def test_a_file_that_is_something_else_is_refused(write: Writer, tmp_path: Path) -> None:
    path = write(tmp_path, TINY, random_weights(TINY))
    file = path if path.is_file() else path / "model.safetensors"
    file.write_text("<html>Not found</html>")
    assert "get it again" in refused(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[Writer, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    return {
        as_gguf: as_gguf(folder, TINY, random_weights(TINY)).read_bytes(),
        write_safetensors: (write_safetensors(folder, TINY, random_weights(TINY)) / "model.safetensors").read_bytes(),
    }


@BOTH
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_header_is_read_or_refused_but_never_crashes(
    write: Writer, whole: dict[Writer, bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = whole[write]
    header_size = (
        content.index(b"output_norm.weight") + 60 if write is as_gguf else 8 + int.from_bytes(content[:8], "little")
    )
    position = data.draw(st.integers(0, header_size))
    patch = data.draw(st.binary(min_size=1, max_size=8))
    folder = tmp_path_factory.getbasetemp() / "damaged"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(TINY)))
    file = folder / ("model.gguf" if write is as_gguf else "model.safetensors")
    file.write_bytes(content[:position] + patch + content[position + len(patch) :])
    with contextlib.suppress(ModelError):
        for _ in open_checkpoint(file if write is as_gguf else folder).weights():
            pass


@pytest.mark.parametrize("architecture", ["qwen2", "gemma"])
def test_another_architecture_is_refused_in_gguf(architecture: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", TINY, random_weights(TINY))
    path.write_bytes(
        path.read_bytes().replace(
            b"\x05\0\0\0\0\0\0\0llama", len(architecture).to_bytes(8, "little") + architecture.encode()
        )
    )
    assert f"architecture is '{architecture}'" in refused(path)


def test_a_gguf_file_of_scaled_positions_is_refused(tmp_path: Path) -> None:
    extra = {"llama.rope.scaling.type": "yarn"}
    assert "'yarn'" in refused(write_gguf(tmp_path / "m.gguf", TINY, random_weights(TINY), metadata=extra))


@pytest.mark.parametrize("alignment", [0, -32, "32", 32.0, True])
def test_an_alignment_that_is_no_positive_int_is_refused(alignment: Any, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", TINY, random_weights(TINY), metadata={"general.alignment": alignment})
    message = refused(path)
    assert f"general.alignment of {path} is {alignment!r}, but must be an int of at least 1" in message


def with_config(folder: Path, **changes: Any) -> Path:
    write_safetensors(folder, TINY, random_weights(TINY))
    content = {key: value for key, value in (config_json(TINY) | changes).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}, "'Qwen2ForCausalLM'"),
        ({"model_type": None, "architectures": None}, "architecture is None"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"mlp_bias": True}, "mlp_bias is True"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "'linear'"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e5}}, "'llama3'"),
        ({"hidden_size": None}, "no 'hidden_size'"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"vocab_size": "320"}, "vocab_size is '320'"),
        ({"num_attention_heads": 0}, "num_attention_heads|damaged"),
        ({"num_attention_heads": "4", "head_dim": None}, "damaged"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"head_dim": 15}, "head_dim is 15"),
        ({"rms_norm_eps": -1}, "rms_norm_eps is -1"),
        ({"rope_theta": 0}, "rope_theta is 0"),
        ({"num_hidden_layers": 1}, "model.layers.1"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers of"),
        ({"max_position_embeddings": 10**12}, f"max_position_embeddings is {10**12}, but may be {2**22} at most"),
        ({"rope_theta": float("inf")}, "rope_theta is inf"),
        ({"rope_theta": 10**400}, "rope_theta is 1000"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    found = refused(with_config(tmp_path, **changes))
    assert any(part in found for part in message.split("|"))
    assert str(tmp_path) in found


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("rope_parameters", [1, 2], "an object, its rope_type a string and its rope_theta a number"),
        ("rope_parameters", {"rope_type": 5}, "an object, its rope_type a string and its rope_theta a number"),
        ("rope_scaling", "linear", "an object, its rope_type a string and its rope_theta a number"),
        ("architectures", 5, "a list of strings"),
        ("architectures", {"0": "LlamaForCausalLM"}, "a list of strings"),
        ("model_type", ["llama"], "a string"),
        ("tie_word_embeddings", "no", "true or false"),
        ("hidden_size", 64.0, "an int"),
        ("head_dim", [16], "an int"),
        ("rms_norm_eps", "1e-5", "a number"),
    ],
)
def test_a_field_of_the_wrong_type_is_named_with_its_file_its_value_and_what_it_must_be(
    field: str, value: Any, kind: str, tmp_path: Path
) -> None:
    message = refused(with_config(tmp_path, **{field: value}))
    assert message == f"{tmp_path / 'config.json'} is damaged: {field} is {value!r}, but must be {kind}; get it again."


def test_a_config_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    folder = write_safetensors(tmp_path, TINY, random_weights(TINY))
    (folder / "config.json").write_text('{"architectures": ' + "[" * 200_000)
    assert f"{folder / 'config.json'} is no JSON" in refused(folder)


def test_a_field_that_is_null_is_as_good_as_missing(tmp_path: Path) -> None:
    folder = write_safetensors(tmp_path, TINY, random_weights(TINY))
    nulls = {"rope_scaling": None, "rope_parameters": None, "head_dim": None}
    (folder / "config.json").write_text(json.dumps(config_json(TINY) | nulls))
    assert open_checkpoint(folder).config == TINY


def test_a_gguf_file_of_too_many_positions_is_refused(tmp_path: Path) -> None:
    config = replace(TINY, max_position_embeddings=2**22)
    path = write_gguf(tmp_path / "m.gguf", config, random_weights(config))
    assert open_checkpoint(path).config.max_position_embeddings == 2**22
    kind = int(gguf.GGUFValueType.UINT32)
    most, too_many = (b"llama.context_length" + struct.pack("<II", kind, 2**22 + more) for more in (0, 1))
    path.write_bytes(path.read_bytes().replace(most, too_many))
    assert f"{path}: max_position_embeddings is {2**22 + 1}, but may be {2**22} at most" in refused(path)


def test_both_ways_to_write_the_rotary_base_are_read(tmp_path: Path) -> None:
    old = open_checkpoint(with_config(tmp_path / "old", rope_theta=5e5)).config
    new = open_checkpoint(with_config(tmp_path / "new", rope_theta=None, rope_parameters={"rope_theta": 5e5})).config
    assert old == new == replace(TINY, rope_theta=5e5)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_without_one_of_its_files_is_refused(missing: str, tmp_path: Path) -> None:
    write_safetensors(tmp_path, TINY, random_weights(TINY))
    (tmp_path / missing).unlink()
    assert str(tmp_path) in refused(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, random_weights(TINY))
    (folder / "b.safetensors").unlink()
    assert "b.safetensors" in refused(folder)


def test_a_link_that_leads_to_no_file_is_named(tmp_path: Path) -> None:
    file = write_safetensors(tmp_path, TINY, random_weights(TINY)) / "model.safetensors"
    file.rename(tmp_path / "blob")
    file.symlink_to(tmp_path / "gone")
    assert f"There is no file {file}, though a link" in refused(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "model.gguf"])
def test_a_file_that_may_not_be_read_is_named_with_the_cause(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = write_safetensors(tmp_path, TINY, random_weights(TINY)) / name
    if name.endswith(".gguf"):
        write_gguf(file, TINY, random_weights(TINY))

    def forbidden(path: Path, *args: Any, **options: Any) -> Any:
        if path == file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open(path, *args, **options)

    monkeypatch.setattr(Path, "open", forbidden)
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: path.open(encoding=encoding).read())
    told = refused(file if name.endswith(".gguf") else tmp_path)
    assert f"{file} cannot be read (Permission denied): put a file there that you may read" in told


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_folder_in_the_place_of_a_file_is_named(name: str, tmp_path: Path) -> None:
    file = write_safetensors(tmp_path, TINY, random_weights(TINY)) / name
    file.unlink()
    file.mkdir()
    assert f"{file} cannot be read (Is a directory): put a file there" in refused(tmp_path)


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"weight_map": []}'])
def test_a_damaged_index_is_refused(content: str, tmp_path: Path) -> None:
    folder = write_shards(tmp_path, random_weights(TINY))
    (folder / "model.safetensors.index.json").write_text(content)
    assert "model.safetensors.index.json" in refused(folder)


def test_a_shard_that_is_named_stands_for_the_whole_model(tmp_path: Path) -> None:
    weights = random_weights(TINY)
    checkpoint = open_checkpoint(write_shards(tmp_path, weights) / "b.safetensors")
    assert all(torch.equal(weight, weights[name]) for name, weight in checkpoint.weights())


def test_a_file_beside_shards_that_is_named_is_read_alone(tmp_path: Path) -> None:
    write_shards(tmp_path, random_weights(TINY))
    other = random_weights(TINY, seed=1)
    save_file(other, tmp_path / "other.safetensors")
    checkpoint = open_checkpoint(tmp_path / "other.safetensors")
    assert all(torch.equal(weight, other[name]) for name, weight in checkpoint.weights())


def test_a_named_file_that_is_no_whole_model_is_itself_named_in_the_complaint(tmp_path: Path) -> None:
    weights = random_weights(TINY)
    write_safetensors(tmp_path, TINY, weights)
    save_file({QUERY: weights[QUERY]}, tmp_path / "part.safetensors")
    assert str(tmp_path / "part.safetensors") in refused(tmp_path / "part.safetensors")


def test_shards_without_an_index_are_refused(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, random_weights(TINY))
    (folder / "model.safetensors.index.json").unlink()
    assert "model.safetensors.index.json" in refused(folder)


def test_integer_weights_are_refused(tmp_path: Path) -> None:
    weights = random_weights(TINY)
    weights[QUERY] = weights[QUERY].to(torch.int8)
    message = refused(write_safetensors(tmp_path, TINY, weights))
    assert QUERY in message
    assert "I8" in message
