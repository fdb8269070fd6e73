"""Modules of a model's weights by kind, with the quantisation and bytes of each.

It reads the headers of the shards alone, in milliseconds and without a GPU. A quantiser leaves some layers in BF16,
which are read in full for each token. So this shows why a model is slower than its number of bits promises.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

from operations.node.login import expand
from operations.wire.model import Audit, Module

#: Types that are nobody's quantisation, as safetensors names them.
PLAIN = frozenset(("F64", "F32", "BF16", "F16", "I64", "I32", "I16", "U32", "BOOL"))
#: Parameters that belong to a module but do not follow a dot (GPT-OSS: `gate_up_proj_blocks`).
SUFFIXES = ("_blocks", "_scales", "_bias")


def main(store: str, folder: str, revision: str) -> Audit:
    """`rows`: {module, count, method, bytes}, the largest first; `quantised` and `total`: bytes. Or `error`."""
    snapshot = Path(expand(store)) / folder / "snapshots" / revision
    if not snapshot.is_dir():
        return {"error": f"{snapshot} is not there; `tandem apply` fetches it"}
    try:
        modules = by_module(snapshot)
    except (struct.error, ValueError, KeyError) as error:
        return {"error": f"{snapshot} has a shard that can't be read: {error}"}
    kinds: dict[tuple[str, str], Module] = {}
    for name, tensors in modules.items():
        kind = re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)
        row = kinds.setdefault(
            (kind, method(tensors)), {"module": kind, "method": method(tensors), "count": 0, "bytes": 0}
        )
        row["count"] += 1
        row["bytes"] += sum(size for _, size in tensors.values())
    rows = sorted(kinds.values(), key=lambda row: -row["bytes"])
    quantised = sum(row["bytes"] for row in rows if row["method"] not in PLAIN)
    return {"rows": rows, "quantised": quantised, "total": sum(row["bytes"] for row in rows)}


def by_module(snapshot: Path) -> dict[str, dict[str, tuple[str, int]]]:
    """module -> parameter -> (type, bytes), over all shards."""
    modules: dict[str, dict[str, tuple[str, int]]] = {}
    for shard in sorted(snapshot.glob("*.safetensors")):
        with shard.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            module, parameter = _split(name)
            start, end = tensor["data_offsets"]
            modules.setdefault(module, {})[parameter] = (tensor["dtype"], end - start)
    return modules


def method(tensors: dict[str, tuple[str, int]]) -> str:
    """How a module is quantised, from the types of its parameters; an unquantised one is named by its type."""
    types = {name: kind for name, (kind, _) in tensors.items()}
    packed = next((name for name in ("weight_packed", "weight", "blocks", "qweight") if name in types), "")
    scale = next((types[name] for name in ("weight_scale", "scales") if name in types), "")
    if packed == "qweight":
        return "INT4"
    if types.get(packed) == "U8" and scale:
        if scale == "U8":
            return "MXFP4"
        # A scale of the input: activations are FP4 too.
        return "NVFP4 W4A4" if {"input_scale", "input_global_scale"} & types.keys() else "NVFP4 W4A16"
    if types.get(packed, "").startswith("F8"):
        return "FP8"
    if types.get(packed) == "I8":
        return "INT8"
    # What holds most of the bytes: a module may have a bias or a norm of another type beside it.
    largest = max(tensors.values(), key=lambda tensor: tensor[1])
    return largest[0]


def _split(name: str) -> tuple[str, str]:
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix[1:]
    module, _, parameter = name.rpartition(".")
    return module, parameter
