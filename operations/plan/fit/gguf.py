"""A GGUF file's metadata as a configuration, by the format's specification (ggml-org/ggml, docs/gguf.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any

from operations.node.model.gguf import PART, Header, NotGguf, Short, is_projector
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.fit.config import shape as shape_of
from operations.plan.fit.shape import Shape
from operations.wire import Json

#: A layer of so many attends to all, where llama.cpp knows it and the file does not say it.
_PERIODS = {"gpt-oss": 2, "gemma2": 2, "gemma3": 6, "cohere2": 4, "llama4": 4}


def metadata(data: bytes) -> Json:
    """Names and values at the head of a file, up to its tokenizer's.

    Raises Short where more has to be read, and Refusal for what is no GGUF file.
    """
    found: Json = {}
    try:
        header = Header(BytesIO(data))
        for name, kind in header.pairs():
            # The vocabulary is megabytes, and stands behind what is looked for.
            if name.startswith("tokenizer.") and f"{found.get('general.architecture')}.block_count" in found:
                break
            found[name] = header.value(kind)
    except Short:
        raise
    except NotGguf as error:
        raise Refusal(Finding("fit", str(error), "name a GGUF file of a language model")) from None
    return found


def shape(found: Json) -> Shape:
    """The model's shape by a file's metadata. Raises Refusal where it is no language model's."""
    family = str(found.get("general.architecture", ""))
    own = {name.removeprefix(f"{family}."): value for name, value in found.items() if name.startswith(f"{family}.")}
    if not own.get("block_count"):
        problem = f"its header says no block_count ({family or 'no architecture'})"
        raise Refusal(Finding("fit", problem, "name the file of a language model: a projector (mmproj) is none"))
    return shape_of(_config(family, own))


def _config(family: str, own: Json) -> Json:
    """The same words as config.json has."""
    layers = own["block_count"]
    heads = _most(own.get("attention.head_count"))
    kv = own.get("attention.head_count_kv", heads)
    config: Json = {
        "architectures": [family],
        "model_type": family,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": _most(kv),
        "hidden_size": own.get("embedding_length"),
        "max_position_embeddings": own.get("context_length"),
        "head_dim": own.get("attention.key_length"),
        "v_head_dim": own.get("attention.value_length"),
        "sliding_window": own.get("attention.sliding_window"),
        "num_kv_shared_layers": own.get("attention.shared_kv_layers"),
    }
    if rank := own.get("attention.kv_lora_rank"):
        config |= {"kv_lora_rank": rank, "qk_rope_head_dim": own.get("rope.dimension_count")}
    if "ssm.state_size" in own:
        config |= _states(own, layers, kv)
    elif config["sliding_window"]:
        pattern = own.get("attention.sliding_window_pattern")
        if isinstance(pattern, list):
            config["layer_types"] = ["sliding_attention" if each else "full_attention" for each in pattern]
        else:
            config["sliding_window_pattern"] = pattern or _PERIODS.get(family)
    return config


def _most(said: Any) -> Any:
    """A number, or the largest where each layer has its own."""
    return max(said, default=0) if isinstance(said, list) else said


def _states(own: Json, layers: int, kv: Any) -> Json:
    """A hybrid's. llama.cpp keeps states in 32 bits."""
    heads, inner = own.get("ssm.time_step_rank"), own.get("ssm.inner_size")
    if interval := own.get("full_attention_interval"):
        kinds = ["full_attention" if (each + 1) % interval == 0 else "mamba" for each in range(layers)]
    elif isinstance(kv, list):
        forward = own.get("feed_forward_length")
        per_layer = forward if isinstance(forward, list) else [0] * layers
        kinds = ["attention" if n else "mlp" if wide else "mamba" for n, wide in zip(kv, per_layer, strict=False)]
    else:
        kinds = ["mamba"] * layers
    return {
        "layers_block_type": kinds,
        "mamba_num_heads": heads,
        "mamba_head_dim": inner // heads if heads and inner else None,
        "ssm_state_size": own["ssm.state_size"],
        "conv_kernel": own.get("ssm.conv_kernel"),
        "n_groups": own.get("ssm.group_count"),
        "mamba_ssm_dtype": "float32",
    }


def chosen(files: Mapping[str, int], wanted: str, where: str) -> list[str]:
    """The parts of the build that is `wanted`: a file, or letters of its name (`Q4_K_M`); empty: there is one alone.

    Raises Refusal with those that there are, and where a part lacks.
    """
    found: dict[str, list[str]] = {}
    for name in sorted(files):
        if name.endswith(".gguf") and not is_projector(name):
            found.setdefault(_stem(name), []).append(name)
    stem = _stem(wanted.strip("/"))
    ends = re.compile(rf"(^|[-./_]){re.escape(stem)}$", re.IGNORECASE)
    alike = [stem] if stem in found else [each for each in found if not stem or ends.search(each)]
    if len(alike) == 1:
        return _whole(alike[0], found[alike[0]])
    listed = [PurePosixPath(each).name for each in found]
    some = f"{', '.join(listed[:12])}{' ...' if len(listed) > 12 else ''}"
    problem = f"{where} has {len(alike)} such builds" if alike else f"no build of {where} is named `{wanted}`"
    raise Refusal(Finding("fit", problem, f"write {where}:BUILD with one of: {some}"))


def _stem(name: str) -> str:
    """A build's name without part and ending."""
    part = PART.fullmatch(name)
    return part[1] if part else name.removesuffix(".gguf")


def _whole(stem: str, names: list[str]) -> list[str]:
    """The parts; raises Refusal where one lacks."""
    parts = [part for each in names if (part := PART.fullmatch(each))]
    if not parts:
        return names
    count = int(parts[0][3])
    if lacking := sorted(set(range(1, count + 1)) - {int(part[2]) for part in parts}):
        problem = f"{stem} has {count} parts, and lacks number {', '.join(map(str, lacking))}"
        raise Refusal(Finding("fit", problem, "name another build, or a revision that is whole (ORG/NAME@COMMIT)"))
    return names
