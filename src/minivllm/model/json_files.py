"""The JSON files in a model's folder; every field that is read from one has its type here."""

import json
import reprlib
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from minivllm.model.errors import ModelError, unreadable


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in types


def _is_list_of(is_item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(map(is_item, value))


def _is_rope(value: Any) -> bool:
    return (
        type(value) is dict
        and all(type(value.get(key, "")) is str for key in ("rope_type", "type"))
        and type(value.get("rope_theta", 1)) in (int, float)
    )


def _is_token(value: Any) -> bool:
    """A bool is a switch of this name, such as add_bos_token."""
    return type(value) in (str, bool) or (type(value) is dict and type(value.get("content")) is str)


def _is_template(value: Any) -> bool:
    return type(value) is dict and all(type(value.get(key)) is str for key in ("name", "template"))


def _is_template_or_several(value: Any) -> bool:
    return type(value) is str or _is_list_of(_is_template)(value)


def _is_id_or_several(value: Any) -> bool:
    return type(value) is int or _is_list_of(_is(int))(value)


_Field = tuple[Callable[[Any], bool], str]
_INT: _Field = (_is(int), "an int")
_NUMBER: _Field = (_is(int, float), "a number")
_TEXT: _Field = (_is(str), "a string")
_SWITCH: _Field = (_is(bool), "true or false")
_ROPE: _Field = (_is_rope, "an object, its rope_type a string and its rope_theta a number")
_IDS: _Field = (_is_id_or_several, "an int or a list of ints")

# What a field must be unless it is null; a "*" in its name stands for anything.
_FIELDS: dict[str, dict[str, _Field]] = {
    "config.json": {
        "architectures": (_is_list_of(_is(str)), "a list of strings"),
        "model_type": _TEXT,
        "hidden_act": _TEXT,
        "attention_bias": _SWITCH,
        "mlp_bias": _SWITCH,
        "tie_word_embeddings": _SWITCH,
        "vocab_size": _INT,
        "hidden_size": _INT,
        "intermediate_size": _INT,
        "num_hidden_layers": _INT,
        "num_attention_heads": _INT,
        "num_key_value_heads": _INT,
        "head_dim": _INT,
        "max_position_embeddings": _INT,
        "rms_norm_eps": _NUMBER,
        "rope_theta": _NUMBER,
        "rope_parameters": _ROPE,
        "rope_scaling": _ROPE,
        "eos_token_id": _IDS,
    },
    "generation_config.json": {"eos_token_id": _IDS},
    "tokenizer_config.json": {
        "*_token": (_is_token, "a string or an object whose content is a string"),
        "chat_template": (_is_template_or_several, "a string or a list of objects with a name and a template"),
    },
    "model.safetensors.index.json": {"weight_map": (_is(dict), "an object")},
}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; the fields that this package uses have the types that they must have, or are null.

    Raises:
        ModelError: there is no such file, it can't be read, or it holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path.parent} holds no {path.name}: give a folder with the whole model in it.") from None
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is no JSON ({error}): get it again.") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds a {type(content).__name__}, but must hold an object: get it again.")
    for pattern, (is_right, kind) in _FIELDS.get(path.name, {}).items():
        for name, value in content.items():
            if value is not None and fnmatchcase(name, pattern) and not is_right(value):
                raise ModelError(
                    f"{path} is damaged: {name} is {reprlib.repr(value)}, but must be {kind}; get it again."
                )
    return content
