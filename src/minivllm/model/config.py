"""The shape of a Llama, from a Hugging Face ``config.json`` or from the metadata of a GGUF file."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from minivllm.model.errors import ModelError

# Keys of config.json that turn on a part that LlamaForCausalLM here does not have.
_UNSUPPORTED_SWITCHES = ("attention_bias", "mlp_bias")
_MAX_POSITIONS = 2**22  # each has a row in the table of angles: 1 GiB of them at a head size of 64


@dataclass(frozen=True)
class LlamaConfig:
    """Names are those of ``transformers.LlamaConfig``; sizes count elements, positions count tokens.

    Raises:
        ModelError: a size is no positive int, there are too many positions, or the heads cannot be grouped or rotated.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    tie_word_embeddings: bool

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is int and (type(value) is not int or value < 1):
                raise ModelError(
                    f"{field.name} is {value!r}, but must be an int of at least 1: the model's config is damaged."
                )
            if field.type is float and not (type(value) in (int, float) and 0 < value <= sys.float_info.max):
                raise ModelError(
                    f"{field.name} is {value!r}, but must be a finite number above 0: the model's config is damaged."
                )
        if self.max_position_embeddings > _MAX_POSITIONS:
            raise ModelError(
                f"max_position_embeddings is {self.max_position_embeddings}, but may be {_MAX_POSITIONS} at most: set "
                "it to the number of positions that you need."
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise ModelError(
                f"num_attention_heads is {self.num_attention_heads}, but must be a multiple of num_key_value_heads "
                f"({self.num_key_value_heads}): each key/value head serves a whole group of query heads."
            )
        if self.head_dim % 2:
            raise ModelError(
                f"head_dim is {self.head_dim}, but must be even: rotary embeddings turn pairs of elements."
            )

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "LlamaConfig":
        """Read the content of a ``config.json``, of transformers 4 or 5.

        Raises:
            ModelError: another architecture, a part that is not implemented, or a missing key.
        """
        architecture = (config.get("architectures") or [config.get("model_type")])[0]
        if config.get("model_type") != "llama":
            raise _unknown_architecture(architecture)
        for switch in _UNSUPPORTED_SWITCHES:
            if config.get(switch):
                raise ModelError(
                    f"{switch} is {config[switch]!r}, but this Llama has no biases: use a model without them."
                )
        if config.get("hidden_act", "silu") != "silu":
            raise ModelError(
                f"hidden_act is {config['hidden_act']!r}, but only 'silu' is implemented: use a model with SwiGLU."
            )
        rope = config.get("rope_parameters") or {
            "rope_theta": config.get("rope_theta", 10000.0),
            **(config.get("rope_scaling") or {}),
        }
        rope_type = rope.get("rope_type", rope.get("type", "default"))
        if rope_type != "default":
            raise _scaled_rope(rope_type)
        try:
            heads = config["num_attention_heads"]
            return cls(
                vocab_size=config["vocab_size"],
                hidden_size=config["hidden_size"],
                intermediate_size=config["intermediate_size"],
                num_hidden_layers=config["num_hidden_layers"],
                num_attention_heads=heads,
                num_key_value_heads=config.get("num_key_value_heads") or heads,
                head_dim=config.get("head_dim") or config["hidden_size"] // heads,
                max_position_embeddings=config["max_position_embeddings"],
                rms_norm_eps=config["rms_norm_eps"],
                rope_theta=rope["rope_theta"],
                tie_word_embeddings=config.get("tie_word_embeddings", False),
            )
        except KeyError as error:
            raise ModelError(f"There is no {error.args[0]!r}: get the whole model again.") from None
        except (TypeError, ZeroDivisionError) as error:
            raise ModelError(f"The config is damaged ({error}): get the whole model again.") from None

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], *, tied: bool) -> "LlamaConfig":
        """Read the metadata of a GGUF file; ``tied`` says that it has no ``output.weight``.

        Raises:
            ModelError: another architecture, a part that is not implemented, or a missing key.
        """
        architecture = metadata.get("general.architecture")
        if architecture != "llama":
            raise _unknown_architecture(architecture)
        rope_type = metadata.get("llama.rope.scaling.type", "none")
        if rope_type != "none":
            raise _scaled_rope(rope_type)
        try:
            heads = metadata["llama.attention.head_count"]
            hidden_size = metadata["llama.embedding_length"]
            config = cls(
                vocab_size=metadata.get("llama.vocab_size") or len(metadata["tokenizer.ggml.tokens"]),
                hidden_size=hidden_size,
                intermediate_size=metadata["llama.feed_forward_length"],
                num_hidden_layers=metadata["llama.block_count"],
                num_attention_heads=heads,
                num_key_value_heads=metadata.get("llama.attention.head_count_kv", heads),
                head_dim=metadata.get("llama.attention.key_length") or hidden_size // heads,
                max_position_embeddings=metadata["llama.context_length"],
                rms_norm_eps=metadata["llama.attention.layer_norm_rms_epsilon"],
                rope_theta=metadata.get("llama.rope.freq_base", 10000.0),
                tie_word_embeddings=tied,
            )
        except KeyError as error:
            raise ModelError(
                f"The GGUF file has no {error.args[0]!r} in its metadata: convert the model again."
            ) from None
        except (TypeError, ZeroDivisionError) as error:
            raise ModelError(f"The GGUF file's metadata is damaged ({error}): convert the model again.") from None
        rotary_dim = metadata.get("llama.rope.dimension_count", config.head_dim)
        if rotary_dim != config.head_dim:
            raise ModelError(
                f"llama.rope.dimension_count is {rotary_dim}, but must be the head size ({config.head_dim}): "
                "use a model whose heads are rotated whole."
            )
        return config

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor that a checkpoint of this shape holds, by its Hugging Face name; matrices are [out, in]."""
        query_size = self.num_attention_heads * self.head_dim
        kv_size = self.num_key_value_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (self.vocab_size, self.hidden_size)}
        for layer in range(self.num_hidden_layers):
            prefix = f"model.layers.{layer}"
            shapes |= {
                f"{prefix}.input_layernorm.weight": (self.hidden_size,),
                f"{prefix}.self_attn.q_proj.weight": (query_size, self.hidden_size),
                f"{prefix}.self_attn.k_proj.weight": (kv_size, self.hidden_size),
                f"{prefix}.self_attn.v_proj.weight": (kv_size, self.hidden_size),
                f"{prefix}.self_attn.o_proj.weight": (self.hidden_size, query_size),
                f"{prefix}.post_attention_layernorm.weight": (self.hidden_size,),
                f"{prefix}.mlp.gate_proj.weight": (self.intermediate_size, self.hidden_size),
                f"{prefix}.mlp.up_proj.weight": (self.intermediate_size, self.hidden_size),
                f"{prefix}.mlp.down_proj.weight": (self.hidden_size, self.intermediate_size),
            }
        shapes["model.norm.weight"] = (self.hidden_size,)
        if not self.tie_word_embeddings:
            shapes["lm_head.weight"] = (self.vocab_size, self.hidden_size)
        return shapes


def _unknown_architecture(name: Any) -> ModelError:
    return ModelError(f"The architecture is {name!r}, but only Llama is implemented: use such a model.")


def _scaled_rope(name: Any) -> ModelError:
    return ModelError(
        f"The rotary embeddings are scaled ({name!r}), but only plain ones are implemented: use another model."
    )
