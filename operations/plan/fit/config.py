"""A model's shape by its config.json. What a layer keeps is as vLLM keeps it (v1/kv_cache_interface.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from operations.plan.config.refusal import Finding, Refusal
from operations.plan.fit.shape import Cache, Shape, State
from operations.wire import Json

#: Where a configuration of several models has the language model's.
TEXT = ("thinker_config", "text_config", "llm_config", "language_config")
#: Layer by layer: what configurations call them -> what they keep. Empty: nothing.
_KINDS = {"full_attention": "full", "attention": "full", "*": "full", "sliding_attention": "near"}
_KINDS |= {
    "chunked_attention": "chunk",
    "linear_attention": "linear",
    "mamba": "mamba",
    "mamba2": "mamba",
    "M": "mamba",
}
_KINDS["deepseek_sparse_attention"] = "full"
_KINDS |= dict.fromkeys(("moe", "mlp", "-", "E"), "")
#: One layer of so many attends to all, where a family's configuration does not say it.
_PERIODS = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "llama4_text": 4}
#: Bytes of an entry of sparse attention (DeepSeek 3.2 and its like): an FP8 latent, its scales, a rope of 16 bits.
_SPARSE_FP8 = 656
#: vLLM makes pages of both kinds equally large: with layers for multi-token prediction 1.7 times as much was seen.
PADDING = "what the engine pads a hybrid's pages by"
_QUANTISED = "quantization_config"
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers")


def shape(config: Json) -> Shape:
    """What the configuration tells. Raises Refusal where it is no language model's."""
    text = text_of(config)
    layers = layers_of(text)
    heads = number(text, "num_attention_heads", "n_head")
    named = config.get("architectures")
    architecture = str(named[0]) if isinstance(named, list) and named else str(text.get("model_type", ""))
    if not layers:
        problem = f"config.json says no num_hidden_layers ({architecture or 'no architecture'})"
        raise Refusal(Finding("fit", problem, "name a language model's repository, or a GGUF file of it"))
    caches, states, unknown, uncounted = _kept(text, layers, heads)
    # Where nothing is kept something was not understood.
    if not unknown and (not (caches or states) or any(each.entry("bf16") <= 0 for each in caches)):
        caches, states, unknown = (), (), "config.json does not say how much its layers keep"
    quantised = next((each for each in (config.get(_QUANTISED), text.get(_QUANTISED)) if isinstance(each, dict)), {})
    return Shape(
        architecture,
        layers,
        heads,
        number(text, "max_position_embeddings", "n_positions"),
        caches,
        states,
        _cache_type(quantised),
        unknown,
        uncounted,
        any(number(text, name) for name in _MTP),
        str(quantised.get("quant_algo") or quantised.get("quant_method") or ""),
        bool(config.get("auto_map")),
    )


def layers_of(text: Json) -> int:
    """How many layers; 0: it is not said."""
    listed = (text.get(name) for name in ("layers_block_type", "layer_types", "hybrid_override_pattern"))
    said = number(text, "num_hidden_layers", "n_layer")
    return said or next((len(each) for each in listed if isinstance(each, list | str)), 0)


def text_of(config: Json) -> Json:
    """The language model's part of a configuration, with what is said beside it."""
    found = config
    while inner := next((found[name] for name in TEXT if isinstance(found.get(name), dict)), None):
        found = {**found, **inner}
        for name in TEXT:
            if found.get(name) is inner:
                del found[name]
    return found


def number(config: Json, *names: str) -> int:
    """The first of these that is a number above 0."""
    said = (config.get(name) for name in names)
    return next((each for each in said if isinstance(each, int) and not isinstance(each, bool) and each > 0), 0)


def _cache_type(quantised: Json) -> str:
    scheme = quantised.get("kv_cache_scheme")
    bits = number(scheme, "num_bits") if isinstance(scheme, dict) else 0
    said = str(quantised.get("kv_cache_quant_algo") or "").lower()
    return "fp8" if bits == 8 or said.startswith("fp8") else "nvfp4" if bits == 4 or said.startswith("nvfp4") else ""


