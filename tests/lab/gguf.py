"""The tiny model as GGUF: the weights, words and template of tests/lab/model.py in the one file that llama.cpp reads.

The format (version 3) is llama.cpp's docs/gguf.md in the ggml repository: a header of keys and values, what each tensor
is called and where it begins, then the tensors.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from operations.plan.recipes.formats import load_recipe
from tests.lab import further, model

RECIPE = load_recipe("lab-tiny-gguf")
REPO = RECIPE.model.repo
#: As its repository calls it: what the recipe's quant, F32, is found by.
NAME = "tiny-llama-F32.gguf"
#: Types of values, and of tensors, by their numbers in the format.
_UINT16, _UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 2, 4, 5, 6, 7, 8, 9
_F32 = 0
_ALIGNMENT = 32
#: Kinds of words: of a text, those that steer, and those that are none.
_NORMAL, _CONTROL, _UNUSED = 1, 3, 5
#: Tensors of a layer: as the safetensors have them, and as GGUF does.
_LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def own_hash() -> str:
    """What the recipe has to name: it changes with what the model is made of."""
    return hashlib.sha1(Path(__file__).read_bytes() + Path(model.__file__).read_bytes()).hexdigest()


def ensure() -> None:
    """Make the model if this revision is not there yet."""
    further.keep(REPO, str(RECIPE.model.revision), write)


def write(place: Path, parts: int = 1) -> list[Path]:
    """Write the model into a folder, in one file or in parts as llama-gguf-split makes them; returns the files."""
    plain = place / "plain"
    plain.mkdir(parents=True)
    model.write(plain)
    values, tensors = _values(plain), _tensors(plain)
    shutil.rmtree(plain)
    if parts == 1:
        return [_file(place / NAME, values, tensors)]
    names, made = list(tensors), []
    for number in range(parts):
        split = {"split.no": (_UINT16, number), "split.count": (_UINT16, parts)}
        split["split.tensors.count"] = (_INT32, len(names))
        own = {name: tensors[name] for name in names[number::parts]}
        name = f"{NAME.removesuffix('.gguf')}-{number + 1:05}-of-{parts:05}.gguf"
        made.append(_file(place / name, (values if number == 0 else {}) | split, own))
    return made


def _values(plain: Path) -> dict[str, tuple[int, Any]]:
    config = json.loads((plain / "config.json").read_text())
    tokenizer = json.loads((plain / "tokenizer.json").read_text())
    by_number = sorted((number, word) for word, number in tokenizer["model"]["vocab"].items())
    special = {each["content"] for each in tokenizer["added_tokens"]}
    words = [word for _, word in by_number]
    kinds = [_CONTROL if word in special else _NORMAL for word in words]
    # The weights have room for more words than the training text gave.
    room = config["vocab_size"] - len(words)
    words += [f"[unused{number}]" for number in range(room)]
    kinds += [_UNUSED] * room
    merges = [" ".join(each) if isinstance(each, list) else each for each in tokenizer["model"]["merges"]]
    size = config["hidden_size"] // config["num_attention_heads"]
    return {
        "general.architecture": (_STRING, "llama"),
        "general.name": (_STRING, "tiny llama"),
        "llama.context_length": (_UINT32, 131072),
        "llama.embedding_length": (_UINT32, config["hidden_size"]),
        "llama.block_count": (_UINT32, config["num_hidden_layers"]),
        "llama.feed_forward_length": (_UINT32, config["intermediate_size"]),
        "llama.attention.head_count": (_UINT32, config["num_attention_heads"]),
        "llama.attention.head_count_kv": (_UINT32, config["num_key_value_heads"]),
        "llama.attention.layer_norm_rms_epsilon": (_FLOAT32, config["rms_norm_eps"]),
        "llama.rope.dimension_count": (_UINT32, size),
        "llama.rope.freq_base": (_FLOAT32, config["rope_theta"]),
        "llama.vocab_size": (_UINT32, len(words)),
        "tokenizer.ggml.model": (_STRING, "gpt2"),
        "tokenizer.ggml.pre": (_STRING, "gpt-2"),
        "tokenizer.ggml.tokens": (_STRING, words),
        "tokenizer.ggml.token_type": (_INT32, kinds),
        "tokenizer.ggml.merges": (_STRING, merges),
        "tokenizer.ggml.bos_token_id": (_UINT32, config["bos_token_id"]),
        "tokenizer.ggml.eos_token_id": (_UINT32, config["eos_token_id"]),
        "tokenizer.ggml.add_bos_token": (_BOOL, False),
        "tokenizer.chat_template": (_STRING, model.CHAT_TEMPLATE),
    }


def _tensors(plain: Path) -> dict[str, Any]:
    """The weights under GGUF's names, as numbers of 32 bits: a CPU without half floats computes the same."""
    import numpy as np
    from safetensors.numpy import load_file

    found: dict[str, Any] = {}
    for shard in sorted(plain.glob("*.safetensors")):
        found |= load_file(shard)
    named = {"model.embed_tokens": "token_embd", "lm_head": "output", "model.norm": "output_norm"}
    for layer in range(model.LAYERS):
        named |= {f"model.layers.{layer}.{theirs}": f"blk.{layer}.{ours}" for theirs, ours in _LAYER.items()}
    tensors = {f"{named[name.removesuffix('.weight')]}.weight": each for name, each in found.items()}
    for name in [each for each in tensors if each.endswith(("attn_q.weight", "attn_k.weight"))]:
        # Halves of a head turn together there; pairs of neighbours do here.
        rows, columns = tensors[name].shape
        halves = tensors[name].reshape(model.HEADS, 2, rows // model.HEADS // 2, columns)
        tensors[name] = halves.swapaxes(1, 2).reshape(rows, columns)
    return {name: np.ascontiguousarray(tensors[name], dtype="<f4") for name in sorted(tensors)}


def _file(path: Path, values: Mapping[str, tuple[int, Any]], tensors: Mapping[str, Any]) -> Path:
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(values))]
    head += [_text(key) + _value(kind, value) for key, (kind, value) in values.items()]
    offset, body = 0, []
    for name, tensor in tensors.items():
        sizes = tensor.shape[::-1]
        head.append(
            _text(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes) + struct.pack("<IQ", _F32, offset)
        )
        content = tensor.tobytes()
        body.append(content + bytes(-len(content) % _ALIGNMENT))
        offset += len(body[-1])
    before = b"".join(head)
    path.write_bytes(before + bytes(-len(before) % _ALIGNMENT) + b"".join(body))
    return path


def _text(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<Q", len(content)) + content


def _value(kind: int, value: Any) -> bytes:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return struct.pack("<IIQ", _ARRAY, kind, len(value)) + b"".join(_plain(kind, each) for each in value)
    return struct.pack("<I", kind) + _plain(kind, value)


def _plain(kind: int, value: Any) -> bytes:
    if kind == _STRING:
        return _text(str(value))
    return struct.pack({_UINT16: "<H", _UINT32: "<I", _INT32: "<i", _FLOAT32: "<f", _BOOL: "<?"}[kind], value)
