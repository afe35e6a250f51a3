"""From a name or a path to a model and its tokenizer."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from minivllm.kernels import TritonUnavailableError
from minivllm.kernels.dispatch import interpreting
from minivllm.model.errors import ModelError
from minivllm.model.loader import default_dtype, load_model
from minivllm.model.tokenizer import Tokenizer
from tests.model.tiny import TINY, logits_of, random_weights, write_gguf, write_safetensors

CPU = torch.device("cpu")


def test_a_gguf_file_and_a_folder_give_the_same_model(tmp_path: Path) -> None:
    weights = random_weights(TINY)
    file = load_model(str(write_gguf(tmp_path / "model.gguf", TINY, weights)), CPU)
    folder = write_safetensors(tmp_path / "folder", TINY, weights)
    file.tokenizer.backend.save(str(folder / "tokenizer.json"))
    loaded = load_model(str(folder), CPU)
    assert type(loaded.tokenizer) is Tokenizer
    assert loaded.tokenizer.eos_token_ids == file.tokenizer.eos_token_ids == (2,)
    ids = loaded.tokenizer.encode("Hi, 世界")
    assert ids == file.tokenizer.encode("Hi, 世界")
    assert torch.equal(logits_of(loaded.model, ids), logits_of(file.model, ids))


def test_a_model_on_a_cpu_is_float32_unless_asked_otherwise(tmp_path: Path) -> None:
    path = str(write_gguf(tmp_path / "model.gguf", TINY, random_weights(TINY)))
    assert default_dtype(CPU) == torch.float32
    assert next(load_model(path, CPU).model.parameters()).dtype == torch.float32
    assert next(load_model(path, CPU, torch.float16).model.parameters()).dtype == torch.float16


def test_the_torch_kernels_can_be_asked_for(tmp_path: Path) -> None:
    path = str(write_gguf(tmp_path / "model.gguf", TINY, random_weights(TINY)))
    assert load_model(path, CPU, backend="torch").model.model.norm.kernels.backend == "torch"


@pytest.mark.skipif(interpreting(), reason="TRITON_INTERPRET=1 makes Triton's kernels run on a CPU")
def test_triton_on_a_cpu_is_refused(tmp_path: Path) -> None:
    path = str(write_gguf(tmp_path / "model.gguf", TINY, random_weights(TINY)))
    with pytest.raises(TritonUnavailableError):
        load_model(path, CPU, backend="triton")


def test_the_safetensors_file_that_is_named_is_the_one_that_is_loaded(tmp_path: Path) -> None:
    tuned = random_weights(TINY, seed=1)
    write_safetensors(tmp_path, TINY, tuned)
    (tmp_path / "model.safetensors").rename(tmp_path / "finetuned.safetensors")
    write_safetensors(tmp_path, TINY, random_weights(TINY))
    gguf = write_gguf(tmp_path / "tuned.gguf", TINY, tuned)
    expected = load_model(str(gguf), CPU)
    expected.tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    named = load_model(str(tmp_path / "finetuned.safetensors"), CPU)
    assert named.tokenizer.encode("hi") == expected.tokenizer.encode("hi")
    assert torch.equal(logits_of(named.model, [3, 4, 5]), logits_of(expected.model, [3, 4, 5]))
    whole = load_model(str(tmp_path), CPU)
    assert not torch.equal(logits_of(whole.model, [3, 4, 5]), logits_of(expected.model, [3, 4, 5]))


@pytest.mark.parametrize("head_dim", [24, 256])
def test_a_head_size_that_the_kernels_lack_is_refused_when_the_model_is_loaded(head_dim: int, tmp_path: Path) -> None:
    config = replace(TINY, head_dim=head_dim)
    path = write_gguf(tmp_path / "model.gguf", config, random_weights(config))
    with pytest.raises(ModelError, match=rf"head_dim is {head_dim}, but the kernels take heads of 16, 32, 64, 128"):
        load_model(str(path), CPU)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        load_model(str(write_safetensors(tmp_path, TINY, random_weights(TINY))), CPU)
