"""How many weights a configuration makes, and what builds of other bits would have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from operations.plan.fit.config import TEXT, kinds_of, layers_of, number, text_of
from operations.plan.fit.shape import GIB
from operations.wire import Json


@dataclass(frozen=True)
class Weights:
    """Numbers of weights: in routed `experts`, in other feed-forward layers (`dense`), in attention and what stands in
    its place (`mixers`), in embeddings and the head (`tables`), in layers for multi-token prediction (`mtp`), and in
    `towers` for pictures. Norms are not counted.
    """

    experts: float = 0.0
    dense: float = 0.0
    mixers: float = 0.0
    tables: float = 0.0
    mtp: float = 0.0
    towers: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return self.experts + self.dense + self.mixers + self.tables + self.mtp + self.towers

    def gib(self, bits: Mapping[str, float]) -> float:
        """GiB of a build: `bits` of a weight by part, scales included; 16 where it does not say."""
        parts: dict[str, float] = asdict(self)
        return sum(count * bits.get(part, 16.0) for part, count in parts.items()) / 8 / GIB


def count(config: Json) -> Weights:
    """By config.json. Raises KeyError where it does not say enough, or what does not go together."""
    try:
        return _count(config)
    except (TypeError, ValueError) as error:
        raise KeyError(str(error)) from None


def _count(config: Json) -> Weights:
    text = text_of(config)
    if "block_configs" in text:
        raise KeyError("block_configs")
    hidden, vocabulary = _must(text, "hidden_size"), _must(text, "vocab_size")
    layers = layers_of(text)
    if any(isinstance(config.get(name), dict) and "tie_word_embeddings" in config[name] for name in TEXT):
        tied = bool(text.get("tie_word_embeddings"))
    else:
        tied = bool(config.get("tie_word_embeddings"))
    kinds = kinds_of(text, layers)
    sparse = _sparse(text, kinds)
    mixers = sum(_mixer(text, kind, hidden) for kind in kinds)
    forward = [_feed_forward(text, kind, is_sparse, hidden) for kind, is_sparse in zip(kinds, sparse, strict=True)]
    experts, dense = (sum(each[part] for each in forward) for part in (0, 1))
    predicts = number(text, "num_nextn_predict_layers", "mtp_num_hidden_layers")
    mtp = 0.0
    if predicts:
        routed, beside = _feed_forward(text, "", any(sparse), hidden)
        mtp = predicts * (_mixer(text, "full", hidden) + routed + beside + 2 * hidden * hidden)
    tables = vocabulary * hidden * (1 if tied else 2)
    return Weights(experts, dense, mixers, tables, mtp, _tower(config.get("vision_config")))


def _tower(config: object) -> float:
    """Weights of a tower for pictures: its layers, where it says them."""
    if not isinstance(config, dict):
        return 0.0
    hidden, layers = number(config, "hidden_size"), number(config, "depth", "num_hidden_layers")
    return layers * hidden * (4.0 * hidden + 2.0 * number(config, "intermediate_size"))


def _must(config: Json, name: str) -> int:
    if not (found := number(config, name)):
        raise KeyError(name)
    return found


def _sparse(config: Json, kinds: Sequence[str]) -> list[bool]:
    """Which layers have routed experts."""
    layers = len(kinds)
    if not _experts(config):
        return [False] * layers
    blocks = config.get("layers_block_type") or config.get("hybrid_override_pattern")
    if blocks:
        return [each in ("moe", "E") for each in blocks][:layers]
    if isinstance(types := config.get("mlp_layer_types"), list):
        return [each == "sparse" for each in types][:layers]
    if isinstance(often := config.get("moe_layer_freq"), list):
        return [each == 1 for each in often][:layers]
    dense, step = number(config, "first_k_dense_replace"), number(config, "decoder_sparse_step") or 1
    step = number(config, "interleave_moe_layer_step") or step
    only = config.get("mlp_only_layers") or ()
    return [each >= dense and (each + 1) % step == 0 and each not in only for each in range(layers)]


def _experts(config: Json) -> int:
    return number(config, "n_routed_experts", "num_experts", "num_local_experts")


def _feed_forward(config: Json, kind: str, is_sparse: bool, hidden: int) -> tuple[float, float]:
    """Weights of a layer's routed experts, and of what is beside them."""
    blocks = "layers_block_type" in config or "hybrid_override_pattern" in config
    if blocks and not is_sparse and kind:
        return 0.0, 0.0
    # A gate beside up and down, or squared ReLU without one.
    matrices = 2 if config.get("mlp_hidden_act") == "relu2" else 3
    width = number(config, "intermediate_size_mlp" if not is_sparse else "intermediate_size", "intermediate_size")
    if not is_sparse:
        wide = number(config, "dense_intermediate_size") or width
        return 0.0, float(matrices * hidden * wide)
    own = number(config, "moe_intermediate_size", "expert_intermediate_size") or width
    latent = number(config, "moe_latent_size", "routed_expert_hidden_size")
    shared = number(
        config, "moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", "share_expert_dim"
    )
    shared = shared or number(config, "n_shared_experts", "num_shared_experts") * own
    if config.get("enable_moe_block") or config.get("model_type") == "llama4_text":
        shared = width
    beside = matrices * hidden * shared + hidden * _experts(config) + (2 * hidden * latent if latent else 0)
    return float(_experts(config) * matrices * (latent or hidden) * own), float(beside)