def _kept(config: Json, layers: int, heads: int) -> tuple[tuple[Cache, ...], tuple[State, ...], str, tuple[str, ...]]:
    """Caches and states, why they can't be counted, and what is left out of them."""
    ratios = config.get("compress_ratios")
    if isinstance(ratios, list) and ratios:
        if not all(isinstance(each, int) and each >= 0 for each in ratios):
            return (), (), "compress_ratios of config.json are no numbers", ()
        return tuple(_compressed(config, ratios[:layers])), (), "", ()
    uncounted = ("the index of its sparse attention",) if config.get("sparse_attention_config") else ()
    blocks = config.get("block_configs")
    if isinstance(blocks, list) and blocks and all(isinstance(each, dict) for each in blocks):
        return tuple(_blocks(config, blocks, heads)), (), "", uncounted
    kinds = kinds_of(config, layers)
    if strange := sorted({each for each in kinds if each not in ("full", "near", "chunk", "linear", "mamba", "")}):
        return (), (), f"it has layers of a kind that is not known: {', '.join(strange)}", ()
    if len(kinds) < layers:
        return (), (), f"config.json says of {len(kinds)} of its {layers} layers alone what they are", ()
    # The last ones take the keys and values of an earlier layer.
    if shared := number(config, "num_kv_shared_layers"):
        kinds = kinds[: max(layers - shared, 0)]
    count = Counter(kinds)
    caches = list(_attention(config, count, heads))
    if not heads and any(count[each] for each in ("full", "near", "chunk")):
        return (), (), "config.json says no num_attention_heads", ()
    states = []
    for kind, of in (("linear", _linear), ("mamba", _mamba)):
        if count[kind]:
            state = of(config, count[kind])
            if state is None:
                return (), (), f"config.json does not say how large the state of its {kind} layers is", ()
            states.append(state)
            uncounted = (*uncounted, PADDING)
    return tuple(caches), tuple(states), "", tuple(dict.fromkeys(uncounted))


def kinds_of(config: Json, layers: int) -> list[str]:
    """What each layer keeps."""
    pattern = config.get("hybrid_override_pattern")
    named: Any = (
        config.get("layers_block_type")
        or config.get("layer_types")
        or (list(pattern) if isinstance(pattern, str) else None)
    )
    if isinstance(named, list):
        return [_KINDS.get(str(each), str(each)) for each in named[:layers]]
    if isinstance(near := config.get("hybrid_layer_pattern"), list):
        return ["near" if each == 1 else "full" for each in near[:layers]]
    linear = config.get("linear_attn_config")
    if isinstance(linear, dict) and isinstance(attends := linear.get("full_attn_layers"), list):
        # Counted from 1.
        return ["full" if each + 1 in attends else "linear" for each in range(layers)]
    if interval := number(config, "full_attention_interval"):
        return _each(layers, interval, "linear")
    if isinstance(words := config.get("attn_type_list"), list) and 0 in words:
        return ["full" if each == 1 else "lightning attention" for each in words[:layers]]
    family = str(config.get("model_type"))
    other = "chunk" if family == "llama4_text" else "near"
    period = number(config, "sliding_window_pattern") or _PERIODS.get(family, 0)
    if period:
        return _each(layers, period, other)
    if mixed := sorted(name for name in config if name.startswith(("attn_layer_", "mamba_", "ssm_"))):
        # Jamba, Bamba, Falcon-H1: which layers attend is said by words of their own.
        return [mixed[0]] * layers
    slides = number(config, "sliding_window") and config.get("use_sliding_window") is not False
    return ["near" if slides else "full"] * layers


def _each(layers: int, period: int, other: str) -> list[str]:
    return ["full" if (each + 1) % period == 0 else other for each in range(layers)]


