"""A model of any size with random weights, in shards of safetensors, for a bench of loads. It needs Python alone, so
that it can be made where a GPU is.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30
#: Bytes of a shard at most: what most models on the Hub have.
SHARD = 4 * GIB
#: Bytes of random values that are written again and again, each time from another place.
BLOCK = 64 << 20
VOCAB, HEAD = 512, 128


@dataclass(frozen=True)
class Shape:
    """A Llama: width, width within its layers, heads, heads of keys, layers."""

    hidden: int
    middle: int
    heads: int
    keys: int
    layers: int

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes, as Hugging Face's LlamaForCausalLM has them."""
        yield "model.embed_tokens.weight", (VOCAB, self.hidden)
        for number in range(self.layers):
            at = f"model.layers.{number}"
            yield f"{at}.self_attn.q_proj.weight", (self.heads * HEAD, self.hidden)
            for name in ("k_proj", "v_proj"):
                yield f"{at}.self_attn.{name}.weight", (self.keys * HEAD, self.hidden)
            yield f"{at}.self_attn.o_proj.weight", (self.hidden, self.heads * HEAD)
            for name in ("gate_proj", "up_proj"):
                yield f"{at}.mlp.{name}.weight", (self.middle, self.hidden)
            yield f"{at}.mlp.down_proj.weight", (self.hidden, self.middle)
            for name in ("input_layernorm", "post_attention_layernorm"):
                yield f"{at}.{name}.weight", (self.hidden,)
        yield "model.norm.weight", (self.hidden,)
        yield "lm_head.weight", (VOCAB, self.hidden)


def shape_of(gib: float) -> Shape:
    """One of about so many GiB in 16 bits, with widths like those of real models where they fit."""
    wide = next(each for each in (8192, 4096, 1024, 256) if gib >= each**2 / (4096 * 2048) or each == 256)
    heads = wide // HEAD
    one = Shape(wide, wide * 7 // 2, heads, max(heads // 8, 1), 1)
    layer = sum(size(shape) for name, shape in one.tensors() if ".layers." in name)
    return Shape(one.hidden, one.middle, one.heads, one.keys, max(1, round(gib * GIB / layer)))


def size(shape: tuple[int, ...]) -> int:
    """Bytes of a tensor of 16 bits."""
    count = 2
    for each in shape:
        count *= each
    return count


def make(place: Path, gib: float, tokenizer: Path | None = None) -> Path:
    """The model's folder, made unless one of this size is there. `tokenizer`: a folder that has one.

    Raises OSError where there is no room.
    """
    shape = shape_of(gib)
    folder = place / f"random-{shape.hidden}-{shape.layers}"
    if folder.exists():
        return folder
    aside = folder.with_suffix(".part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.middle,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.keys,
        "head_dim": HEAD,
        "vocab_size": VOCAB,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "bfloat16",
    }
    (aside / "config.json").write_text(json.dumps(config, indent=1))
    for file in sorted(tokenizer.glob("*token*")) if tokenizer else ():
        shutil.copy(file, aside)
    _write(aside, list(shape.tensors()))
    aside.rename(folder)
    return folder


def _write(folder: Path, tensors: list[tuple[str, tuple[int, ...]]]) -> None:
    shards = list[list[tuple[str, tuple[int, ...]]]]([[]])
    for name, shape in tensors:
        if shards[-1] and sum(size(each) for _, each in shards[-1]) + size(shape) > SHARD:
            shards.append([])
        shards[-1].append((name, shape))
    block, where = _block(), dict[str, str]()
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        header, end = dict[str, object](), 0
        for tensor, shape in shard:
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size(shape)]}
            end, where[tensor] = end + size(shape), name
        text = json.dumps(header).encode()
        # The format wants nothing of it; readers are faster where tensors begin at whole words.
        text += b" " * (-len(text) % 8)
        with (folder / name).open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            _fill(file.fileno(), file, end, block)
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _fill(number: int, file: object, count: int, block: bytes) -> None:
    write = file.write  # type: ignore[attr-defined]
    at = 0
    while count > 0:
        # Another beginning each time: no two tensors are alike, and no file system finds twins.
        piece = block[at : at + min(count, len(block) - at)]
        write(piece)
        count -= len(piece)
        at = (at + 2 * 104_729) % (len(block) // 2)
    file.flush()  # type: ignore[attr-defined]
    os.fsync(number)


def _block() -> bytes:
    """Values of bfloat16 of about 0.01, of either sign: bits at random would be NaN and infinity too."""
    made = bytearray(random.Random(20).randbytes(BLOCK))
    made[1::2] = made[1::2].translate(bytes(0x3C if byte < 128 else 0xBC for byte in range(256)))
    return bytes(made)