def _mixer(config: Json, kind: str, hidden: int) -> float:
    """Weights of a layer's attention, or of what stands in its place."""
    if kind == "linear":
        return _linear(config, hidden)
    if kind == "mamba":
        heads, groups = number(config, "mamba_num_heads", "mamba_n_heads"), number(config, "n_groups", "mamba_n_groups")
        inner = heads * number(config, "mamba_head_dim", "mamba_d_head")
        width = number(config, "ssm_state_size", "mamba_d_state")
        return float(hidden * (2 * inner + 2 * groups * width + heads) + inner * hidden)
    return _attention(config, kind, hidden) if kind else 0.0


def _linear(config: Json, hidden: int) -> float:
    own = config.get("linear_attn_config")
    if isinstance(own, dict):
        return 4.0 * hidden * number(own, "num_heads") * number(own, "head_dim")
    heads = number(config, "linear_num_value_heads")
    values = heads * number(config, "linear_value_head_dim")
    keys = number(config, "linear_num_key_heads") * number(config, "linear_key_head_dim")
    return float(hidden * (2 * keys + 3 * values + 2 * heads))


def _attention(config: Json, kind: str, hidden: int) -> float:
    heads, rank, low = (number(config, each) for each in ("num_attention_heads", "kv_lora_rank", "q_lora_rank"))
    head = number(config, "head_dim") or hidden // max(heads, 1)
    if rank:
        nope, rope, value = (number(config, each) for each in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        query = hidden * low + low * heads * (nope + rope) if low else hidden * heads * (nope + rope)
        return float(query + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden)
    if config.get("compress_ratios"):
        out = number(config, "o_lora_rank")
        return float(
            hidden * low
            + low * heads * head
            + hidden * head
            + heads * head * out
            + number(config, "o_groups") * out * hidden
        )
    kv = number(config, "num_key_value_heads", "num_attention_groups") or heads
    keys = 2
    if kind == "full" and number(config, "global_head_dim"):
        head, kv = number(config, "global_head_dim"), number(config, "num_global_key_value_heads") or kv
        keys = 1 if config.get("attention_k_eq_v") else 2
    if kind == "near":
        head, kv = number(config, "swa_head_dim") or head, number(config, "swa_num_key_value_heads") or kv
    value = number(config, "v_head_dim") or head
    queries = heads * head * (2 if config.get("attn_output_gate") else 1)
    kept = kv * (head + value) if keys == 2 else kv * head
    return float(hidden * (queries + kept) + heads * value * hidden)
