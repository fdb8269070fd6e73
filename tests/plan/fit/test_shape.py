"""What models keep of a request, by their configurations; and room for it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies

from operations.plan.config.refusal import Refusal
from operations.plan.config.spark import FLOOR_GIB, IDLE_GIB, MOST_SHARE, SPARK_GIB
from operations.plan.fit import gguf
from operations.plan.fit.config import PADDING, shape
from operations.plan.fit.room import FitRequest, Model, Place, changes, places, room
from operations.plan.fit.shape import GIB, Shape
from operations.plan.fit.weights import Weights, count
from operations.plan.recipes.lint.room import BESIDE_GIB
from tests.plan.fit.test_declared import CONFIGS

DENSE: dict[str, Any] = {"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}


def of(**said: Any) -> Shape:
    return shape({**DENSE, **said})


def tokens(found: Shape, ranks: int = 1, kind: str = "bf16") -> float:
    return found.token(kind, ranks)


def test_heads_of_a_dense_model_are_divided_and_then_repeated() -> None:
    assert [tokens(of(), ranks) for ranks in (1, 2, 8, 16)] == [131072, 65536, 16384, 16384]
    assert tokens(of(), kind="fp8") == 65536 and tokens(of(), kind="nvfp4") == 131072 * 0.5625 / 2


def test_without_its_own_words_a_head_is_a_part_of_the_width() -> None:
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 256}
    assert tokens(shape(config)) == 2 * 4 * 2 * 64 * 2


def test_a_latent_is_on_every_rank() -> None:
    found = of(kv_lora_rank=512, qk_rope_head_dim=64)
    assert tokens(found) == tokens(found, 4) == 32 * 576 * 2
    assert tokens(found, kind="fp8") == 32 * 576
    sparse = of(kv_lora_rank=512, qk_rope_head_dim=64, index_topk=2048, index_head_dim=128)
    assert tokens(sparse, kind="fp8") == 32 * (656 + 132)
    shared = of(
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        index_topk=2048,
        index_head_dim=128,
        indexer_types=["full"] * 8 + ["shared"] * 24,
    )
    assert tokens(shared, kind="fp8") == 32 * 656 + 8 * 132


def test_a_window_holds_no_more_than_itself() -> None:
    found = of(layer_types=["sliding_attention", "full_attention"] * 16, sliding_window=128)
    assert tokens(found) == 65536 and found.fixed("bf16") == 128 * 65536
    assert found.held(100, "bf16") == 100 * 131072
    assert found.held(10_000, "bf16") == 10_000 * 65536 + 128 * 65536
    assert tokens(of(sliding_window=128)) == 0 and tokens(of(sliding_window=128, use_sliding_window=False)) == 131072
    assert tokens(of(sliding_window=128, model_type="gemma3_text")) == 5 * 4096


def test_families_with_heads_of_their_own_for_windows() -> None:
    gemma = shape(CONFIGS["gemma-4-31b"])
    assert tokens(gemma) == 10 * 4 * 2 * 512 * 2 and gemma.fixed("bf16") == 50 * 16 * 512 * 1024 * 2
    mimo = of(
        hybrid_layer_pattern=[0, 1, 1, 1] * 8,
        head_dim=192,
        v_head_dim=128,
        swa_num_key_value_heads=4,
        swa_head_dim=64,
        swa_v_head_dim=32,
        sliding_window=128,
    )
    assert tokens(mimo) == 8 * 8 * 320 * 2 and mimo.fixed("bf16") == 24 * 4 * 96 * 128 * 2
    chunks = of(model_type="llama4_text", attention_chunk_size=8192)
    assert tokens(chunks) == 8 * 4096 and chunks.fixed("bf16") == 24 * 4096 * 8192
    assert tokens(of(num_kv_shared_layers=20)) == 12 * 4096


def test_states_are_a_request_s_and_divided_by_their_heads() -> None:
    found = shape(CONFIGS["nemotron-3-super"])
    assert tokens(found) == 8 * 2 * 256 * 2
    state = 128 * 64 * 128 * 4 + (128 * 64 + 2 * 8 * 128) * 3 * 2
    assert found.fixed("bf16") == 40 * state and found.fixed("bf16", 2) == 20 * state
    assert found.uncounted == (PADDING,)
    delta = shape(CONFIGS["qwen3.6-35b"])
    assert tokens(delta) == 10 * 2 * 512 * 2
    assert delta.fixed("bf16") == 30 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2)
    small = {**CONFIGS["qwen3.6-35b"], "mamba_ssm_dtype": "bfloat16"}
    assert shape(small).fixed("bf16") == 30 * (32 * 128 * 128 * 2 + (2 * 16 * 128 + 32 * 128) * 3 * 2)
    linear = {"full_attn_layers": [4, 8], "num_heads": 4, "head_dim": 16, "short_conv_kernel_size": 4}
    kimi = of(num_hidden_layers=8, kv_lora_rank=512, qk_rope_head_dim=64, linear_attn_config=linear)
    assert tokens(kimi) == 2 * 576 * 2 and kimi.fixed("bf16") == 6 * (4 * 16 * 16 * 4 + 3 * 4 * 16 * 3 * 2)


def test_compressed_entries_and_layers_without_attention() -> None:
    found = of(head_dim=512, sliding_window=128, compress_ratios=[0] * 2 + [4, 128] * 15, index_head_dim=128)
    assert tokens(found) == 15 * (1024 + 132) / 4 + 15 * 1024 / 128
    assert found.fixed("bf16") == 32 * 1024 * 128 and tokens(found, 8) == tokens(found)
    blocks = [{"attention": {"n_heads_in_group": 8}}, {"attention": {"n_heads_in_group": None, "no_op": True}}]
    assert tokens(of(block_configs=blocks, num_key_value_heads=None)) == 4 * 256 * 2


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"layer_types": ["ring_attention"] * 32}, "layers of a kind that is not known: ring_attention"),
        ({"attn_type_list": [0, 1] * 16}, "layers of a kind that is not known: lightning attention"),
        ({"layer_types": ["mamba"] * 32}, "does not say how large the state of its mamba layers is"),
        ({"full_attention_interval": 4}, "does not say how large the state of its linear layers is"),
        ({"layer_types": ["full_attention"] * 9}, "says of 9 of its 32 layers alone what they are"),
        ({"layer_types": ["mlp"] * 32}, "does not say how much its layers keep"),
        ({"head_dim": None}, "does not say how much its layers keep"),
        ({"num_attention_heads": None}, "says no num_attention_heads"),
    ],
)
def test_what_is_not_known_is_not_guessed(said: dict[str, Any], why: str) -> None:
    found = of(**said)
    assert why in found.unknown
    here = room(Model(found, 10, "bf16"), Place("solo", 1), (8192,))
    assert here.users == {} and not here.holds(FitRequest(8192, 1))


def test_what_is_no_language_model_is_refused() -> None:
    with pytest.raises(Refusal, match="says no num_hidden_layers"):
        shape({"architectures": ["SamModel"]})


_WORDS = sorted({word for each in CONFIGS.values() for word in each} | {"layer_types", "block_configs", "text_config"})
_WORDS += ["hybrid_layer_pattern", "linear_attn_config", "quantization_config", "attn_type_list", "layers_block_type"]
_VALUES = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers(-5, 600) | strategies.text("M*E-x", max_size=5),
    lambda inner: strategies.lists(inner, max_size=4) | strategies.dictionaries(strategies.sampled_from(_WORDS), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(strategies.sampled_from(sorted(CONFIGS)), strategies.dictionaries(strategies.sampled_from(_WORDS), _VALUES))
def test_whatever_a_configuration_says_it_is_told_or_refused(name: str, said: dict[str, Any]) -> None:
    config = {**CONFIGS[name], **said}
    with suppress(KeyError):
        assert count(config).total >= 0
    try:
        found = shape(config)
    except Refusal:
        return
    assert found.unknown or found.held(1000, "bf16") >= 0
    for place in places(3):
        room(Model(found, 60, "bf16"), place, (8192,))


def test_a_configuration_within_another_and_the_checkpoint_s_type() -> None:
    scheme = {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8}}
    whole = {"architectures": ["X"], "thinker_config": {"text_config": DENSE}, "quantization_config": scheme}
    found = shape(whole)
    assert (found.architecture, tokens(found), found.typed("auto"), found.quantised) == ("X", 131072, "fp8", "NVFP4")
    assert found.typed("bfloat16") == "bf16" and found.typed("fp8_e4m3") == "fp8"
    with pytest.raises(KeyError):
        found.typed("turboquant_k8v4")


def test_a_node_holds_what_admission_lets_it_hold() -> None:
    """The share that an idle Spark gives, of the smallest one, and what is left beside weights and KV cache."""
    model = Model(of(), 60, "bf16")
    solo = room(model, Place("solo", 1), (8192,))
    assert solo.cache_gib == pytest.approx(MOST_SHARE * min(SPARK_GIB) - 60 - BESIDE_GIB)
    assert solo.users == {8192: int(solo.cache_gib)}
    assert MOST_SHARE * max(SPARK_GIB) + FLOOR_GIB <= min(IDLE_GIB) + 0.2
    pinned = room(Model(of(), 60, "bf16", cache_gib=8), Place("solo", 1), (8192,))
    assert pinned.users == {8192: 8}
    assert (
        room(Model(of(), 60, "bf16", cache_gib=40), Place("solo", 1), (8192,)).problem
        == "9.4 GiB of each node too much"
    )
    much = room(Model(of(), 60, "bf16", share=0.92), Place("solo", 1), (8192,))
    assert much.problem == f"a start wants {0.92 * 121.69 + 4:.1f} GiB free, an idle Spark has 110 at most"


def test_places_are_those_of_a_plan() -> None:
    named = [str(each) for each in places(3)]
    assert named[:4] == ["solo", "cluster of 2", "pipeline of 2", "replicas of 2"] and len(named) == 7
    model = Model(of(num_hidden_layers=3), 60, "bf16")
    assert room(model, Place("cluster", 2, stages=2), (8192,)).weights_gib == pytest.approx(40)
    assert room(model, Place("cluster", 4, stages=4), (8192,)).problem == "3 layers are no 4 stages"
    assert room(model, Place("cluster", 3), (8192,)).problem == "32 heads can't be divided by 3"
    replicas, solo = (room(model, place, (8192,)) for place in (Place("replicas", 3), Place("solo", 1)))
    assert replicas.users[8192] == 3 * solo.users[8192]


def test_a_model_that_no_node_holds_says_how_small_a_build_would_have_to_be() -> None:
    model = Model(of(), 700, "bf16")
    told = list(changes(model, FitRequest(8192, 1), 2, Weights(experts=330e9, tables=20e9)))
    assert told[0] == "more nodes: a cluster of 8"
    smaller = (
        "a smaller build: 179 GiB of weights at most, this one has 700; that is 4.4 bits a weight, and one of 4 bits"
    )
    assert told[1:] == [f"{smaller} (NVFP4, AWQ) has about 210 GiB"]
    assert next(changes(Model(of(), 7000, "bf16"), FitRequest(8192, 1), 2)).startswith("a smaller build: 179 GiB")
    loud = Model(of(), 60, "bf16", share=0.95)
    assert next(changes(loud, FitRequest(8192, 1), 1)).startswith(f"a lower share of a node's memory: {MOST_SHARE}")


def test_a_gguf_s_words_are_those_of_a_configuration() -> None:
    def read(family: str, **own: Any) -> Shape:
        named = {f"{family}.{name.replace('__', '.')}": value for name, value in own.items()}
        return gguf.shape({"general.architecture": family, **named})

    attention = {"attention__head_count": 32, "attention__key_length": 128, "attention__value_length": 128}
    windows = read("gpt-oss", block_count=36, attention__head_count_kv=8, attention__sliding_window=128, **attention)
    assert tokens(windows) == 18 * 4096 and windows.fixed("bf16") == 18 * 4096 * 128
    own = read(
        "gemma4",
        block_count=4,
        attention__head_count_kv=[8, 8, 8, 8],
        attention__sliding_window=64,
        attention__sliding_window_pattern=[1, 1, 1, 0],
        **attention,
    )
    assert tokens(own) == 4096 and own.fixed("bf16") == 3 * 4096 * 64
    hybrid = read(
        "nemotron_h",
        block_count=3,
        attention__head_count_kv=[0, 8, 0],
        feed_forward_length=[0, 0, 512],
        ssm__state_size=128,
        ssm__inner_size=4096,
        ssm__time_step_rank=64,
        ssm__conv_kernel=4,
        ssm__group_count=8,
        **attention,
    )
    assert tokens(hybrid) == 4096 and hybrid.fixed("bf16") == 4096 * 128 * 4 + (4096 + 2 * 8 * 128) * 3 * 2
    latent = read("deepseek2", block_count=2, attention__kv_lora_rank=512, rope__dimension_count=64, **attention)
    assert tokens(latent) == 2 * 576 * 2


def test_weights_are_not_counted_where_a_configuration_does_not_say_enough() -> None:
    with pytest.raises(KeyError):
        count(DENSE)
    with pytest.raises(KeyError):
        count({**CONFIGS["qwen3-8b"], "block_configs": []})
    scout = yaml.safe_load("{model_type: llama4_text, num_hidden_layers: 48, num_attention_heads: 40, head_dim: 128}")
    scout |= {"num_key_value_heads": 8, "hidden_size": 5120, "intermediate_size": 8192, "vocab_size": 202048}
    scout |= {"num_local_experts": 16, "interleave_moe_layer_step": 1, "intermediate_size_mlp": 16384}
    # 109 billions with its tower, as it is called.
    assert count(scout).total == pytest.approx(107.8e9, rel=0.01)
    assert count(scout).gib({}) == pytest.approx(count(scout).total * 2 / GIB)
