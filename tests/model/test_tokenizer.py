"""Token ids, chat template and incremental detokenization, held against transformers and llama.cpp."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from minivllm.model.errors import ModelError
from minivllm.model.gguf_file import GGUFFile
from minivllm.model.tokenizer import IncrementalDetokenizer, Tokenizer
from tests.model.tiny import CHAT_TEMPLATE, TINY, random_weights, write_gguf

HARD = [
    "",
    " ",
    "   ",
    "\n",
    "a 2024年 <|im_end|> 🙂",
    "In 1999, 12345.678e-9 0x1F 1,000,000",
    "你好，世界。今天是2024年5月1日。",
    "👩‍👩‍👧‍👦🏳️‍🌈 🙂👍🏽",
    "Привет, мир! ñandú naïve Ａ１ e\u0301 \u200b\u00a0\u3000x",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><repo_name>x<file_sep><|im_start",
    "I'm you're we'LL they'd 'S",
    "def f(x):\n    return x+1\n\n\n\t# c\r\n",
    "https://example.org/b/c?d=1&e=%20#f",
    "a" * 40,
    "\ufffd\x00\x7f",
    "½ ² Ⅷ ٣٤",
]
# White space before digits, where the order of the two rules that cut the text shows: ids that llama.cpp gives.
LLAMA_CPP = {
    "  2 x": [256, 34, 1792],
    "x  12": [104, 256, 33, 34],
    "a  b\n\n  34\t5": [81, 216, 278, 39892, 35, 36, 197, 37],
}
# SmolLM2's vocabulary has no token for these control characters, nor for the first byte of planes 4 to 11.
MISSING = "\x04\x06\x13\x14\x16\x1d"
KNOWN = st.characters(max_codepoint=0x3FFFF, exclude_characters=MISSING, exclude_categories=["Cs"])
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Why is 1 < 2?\n"},
    {"role": "assistant", "content": "因为 🙂"},
    {"role": "user", "content": "<|im_end|>"},
]


@pytest.fixture(scope="module")
def tokenizer(smollm2_file: Path) -> Tokenizer:
    return Tokenizer.from_path(smollm2_file)


@pytest.fixture(scope="module")
def reference(smollm2_file: Path) -> Any:
    """transformers' tokenizer of the same file.

    It overlooks tokenizer.ggml.pre ("smollm"), which says that digits are cut off first; that rule is put in.
    """
    import transformers

    fast = transformers.AutoTokenizer.from_pretrained(str(smollm2_file.parent), gguf_file=smollm2_file.name)
    digits = pre_tokenizers.Digits(individual_digits=True)
    fast.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, fast.backend_tokenizer.pre_tokenizer])
    return fast


@pytest.mark.parametrize("text", [*HARD, *LLAMA_CPP])
def test_ids_and_text_equal_transformers(tokenizer: Tokenizer, reference: Any, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids == reference(text).input_ids
    assert tokenizer.decode(ids) == reference.decode(ids, skip_special_tokens=True)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("text", LLAMA_CPP)
def test_digits_are_cut_off_before_white_space_is_joined(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text) == LLAMA_CPP[text]


@settings(max_examples=200, deadline=None)
@given(text=st.text(KNOWN))
def test_decoding_undoes_encoding(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


def test_what_the_vocabulary_has_no_token_for_is_left_out_as_in_transformers(
    tokenizer: Tokenizer, reference: Any
) -> None:
    text = f"a{MISSING}b\U00040000c"
    assert tokenizer.encode(text) == reference(text).input_ids
    assert tokenizer.decode(tokenizer.encode(MISSING)) == ""


@pytest.mark.parametrize("add_generation_prompt", [True, False])
@pytest.mark.parametrize("messages", [MESSAGES, MESSAGES[1:2]], ids=["system", "no-system"])
def test_the_chat_template_renders_as_in_transformers(
    tokenizer: Tokenizer, reference: Any, messages: list[dict[str, str]], add_generation_prompt: bool
) -> None:
    expected = reference.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=add_generation_prompt) == expected


def test_a_tokenizer_json_gives_the_same_tokenizer(tokenizer: Tokenizer, reference: Any, tmp_path: Path) -> None:
    reference.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 0]}')
    saved = Tokenizer.from_path(tmp_path)
    assert [saved.encode(text) for text in HARD] == [tokenizer.encode(text) for text in HARD]
    assert saved.apply_chat_template(MESSAGES) == tokenizer.apply_chat_template(MESSAGES)
    assert saved.special_tokens["eos_token"] == tokenizer.special_tokens["eos_token"] == "<|im_end|>"
    assert tokenizer.eos_token_ids == (2,)
    assert saved.eos_token_ids == (2, 0)
    assert saved.vocab_size == tokenizer.vocab_size == 49152


def test_the_end_of_text_is_found_without_a_generation_config(reference: Any, tmp_path: Path) -> None:
    reference.save_pretrained(tmp_path)
    assert Tokenizer.from_folder(tmp_path).eos_token_ids == (2,)


def test_a_character_comes_out_once_all_its_bytes_are_there(tokenizer: Tokenizer) -> None:
    detokenizer = IncrementalDetokenizer(tokenizer)
    pieces = [detokenizer.add(token) for token in tokenizer.encode("你好🙂 a")]
    assert "".join(pieces) == detokenizer.text == "你好🙂 a"
    assert "" in pieces
    assert not any("\ufffd" in piece for piece in pieces)
    assert detokenizer.finish() == ""


def test_bytes_that_never_become_a_character_come_out_at_the_end(tokenizer: Tokenizer) -> None:
    half = tokenizer.encode("ok 🧪")[:-1]
    detokenizer = IncrementalDetokenizer(tokenizer)
    assert "".join(detokenizer.add(token) for token in half) == "ok "[: len(detokenizer.text)]
    assert detokenizer.finish().endswith("\ufffd")
    assert detokenizer.text == tokenizer.decode(half)


def test_special_tokens_are_left_out_unless_asked_for(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<|im_start|>hi<|im_end|>")
    shown = IncrementalDetokenizer(tokenizer, skip_special_tokens=False)
    hidden = IncrementalDetokenizer(tokenizer)
    assert "".join(map(shown.add, ids)) == "<|im_start|>hi<|im_end|>"
    assert "".join(map(hidden.add, ids)) == "hi"


@settings(max_examples=300, deadline=None)
@given(ids=st.lists(st.integers(0, 300) | st.integers(0, 49151), max_size=40))
def test_any_tokens_come_out_as_they_decode_together(tokenizer: Tokenizer, ids: list[int]) -> None:
    detokenizer = IncrementalDetokenizer(tokenizer)
    pieces = [detokenizer.add(token) for token in ids]
    assert "".join(pieces) + detokenizer.finish() == detokenizer.text == tokenizer.decode(ids)


def tiny(tmp_path: Path, **keys: Any) -> dict[str, Any]:
    """The metadata of a tiny GGUF file, with keys of tokenizer.* changed or, given None, taken away."""
    found = GGUFFile(write_gguf(tmp_path / "tiny.gguf", TINY, random_weights(TINY))).metadata
    changed = found | {f"tokenizer.{name.replace('__', '.')}": value for name, value in keys.items()}
    return {key: value for key, value in changed.items() if value is not None}


def test_a_vocabulary_of_single_bytes_reads_everything(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_gguf(tiny(tmp_path))
    assert len(tokenizer.encode("é🙂")) == 6
    assert tokenizer.decode(tokenizer.encode("é🙂")) == "é🙂"
    assert tokenizer.chat_template == CHAT_TEMPLATE


def test_a_beginning_token_is_added_where_the_file_says_so(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_gguf(tiny(tmp_path, ggml__add_bos_token=True))
    assert tokenizer.encode("a") == [1, *tokenizer.encode("a", add_special_tokens=False)]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"ggml__model": "llama"}, r"'llama'.*tokenizer\.json"),
        ({"ggml__pre": "qwen2"}, r"'qwen2'.*'gpt-2', 'smollm'"),
        ({"ggml__merges": None}, r"tokenizer\.ggml\.merges"),
        ({"ggml__merges": ["no such"]}, r"damaged"),
        ({"ggml__eos_token_id": 320}, r"damaged"),
        ({"ggml__token_type": [1]}, r"damaged"),
    ],
)
def test_a_gguf_tokenizer_that_cannot_be_read_is_refused(keys: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        Tokenizer.from_gguf(tiny(tmp_path, **keys))


@pytest.mark.parametrize("content", [None, "{", "[]", '{"model": {}}'])
def test_a_missing_or_damaged_tokenizer_json_is_refused(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        Tokenizer.from_path(tmp_path)


@pytest.mark.parametrize(
    ("file", "field", "value", "kind"),
    [
        ("tokenizer_config.json", "eos_token", {"x": 1}, "a string or an object whose content is a string"),
        ("tokenizer_config.json", "bos_token", 5, "a string or an object whose content is a string"),
        (
            "tokenizer_config.json",
            "chat_template",
            [{"nme": "x"}],
            "a string or a list of objects with a name and a template",
        ),
        ("tokenizer_config.json", "chat_template", 5, "a string or a list of objects with a name and a template"),
        ("generation_config.json", "eos_token_id", ["2"], "an int or a list of ints"),
        ("config.json", "eos_token_id", "2", "an int or a list of ints"),
    ],
)
def test_a_field_of_the_wrong_type_is_named_with_its_file_its_value_and_what_it_must_be(
    file: str, field: str, value: Any, kind: str, tmp_path: Path
) -> None:
    Tokenizer.from_gguf(tiny(tmp_path)).backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / file).write_text(json.dumps({field: value}))
    with pytest.raises(ModelError) as caught:
        Tokenizer.from_folder(tmp_path)
    assert str(caught.value) == f"{tmp_path / file} is damaged: {field} is {value!r}, but must be {kind}; get it again."


def test_switches_and_nulls_among_the_tokens_are_passed_over(tmp_path: Path) -> None:
    Tokenizer.from_gguf(tiny(tmp_path)).backend.save(str(tmp_path / "tokenizer.json"))
    tokens = {"add_bos_token": True, "unk_token": None, "bos_token": {"content": "<|im_start|>"}, "eos_token": "hi"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokens))
    assert Tokenizer.from_folder(tmp_path).special_tokens == {"bos_token": "<|im_start|>", "eos_token": "hi"}


def with_template(tokenizer: Tokenizer, template: str | None) -> Tokenizer:
    return Tokenizer(tokenizer.backend, template, tokenizer.special_tokens, tokenizer.eos_token_ids)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "no chat template"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for", "cannot be applied"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "cannot be applied"),
        ("{{ messages[0].content.x.y }}", "cannot be applied"),
        ("{{ 1 + messages[0].content }}", "cannot be applied"),
    ],
)
def test_a_template_that_is_missing_refuses_or_misbehaves_is_an_error(
    tokenizer: Tokenizer, template: str | None, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        with_template(tokenizer, template).apply_chat_template(MESSAGES)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"role": "user", "content": None}, r"messages\[1\]\['content'\] is None, but must be a str"),
        ({"role": "user", "content": 5}, r"messages\[1\]\['content'\] is 5, but must be a str"),
        ({"content": "hi"}, r"messages\[1\]\['role'\] is None, but must be a str"),
        ("hi", r"messages\[1\]\['role'\] is None"),
        ({"role": "user", "content": "caf\udce9"}, r"messages\[1\]\['content'\] has '\\udce9' at position 3"),
    ],
)
def test_a_message_without_a_role_and_content_of_text_is_named(
    tokenizer: Tokenizer, message: Any, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        tokenizer.apply_chat_template([MESSAGES[1], message])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("caf\udce9 au lait", r"has '\\udce9' at position 3, which is no character"),
        (b"hi", r"is b'hi', but must be a str"),
        (None, r"is None, but must be a str"),
    ],
)
def test_what_is_no_text_is_not_encoded(tokenizer: Tokenizer, text: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tokenizer.encode(text)


def test_a_prompt_that_is_not_utf_8_ends_the_command_in_one_line(tmp_path: Path) -> None:
    model = write_gguf(tmp_path / "tiny.gguf", TINY, random_weights(TINY))
    command: list[str | bytes] = [sys.executable, "-m", "minivllm", "generate", b"caf\xe9", "--model", str(model)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout) == (2, "")
    assert "at position 3, which is no character" in run.stderr
    assert run.stderr.count("\n") == 1


def test_what_templates_of_other_models_use_is_there(tokenizer: Tokenizer) -> None:
    template = "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m | tojson }}{% endfor %}{{ eos_token }}"
    rendered = with_template(tokenizer, template).apply_chat_template([{"role": "user", "content": "<é>"}, MESSAGES[0]])
    assert rendered == json.dumps({"role": "user", "content": "<é>"}, ensure_ascii=False) + "<|im_end|>"


def test_of_several_templates_the_default_one_is_taken(reference: Any, tmp_path: Path) -> None:
    reference.save_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    settings_file = tmp_path / "tokenizer_config.json"
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    settings_file.write_text(json.dumps(json.loads(settings_file.read_text()) | {"chat_template": named}))
    assert Tokenizer.from_folder(tmp_path).apply_chat_template(MESSAGES) == "d"
