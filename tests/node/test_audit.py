"""The audit of a model's weights, on shards that are headers alone: nothing else of them is read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from operations.node.model import audit

REVISION = "a" * 40


def shard(path: Path, tensors: dict[str, tuple[str, int]]) -> None:
    """A safetensors header for tensors of these types and sizes (bytes)."""
    header: Any = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (kind, size) in tensors.items():
        header[name] = {"dtype": kind, "shape": [], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def audited(store: Path) -> Any:
    return audit.main(str(store), "models--org--name", REVISION)


def test_modules_are_counted_by_kind_and_method(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--name/snapshots" / REVISION
    # Two layers of a hybrid as [B] found it: experts in FP4, the linear attention left in BF16.
    for layer in range(2):
        at = f"model.layers.{layer}."
        tensors = {f"{at}linear_attn.in_proj_qkvz.weight": ("BF16", 1000), f"{at}norm.weight": ("F32", 4)}
        for expert in range(3):
            name = f"{at}mlp.experts.{expert}.down_proj."
            tensors |= {f"{name}weight": ("U8", 100), f"{name}weight_scale": ("F8_E4M3", 10)}
            tensors |= {f"{name}weight_scale_2": ("F32", 4), f"{name}input_scale": ("F32", 4)}
        shard(snapshot / f"model-{layer}.safetensors", tensors)
    found = audited(tmp_path)
    assert found["rows"] == [
        {"module": "model.layers.*.linear_attn.in_proj_qkvz", "method": "BF16", "count": 2, "bytes": 2000},
        {"module": "model.layers.*.mlp.experts.*.down_proj", "method": "NVFP4 W4A4", "count": 6, "bytes": 708},
        {"module": "model.layers.*.norm", "method": "F32", "count": 2, "bytes": 8},
    ]
    assert (found["quantised"], found["total"]) == (708, 2716)


@pytest.mark.parametrize(
    ("parameters", "method"),
    [
        ({"weight": "U8", "weight_scale": "F8_E4M3"}, "NVFP4 W4A16"),
        ({"weight_packed": "U8", "weight_scale": "F8_E4M3", "input_global_scale": "F32"}, "NVFP4 W4A4"),
        ({"blocks": "U8", "scales": "U8", "bias": "BF16"}, "MXFP4"),
        ({"weight": "F8_E4M3", "weight_scale": "F32"}, "FP8"),
        ({"weight": "I8", "weight_scale": "F32"}, "INT8"),
        ({"qweight": "I32", "scales": "F16"}, "INT4"),
        ({"weight": "BF16", "bias": "F32"}, "BF16"),
    ],
)
def test_the_method_follows_from_the_types(parameters: dict[str, str], method: str) -> None:
    assert audit.method({name: (kind, 100 - at) for at, (name, kind) in enumerate(parameters.items())}) == method


def test_a_parameter_without_a_dot_belongs_to_its_module(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--name/snapshots" / REVISION
    at = "model.layers.0.mlp.experts.gate_up_proj"
    shard(
        snapshot / "model.safetensors",
        {f"{at}_blocks": ("U8", 64), f"{at}_scales": ("U8", 4), f"{at}_bias": ("BF16", 2)},
    )
    (row,) = audited(tmp_path)["rows"]
    assert row == {"module": "model.layers.*.mlp.experts.gate_up_proj", "method": "MXFP4", "count": 1, "bytes": 70}


def test_no_model_and_a_broken_shard_are_said(tmp_path: Path) -> None:
    assert "is not there" in audited(tmp_path)["error"]
    snapshot = tmp_path / "models--org--name/snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"short")
    assert "can't be read" in audited(tmp_path)["error"]