def _attention(config: Json, count: Counter[str], heads: int) -> Iterator[Cache]:
    """Layers that attend to all tokens, to a window of them, or to a chunk."""
    rank, rope = number(config, "kv_lora_rank"), number(config, "qk_rope_head_dim")
    if rank and count["full"]:
        index, sparse = number(config, "index_head_dim"), number(config, "index_topk")
        yield Cache(count["full"], 0, rank + rope, fp8=_SPARSE_FP8 if sparse else 0)
        if sparse and index:
            types = config.get("indexer_types")
            has = sum(each == "full" for each in types) if isinstance(types, list) else count["full"]
            # FP8, and a scale of 32 bits for each 128.
            yield Cache(has, 0, 0, index=index + 4 * index / 128)
        return
    names = ("num_key_value_heads", "num_kv_heads", "num_attention_groups", "multi_query_group_num")
    kv = number(config, *names) or (1 if config.get("multi_query") is True else heads)
    head = number(config, "head_dim") or number(config, "hidden_size", "n_embd") // max(heads, 1)
    value = number(config, "v_head_dim") or head
    if count["full"]:
        wide = number(config, "global_head_dim")
        few = number(config, "num_global_key_value_heads") or kv
        yield Cache(count["full"], few, 2 * wide if wide else head + value)
    window = number(config, "sliding_window", "sliding_window_size")
    own = number(config, "swa_head_dim")
    near = number(config, "swa_num_key_value_heads") or kv
    values = own + (number(config, "swa_v_head_dim") or own) if own else head + value
    for kind, kept in (("near", window), ("chunk", number(config, "attention_chunk_size"))):
        if count[kind]:
            yield Cache(count[kind], near, values, window=kept)


def _compressed(config: Json, ratios: Sequence[int]) -> Iterator[Cache]:
    """DeepSeek 4: every layer keeps a window; one with a ratio also an entry of so many tokens, for all heads the same,
    and the finer ones an index of it.
    """
    head, window = number(config, "head_dim"), number(config, "sliding_window")
    yield Cache(len(ratios), 0, head, window=window)
    index = number(config, "index_head_dim")
    for ratio, layers in Counter(each for each in ratios if each).items():
        fine = ratio == min(each for each in ratios if each)
        yield Cache(layers, 0, head, every=ratio, index=index + 4 * index / 128 if fine else 0.0)


def _within(config: Json, name: str) -> Json:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def _blocks(config: Json, blocks: Sequence[Json], heads: int) -> Iterator[Cache]:
    """Nemotron-NAS: each layer has a number of heads of its own, or no attention."""
    head = number(config, "head_dim") or number(config, "hidden_size") // max(heads, 1)
    grouped = Counter(number(_within(block, "attention"), "n_heads_in_group") for block in blocks)
    for group, layers in grouped.items():
        if group:
            yield Cache(layers, heads // group, 2 * head)


def _linear(config: Json, layers: int) -> State | None:
    """DeltaNet: a matrix for each head, and what the convolution looks back on, which is kept in 16 bits."""
    own = config.get("linear_attn_config")
    if isinstance(own, dict):
        heads, head, kernel = (number(own, each) for each in ("num_heads", "head_dim", "short_conv_kernel_size"))
        size = heads * head * head * 4 + 3 * heads * head * (kernel - 1) * 2
        return State(layers, heads, size) if heads and head and kernel else None
    heads, key = number(config, "linear_num_value_heads"), number(config, "linear_key_head_dim")
    value, kernel = number(config, "linear_value_head_dim"), number(config, "linear_conv_kernel_dim")
    if not (heads and key and value and kernel):
        return None
    looks_back = 2 * number(config, "linear_num_key_heads") * key + heads * value
    return State(layers, heads, heads * key * value * _state_bytes(config) + looks_back * (kernel - 1) * 2)


def _mamba(config: Json, layers: int) -> State | None:
    """Mamba-2: a matrix for each head, and what the convolution looks back on, which is kept in 16 bits."""
    heads = number(config, "mamba_num_heads", "mamba_n_heads")
    head, width = number(config, "mamba_head_dim", "mamba_d_head"), number(config, "ssm_state_size", "mamba_d_state")
    kernel, groups = number(config, "conv_kernel", "mamba_d_conv"), number(config, "n_groups", "mamba_n_groups")
    if not (heads and head and width and kernel):
        return None
    looks_back = heads * head + 2 * groups * width
    return State(layers, heads, heads * head * width * _state_bytes(config) + looks_back * (kernel - 1) * 2)


def _state_bytes(config: Json) -> int:
    said = config.get("mamba_ssm_dtype") or config.get("mamba_ssm_cache_dtype")
    return 4 if said == "float32" else 2
