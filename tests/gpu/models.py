"""Models with random weights: a configuration in the shape of a known one, and a tokenizer made here.

vLLM fills in the weights (`--load-format dummy`), so a model is two small files. Shapes are those of Qwen3-14B and of
Qwen3-30B-A3B (their own config.json); the vocabulary is the tokenizer's, because a token that it does not know has no
text, and an answer without text is none.
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.client.shapes import Message

#: Entries of the vocabulary, at most.
VOCABULARY = 32_000
#: Characters of English and code that the tokenizer learns from: what every Python has.
_LEARNS_FROM = 12_000_000
_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_SPECIAL = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")

_COMMON: dict[str, Any] = {
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "attention_bias": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}
#: What ModelOpt writes into config.json. The router and the output are never quantised.
_NVFP4: dict[str, Any] = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "kv_cache_quant_algo": None,
    "group_size": 16,
    "ignore": ["lm_head", "*.mlp.gate"],
}
_MXFP4 = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ],
}
_DENSE: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
}
_MOE: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "quantization_config": _NVFP4,
}
#: Measured.
MODELS: dict[str, dict[str, Any]] = {"dense-14b": _DENSE, "moe-30b-nvfp4": _MOE}
#: Of two layers: only which kernels they are given is of interest.
_SHORT: dict[str, Any] = {"num_hidden_layers": 2}
SHORT: dict[str, dict[str, Any]] = {
    "short-dense": _DENSE | _SHORT,
    "short-dense-nvfp4": _DENSE | _SHORT | {"quantization_config": _NVFP4},
    "short-moe-nvfp4": _MOE | _SHORT,
    "short-moe-w4a16": _MOE | _SHORT | {"quantization_config": _NVFP4 | {"quant_algo": "W4A16_NVFP4"}},
    "short-moe-mxfp4": {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "attention_bias": True,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"],
        "swiglu_limit": 7.0,
        "router_aux_loss_coef": 0.9,
        "rope_theta": 150000,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        },
        "quantization_config": _MXFP4,
        **_SHORT,
    },
}


def make(name: str, folder: Path) -> None:
    """The model's folder; the tokenizer is made once for all."""
    tokenizer = _tokenizer(folder.parent / "tokenizer.json")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    size = len(tokenizer["model"]["vocab"])
    end = next(each["id"] for each in tokenizer["added_tokens"] if each["content"] == _SPECIAL[0])
    config = {
        **_COMMON,
        **(MODELS | SHORT)[name],
        "vocab_size": size + len(_SPECIAL),
        "bos_token_id": end,
        "eos_token_id": end,
    }
    _json(folder / "config.json", config)
    _json(folder / "generation_config.json", {"eos_token_id": end})
    words = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": _SPECIAL[0], "chat_template": _TEMPLATE}
    _json(folder / "tokenizer_config.json", {**words, "model_max_length": 40960})


def counter(folder: Path) -> Callable[[list[list[Message]]], list[int]]:
    """Messages of several prompts -> tokens of each, as the engine counts them: to ask it for all of them takes as long
    as a step itself. The engine's own count of each request is in the records.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def count(prompts: list[list[Message]]) -> list[int]:
        texts = [
            "".join(f"<|{each['role']}|>{each['content']}<|end|>" for each in messages) + "<|assistant|>"
            for messages in prompts
        ]
        return [len(each.ids) for each in tokenizer.encode_batch(texts)]

    return count


def _tokenizer(file: Path) -> dict[str, Any]:
    if not file.exists():
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        learning = Tokenizer(models.BPE())
        learning.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        learning.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
        learning.train_from_iterator(_texts(), trainer)
        # Behind all others: the first id is what an engine says that computes nonsense, and it must have a text.
        learning.add_special_tokens(list(_SPECIAL))
        file.parent.mkdir(parents=True, exist_ok=True)
        learning.save(str(file))
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _texts() -> Iterator[str]:
    """Python's own library, its documentation first."""
    library, left = Path(sysconfig.get_paths()["stdlib"]), _LEARNS_FROM
    for file in (library / "pydoc_data/topics.py", *sorted(library.glob("*.py")), *sorted(library.glob("*/*.py"))):
        if left <= 0:
            return
        text = file.read_bytes()[:left].decode("ascii", errors="ignore")
        left -= len(text)
        yield text


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
