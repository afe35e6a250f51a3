"""Text to token ids and back, and the chat template, from the files of a model.

Mirrors the places of vllm/tokenizers and vllm/v1/engine/detokenizer.py (FastIncrementalDetokenizer).
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as _Tokenizer

from minivllm.model.errors import ModelError
from minivllm.model.gguf_file import GGUFFile
from minivllm.model.json_files import read_json

_GGUF_CONTROL_TOKEN = 3


def _byte_level() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _digits_and_byte_level() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _byte_level()])


# GGUF gives the rule that cuts text before the merges by its name (tokenizer.ggml.pre).
_GGUF_PRE_TOKENIZERS = {"gpt-2": _byte_level, "smollm": _digits_and_byte_level}


class Tokenizer:
    """What a model reads and writes.

    Args:
        backend: encodes and decodes.
        chat_template: Jinja source; None for a model that was not trained on conversations.
        special_tokens: names that the template may use ("bos_token", "eos_token", ...) with their text.
        eos_token_ids: the ids that end a text.
    """

    def __init__(
        self,
        backend: _Tokenizer,
        chat_template: str | None,
        special_tokens: Mapping[str, str],
        eos_token_ids: Sequence[int],
    ) -> None:
        self.backend = backend
        self.chat_template = chat_template
        self.special_tokens = dict(special_tokens)
        self.eos_token_ids = tuple(eos_token_ids)

    @classmethod
    def from_path(cls, path: Path) -> "Tokenizer":
        """Build the tokenizer of a GGUF file, or of a folder with ``tokenizer.json`` (or a safetensors file in it).

        Raises:
            ModelError: a file is missing or damaged, or the kind of tokenizer is not known.
        """
        if path.suffix == ".safetensors" and path.is_file():
            return cls.from_folder(path.parent)
        return cls.from_gguf(GGUFFile(path).metadata) if path.is_file() else cls.from_folder(path)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> "Tokenizer":
        """Build the byte-level BPE tokenizer that the metadata of a GGUF file describes.

        Raises:
            ModelError: another kind of tokenizer, or one that is damaged.
        """
        kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
        if kind != "gpt2" or pre not in _GGUF_PRE_TOKENIZERS:
            raise ModelError(
                f"The GGUF file's tokenizer is {kind!r} with pre-tokenizer {pre!r}, but only 'gpt2' with one of "
                f"{', '.join(map(repr, _GGUF_PRE_TOKENIZERS))} is read: use the folder with the model's tokenizer.json."
            )
        try:
            return cls._from_gguf_bpe(metadata, _GGUF_PRE_TOKENIZERS[pre]())
        except KeyError as error:
            raise ModelError(f"The GGUF file has no {error.args[0]!r} in its metadata: convert it again.") from None
        except Exception as error:  # tokenizers raises nothing narrower
            raise ModelError(f"The GGUF file's tokenizer is damaged ({error}): convert the model again.") from error

    @classmethod
    def _from_gguf_bpe(cls, metadata: Mapping[str, Any], pre_tokenizer: pre_tokenizers.PreTokenizer) -> "Tokenizer":
        tokens: list[str] = metadata["tokenizer.ggml.tokens"]
        types: list[int] = metadata["tokenizer.ggml.token_type"]
        merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
        backend = _Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
        backend.pre_tokenizer = pre_tokenizer
        backend.decoder = decoders.ByteLevel()
        control = [token for token, type_ in zip(tokens, types, strict=True) if type_ == _GGUF_CONTROL_TOKEN]
        backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
        keys = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
        ids = {name: metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in keys.items()}
        special = {name: tokens[token_id] for name, token_id in ids.items() if token_id is not None}
        if metadata.get("tokenizer.ggml.add_bos_token", False):
            bos = special["bos_token"]
            backend.post_processor = processors.TemplateProcessing(
                f"{bos} $A", special_tokens=[(bos, ids["bos_token"])]
            )
        return cls(backend, metadata.get("tokenizer.chat_template"), special, [metadata["tokenizer.ggml.eos_token_id"]])

    @classmethod
    def from_folder(cls, folder: Path) -> "Tokenizer":
        """Read ``tokenizer.json`` and, where they exist, the settings beside it.

        Raises:
            ModelError: a file is missing or damaged.
        """
        if not (folder / "tokenizer.json").is_file():
            raise ModelError(f"{folder} holds no tokenizer.json: give a folder with the whole model in it.")
        try:
            backend = _Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # tokenizers raises nothing narrower
            raise ModelError(f"{folder / 'tokenizer.json'} cannot be read ({error}): get it again.") from None
        settings = _read_optional(folder / "tokenizer_config.json")
        special = {
            name: _text(value)
            for name, value in settings.items()
            if name.endswith("_token") and isinstance(value, str | dict)
        }
        template_file = folder / "chat_template.jinja"
        template = (
            template_file.read_text(encoding="utf-8") if template_file.is_file() else settings.get("chat_template")
        )
        return cls(backend, _default_template(template), special, _eos_token_ids(folder, backend, special))

    @property
    def vocab_size(self) -> int:
        """Number of token ids, special ones among them."""
        return self.backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of ``text``; special tokens that are spelled out in it are recognized.

        ``add_special_tokens=False`` adds none at the start: a chat template has written them already.

        Raises:
            ValueError: ``text`` is no text, or holds half a character (a surrogate).
        """
        _check_text("The text", text)
        return self.backend.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of ``token_ids``; bytes that are no UTF-8 become U+FFFD."""
        return self.backend.decode(list(token_ids), skip_special_tokens=skip_special_tokens)

    def detokenizer(self) -> "IncrementalDetokenizer":
        """For the tokens of one request, as they come."""
        return IncrementalDetokenizer(self)

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> str:
        """The text that the model was trained to see for these messages ("role", "content").

        Encode it with ``add_special_tokens=False``.

        Raises:
            ValueError: a message has no role or content, or one that is no text.
            ModelError: the model has no template, or the template refuses the messages.
        """
        for i, message in enumerate(messages):
            for key in ("role", "content"):
                _check_text(f"messages[{i}][{key!r}]", message.get(key) if isinstance(message, Mapping) else None)
        if self.chat_template is None:
            raise ModelError(
                "The model has no chat template: pass a plain prompt, or use a model tuned for conversations."
            )
        try:
            template = _ENVIRONMENT.from_string(self.chat_template)
            return template.render(
                messages=messages, add_generation_prompt=add_generation_prompt, **self.special_tokens
            )
        except Exception as error:  # a template is a program that came with the model
            raise ModelError(f"The chat template cannot be applied to these messages: {error}.") from error


class IncrementalDetokenizer:
    """Turns one request's tokens into text as they come; a character is given out once all its bytes are there."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._stream = decoders.DecodeStream(skip_special_tokens=skip_special_tokens)
        self._token_ids: list[int] = []
        self.text = ""

    def add(self, token_id: int) -> str:
        """Take the next token; return the text that is new, which may be empty."""
        self._token_ids.append(token_id)
        new = self._stream.step(self._tokenizer.backend, token_id) or ""
        self.text += new
        return new

    def finish(self) -> str:
        """Return what is still held back: bytes that will never be a whole character, as U+FFFD."""
        whole = self._tokenizer.decode(self._token_ids, skip_special_tokens=self._skip_special_tokens)
        new = whole[len(self.text) :]
        self.text = whole
        return new


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{name} is {text!r}, but must be a str: give a text.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} has {text[error.start]!r} at position {error.start}, which is no character: give text that was "
            "read as UTF-8 without errors."
        ) from None


def _read_optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _text(token: str | Mapping[str, str]) -> str:
    return token if isinstance(token, str) else token["content"]


def _default_template(template: Any) -> str | None:
    """Some models name several templates; "default" is the one for conversations."""
    if not isinstance(template, list):
        return template if isinstance(template, str) else None
    return next((entry["template"] for entry in template if entry["name"] == "default"), None)


def _eos_token_ids(folder: Path, backend: _Tokenizer, special: Mapping[str, str]) -> list[int]:
    """generation_config.json may name several; tokenizer_config.json names one."""
    for name in ("generation_config.json", "config.json"):
        ids = _read_optional(folder / name).get("eos_token_id")
        if ids is not None:
            return ids if isinstance(ids, list) else [ids]
    eos = backend.token_to_id(special["eos_token"]) if "eos_token" in special else None
    return [] if eos is None else [eos]


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _tojson(value: Any, indent: int | None = None) -> str:
    """As transformers does it: Jinja's own filter escapes for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _environment() -> ImmutableSandboxedEnvironment:
    """A template comes with a downloaded file, so it runs in Jinja's sandbox."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda layout: datetime.now().strftime(layout)
    return environment


_ENVIRONMENT = _environment()
