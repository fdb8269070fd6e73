"""What a recipe may need beside the tiny model: a draft that is tinier still, and a LoRA adapter, in the lab's hub.

Both have random weights; the draft has the tiny model's vocabulary and its own idea of which digit comes next.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.lab import model
from tests.lab.settings import ARTEFACTS
from tests.lab.shell import step

DRAFT, ADAPTER = "tandem-lab/tiny-draft", "tandem-lab/tiny-poet"
HIDDEN, HEADS, MIDDLE, RANK = 64, 2, 128, 8


def revision() -> str:
    """Of both: the sha1 of this file and of the tiny model's, so that others have another one."""
    return hashlib.sha1(Path(__file__).read_bytes() + model.own_hash().encode()).hexdigest()


def ensure() -> None:
    """Make what is not there yet; needs the tiny model."""
    keep(DRAFT, revision(), _write_draft)
    keep(ADAPTER, revision(), _write_adapter)


def keep(repo: str, revision: str, write: Callable[[Path], object]) -> None:
    """A model in the lab's hub, in the Hub's own layout, if this revision is not there yet. `write`: its files."""
    folder = ARTEFACTS / "hub" / ("models--" + repo.replace("/", "--"))
    if (folder / "snapshots" / revision).is_dir():
        return
    with step(f"making {repo}"):
        aside = ARTEFACTS / "further.part"
        shutil.rmtree(aside, ignore_errors=True)
        snapshot = aside / "snapshots" / revision
        for each in (snapshot, aside / "blobs", aside / "refs"):
            each.mkdir(parents=True)
        write(snapshot)
        for file in sorted(snapshot.iterdir()):
            name = model.blob_name(file)
            file.rename(aside / "blobs" / name)
            os.symlink(f"../../blobs/{name}", file)
        (aside / "refs/main").write_text(revision)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        aside.rename(folder)


def _write_draft(plain: Path) -> None:
    """One layer, half as wide; configuration and tokenizer are the tiny model's."""
    tiny = model.folder() / "snapshots" / model.revision()
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(tiny / name, plain / name)
    config: dict[str, Any] = json.loads((tiny / "config.json").read_text())
    config |= {"hidden_size": HIDDEN, "intermediate_size": MIDDLE, "num_hidden_layers": 1}
    config |= {"num_attention_heads": HEADS, "num_key_value_heads": HEADS}
    (plain / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    shapes = {
        "model.embed_tokens": (model.VOCAB, HIDDEN),
        "lm_head": (model.VOCAB, HIDDEN),
        **{f"model.layers.0.self_attn.{name}_proj": (HIDDEN, HIDDEN) for name in "qkvo"},
        **{f"model.layers.0.mlp.{name}_proj": (MIDDLE, HIDDEN) for name in ("gate", "up")},
        "model.layers.0.mlp.down_proj": (HIDDEN, MIDDLE),
    }
    norms = ("model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm")
    _save(plain / "model.safetensors", {f"{name}.weight": shape for name, shape in shapes.items()}, norms)


def _write_adapter(plain: Path) -> None:
    """Of the attention's q and v in both layers."""
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model.REPO,
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["q_proj", "v_proj"],
    }
    (plain / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    shapes: dict[str, tuple[int, int]] = {}
    for layer in range(model.LAYERS):
        for name in ("q_proj", "v_proj"):
            at = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            shapes |= {f"{at}.lora_A.weight": (RANK, model.HIDDEN), f"{at}.lora_B.weight": (model.HIDDEN, RANK)}
    _save(plain / "adapter_model.safetensors", shapes)


def _save(file: Path, shapes: dict[str, tuple[int, int]], norms: tuple[str, ...] = ()) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    random = np.random.default_rng(21)
    tensors = {name: (random.standard_normal(shape) * 0.05).astype(np.float16) for name, shape in shapes.items()}
    tensors |= {f"{name}.weight": np.ones(HIDDEN, dtype=np.float16) for name in norms}
    save_file(tensors, file, metadata={"format": "pt"})
