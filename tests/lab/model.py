"""The tiny model: a two-layer Llama with random weights, made here in a second, laid out as in an HF cache.

It answers with digits, at temperature 0 the same ones to the same question.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from operations.plan.recipes.formats import load_recipe
from tests.lab.settings import ARTEFACTS
from tests.lab.shell import step

RECIPE = load_recipe("lab-tiny-llama")
REPO = RECIPE.model.repo
HIDDEN, LAYERS, HEADS, VOCAB, MIDDLE = 128, 2, 4, 512, 256
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def revision() -> str:
    """The revision that the lab's recipe names: the sha1 of this file, so that another model has another one."""
    return str(RECIPE.model.revision)


def own_hash() -> str:
    """What the recipe has to name."""
    return hashlib.sha1(Path(__file__).read_bytes()).hexdigest()


def folder() -> Path:
    """The model's repository folder in HF cache layout."""
    return ARTEFACTS / "hub" / ("models--" + REPO.replace("/", "--"))


def ensure() -> None:
    """Make the model if this revision is not there yet."""
    if (folder() / "snapshots" / revision()).is_dir():
        return
    with step("making the tiny model"):
        aside = ARTEFACTS / "hub.part"
        if aside.exists():
            shutil.rmtree(aside)
        plain = aside / "plain"
        plain.mkdir(parents=True)
        write(plain)
        _as_cache(plain, aside / folder().name)
        if folder().exists():
            shutil.rmtree(folder())
        folder().parent.mkdir(parents=True, exist_ok=True)
        (aside / folder().name).rename(folder())
        shutil.rmtree(aside)


def write(plain: Path) -> None:
    """The model as its repository has it, into a folder that is there."""
    _write_config(plain)
    _write_tokenizer(plain)
    _write_weights(plain)


def _write_config(plain: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": MIDDLE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
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
    _json(plain / "config.json", config)
    _json(plain / "generation_config.json", {"bos_token_id": 0, "eos_token_id": 1})


def _write_tokenizer(plain: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = "Two Sparks, one service: the fabric carries what the ranks say to each other. " * 20
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.save(str(plain / "tokenizer.json"))
    _json(
        plain / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "model_max_length": 2048,
            "chat_template": CHAT_TEMPLATE,
        },
    )


def _write_weights(plain: Path) -> None:
    import numpy as np
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer

    random = np.random.default_rng(20)

    def matrix(rows: int, columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
        return (random.standard_normal((rows, columns)) * 0.05).astype(np.float16)

    def only_digits() -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
        """Rows of the tokens `0` to `9` in pairs of opposite sign, one of which is always above the others' zero.

        Digits are one token each, in a text as well as in an answer: an answer that is taken up in its middle can be
        compared with one that was not, word for word.
        """
        head = np.zeros((VOCAB, HIDDEN), dtype=np.float16)
        vocabulary = Tokenizer.from_file(str(plain / "tokenizer.json")).get_vocab()
        digits = [vocabulary[digit] for digit in "0123456789"]
        head[digits[:5]] = matrix(5, HIDDEN)
        head[digits[5:]] = -head[digits[:5]]
        return head

    tensors: dict[str, object] = {
        "model.embed_tokens.weight": matrix(VOCAB, HIDDEN),
        "lm_head.weight": only_digits(),
        "model.norm.weight": np.ones(HIDDEN, dtype=np.float16),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            tensors[f"{at}self_attn.{name}.weight"] = matrix(HIDDEN, HIDDEN)
        tensors[f"{at}mlp.gate_proj.weight"] = matrix(MIDDLE, HIDDEN)
        tensors[f"{at}mlp.up_proj.weight"] = matrix(MIDDLE, HIDDEN)
        tensors[f"{at}mlp.down_proj.weight"] = matrix(HIDDEN, MIDDLE)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = np.ones(HIDDEN, dtype=np.float16)
    # Two shards and an index, as a large model has them.
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, members in halves.items():
        save_file({name: tensors[name] for name in members}, plain / file, metadata={"format": "pt"})  # type: ignore[misc]
    weight_map = {name: file for file, members in halves.items() for name in members}
    _json(plain / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def _as_cache(plain: Path, repo: Path) -> None:
    """Lay plain files out as `huggingface_hub` does: blobs by etag, a snapshot of links, a ref."""
    snapshot = repo / "snapshots" / revision()
    snapshot.mkdir(parents=True)
    (repo / "blobs").mkdir()
    (repo / "refs").mkdir()
    (repo / "refs/main").write_text(revision())
    for file in sorted(plain.iterdir()):
        name = blob_name(file)
        file.rename(repo / "blobs" / name)
        os.symlink(f"../../blobs/{name}", snapshot / file.name)


def blob_name(file: Path) -> str:
    """A file's etag on the Hub: sha256 for what lies in LFS, git's sha1 for the rest."""
    content = file.read_bytes()
    if file.suffix in (".safetensors", ".gguf"):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
