"""What vLLM prints of its kernels on this GPU, against the recipes' proof: one short start for each recipe.

    python -m tests.gpu.proofs start --to LOGS --vllm "vllm"     on the machine with GPUs; a log for each recipe
    python -m tests.gpu.proofs judge LOGS                         anywhere; the table in Markdown

A start has the recipe's own environment and those of its flags that choose kernels, on a model of two layers that is
quantised alike: what is looked for is which kernel is said to be taken, and whether the recipe's patterns see it.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Recipe
from tests.gpu import engines, models
from tests.gpu.engines import Engine
from tests.gpu.started import Program, started, words

#: Of a recipe's flags, those that choose kernels.
_KERNELS = ("moe-backend", "linear-backend", "attention-backend", "kv-cache-dtype", "quantization", "dtype")
_ENOUGH = (
    *("--load-format", "dummy", "--max-model-len", "2048", "--max-num-seqs", "4", "--enforce-eager"),
    *("--gpu-memory-utilization", "0.02", "--kv-cache-memory-bytes", "256M", "--max-num-batched-tokens", "2048"),
)
#: Recipe -> the short model that is quantised as its own.
STANDS_FOR = {
    "gemma-4-31b-it-nvfp4": "short-dense-nvfp4",
    "gemma4-26b-a4b-fp8": "short-dense",
    "gpt-oss-120b-mxfp4": "short-moe-mxfp4",
    "nemotron-3-nano-nvfp4-w4a16": "short-moe-w4a16",
    "nemotron-3-nano-nvfp4-w4a4": "short-moe-nvfp4",
    "nemotron-3-super-nvfp4-auto": "short-moe-nvfp4",
    "nemotron-3-super-nvfp4-auto-mtp": "short-moe-nvfp4",
    "nemotron-3-super-nvfp4-cutlass": "short-moe-nvfp4",
    "nemotron-3-super-nvfp4-marlin": "short-moe-nvfp4",
    "nemotron-3-super-nvfp4-mtp": "short-moe-nvfp4",
    "nemotron-3-ultra-nvfp4": "short-moe-nvfp4",
    "qwen3.6-35b-a3b-nvfp4": "short-moe-nvfp4",
    "qwen3.6-35b-a3b-nvfp4-mtp": "short-moe-nvfp4",
    "qwen3.8-flash-next-nvfp4": "short-moe-nvfp4",
}
START_S = 150
#: Characters of a line that are shown.
_WIDTH = 130
#: Lines of vLLM's that name a kernel.
_NAMES = re.compile(r"Using .*(GEMM|MoE backend|attention backend|backend\.)|native support for FP4|ValueError: ")
#: What a log's line begins with: the process, the level, the time and the place in vLLM's sources.
_FRONT = re.compile(r"^(\(.*?\) )?([A-Z]+ \d\d-\d\d [\d:]+ )?")


def start(given: argparse.Namespace) -> int:
    """All recipes side by side, half of them on each GPU."""
    programs = []
    for number, (name, model) in enumerate(STANDS_FOR.items()):
        folder = given.to.absolute() / "models" / model
        models.make(model, folder)
        programs.append(_program(words(given.vllm), load_recipe(name), folder, number, given.to.absolute() / "proofs"))
    with started(programs, START_S):
        pass
    return 0


def _program(vllm: list[str], recipe: Recipe, model: Path, number: int, folder: Path) -> Program:
    engine = Engine(recipe.name, (number % 2,), 18300 + number)
    # FlashInfer is not among what these starts need, and its attention is no line of any proof.
    flags = [each for each in recipe.flags if each.name in _KERNELS and each.value != "flashinfer"]
    kernels = [word for flag in flags for word in flag.words]
    argv = [*vllm, "serve", str(model), "--host", "127.0.0.1", "--port", str(engine.port), *_ENOUGH, *kernels]
    environment = {**engines.environment(recipe), "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    return Program(
        name=engine.name,
        argv=tuple(argv),
        environment={**environment, "CUDA_VISIBLE_DEVICES": str(engine.gpus[0])},
        asks=f"{engine.url}/health",
        folder=folder,
    )


@dataclass(frozen=True)
class Row:
    """One pattern of a recipe, and the first line of the log that it matches; empty: none."""

    recipe: str
    kind: str
    pattern: str
    line: str


def judge(recipe: Recipe, log: str) -> list[Row]:
    """What the recipe's proof finds in a log."""
    patterns = [("expect", each) for each in recipe.proof.expect]
    patterns += [("forbid", each.pattern) for each in recipe.proof.forbid]
    lines = log.splitlines()
    return [
        Row(recipe.name, kind, pattern, next((_short(line) for line in lines if re.search(pattern, line)), ""))
        for kind, pattern in patterns
    ]


def _short(line: str) -> str:
    return _FRONT.sub("", line.strip())[:_WIDTH]


def table(folder: Path) -> str:
    """Markdown: each pattern with the line that it matched, and what the log says of kernels in all."""
    rows = ["| recipe (its vLLM) | proof | pattern | line of vLLM 0.24.0 on this GPU |", "|---|---|---|---|"]
    said = []
    for name in STANDS_FOR:
        log = folder / f"{name}.log"
        if not log.exists():
            continue
        recipe, text = load_recipe(name), log.read_text(errors="replace")
        for row in judge(recipe, text):
            found = f"`{_cell(row.line)}`" if row.line else "none"
            rows.append(f"| {name} ({recipe.engine_version}) | {row.kind} | `{_cell(row.pattern)}` | {found} |")
        kernels = dict.fromkeys(_short(line) for line in text.splitlines() if _NAMES.search(line))
        said += [f"\n{name} on {STANDS_FOR[name]}:\n", "```", *list(kernels)[:8], "```"]
    return "\n".join([*rows, "", "All lines that name a kernel or a refusal:", *said, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def main() -> int:
    """Start or judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.proofs", description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    starting = verbs.add_parser("start")
    starting.add_argument("--to", type=Path, required=True)
    starting.add_argument("--vllm", default="vllm")
    judging = verbs.add_parser("judge")
    judging.add_argument("logs", type=Path)
    given = parser.parse_args()
    if given.verb == "start":
        return start(given)
    print(table(given.logs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
