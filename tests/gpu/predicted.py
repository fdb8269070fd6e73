"""What the advice's model says of two GPUs before they are measured, and how far off it was.

    python -m tests.gpu.predicted make RUN... > predictions.json        from runs that are there
    python -m tests.gpu.predicted judge predictions.json RUN...         against runs that came later

Predicted are other lengths of the same setups (`carried`), and replicas and a cluster where solo alone is known
(`from solo`), in the way in which an owner's own runs are used. These GPUs are no Sparks: their constants are round
guesses, and what was measured before is what they are held against.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from bench.advise import models, physics
from bench.advise.evidence import Estimated, Evidence, Measured
from bench.advise.load import Load
from bench.advise.measured import by_prompt
from bench.advise.setups import Figure, Setup
from bench.folder import read

#: By what the driver calls them; NVIDIA's data sheets.
MACHINES = {
    "H100": physics.Machine(bandwidth=3.35e12, tflops=2000.0),
    "H200": physics.Machine(bandwidth=4.8e12, tflops=2000.0),
}
CONSTANTS = physics.Constants(
    layer_us=10, reduce_us=15, link_gb_s=300, tflops=600, spread=0.84, passes=159, attention_tflops=300
)
#: As tests/gpu/models.py makes them.
SHAPES = {
    "dense-14b": models.Model(
        total=13.6, active=13.6, experts=1, chosen=1, expert_bits=16, layers=40, hidden=5120, reduces=80, kv=81920,
        attends=204800,
    ),
    "moe-30b-nvfp4": models.Model(
        total=30.0, active=3.0, experts=128, chosen=8, expert_bits=4.5, layers=48, hidden=2048, reduces=96, kv=49152,
        attends=196608,
    ),
}  # fmt: skip
LENGTHS = ((1024, 128), (4096, 256))
USERS = (1, 4, 16, 64)
FIGURES: tuple[Figure, ...] = ("ttft", "decode", "whole")


def _known(folder: Path) -> tuple[str, Measured, Evidence, Evidence]:
    """A run's model and rows; all of it as evidence, and solo's alone."""
    run, steps, requests = read(folder)
    source = max(by_prompt(folder.name, run, steps, requests), key=lambda each: len(each.rows))
    gpu = run.setups[0].versions["gpu"]
    machine = next(machine for name, machine in MACHINES.items() if name in gpu)
    base = Estimated(SHAPES[run.recipe], 2.0, CONSTANTS, machine=machine)
    solo = {key: rows for key, rows in source.rows.items() if key[0] == Setup("solo")}
    return run.recipe, source, Evidence([source], base), Evidence([replace(source, rows=solo)], base)


def make(folders: list[Path]) -> Iterator[dict[str, Any]]:
    """A line each: model, setup, lengths, users, figures in seconds and tokens a second, and how they were made."""
    for folder in folders:
        model, source, known, solo = _known(folder)
        for setup in sorted({setup for setup, _ in source.rows}):
            for how, evidence in (("carried", known), ("from solo", solo)):
                if how == "from solo" and setup.topology == "solo":
                    continue
                for prompt, answer in LENGTHS:
                    for users in USERS:
                        found = evidence.known(setup, Load(users, prompt, answer))
                        if found:
                            yield {
                                "model": model,
                                "setup": str(setup),
                                "prompt": prompt,
                                "answer": answer,
                                "users": users,
                                "how": how,
                                **_figures(found.curve.at(users), users, answer),
                            }


def _figures(point: physics.Point, users: int, answer: int) -> dict[str, float]:
    values = (point.first, point.decode(users, answer), point.whole(answer))
    return {name: float(f"{value:.4g}") for name, value in zip(FIGURES, values, strict=True)}


def judge(predicted: list[dict[str, Any]], folders: list[Path]) -> Iterator[str]:
    """A table of errors, and their median and worst for each way of predicting."""
    errors: dict[str, list[float]] = {}
    yield "| model | setup | in, out | users | how | first token | decode | whole answer |"
    yield "|---|---|---|---|---|---|---|---|"
    for folder in folders:
        run, steps, requests = read(folder)
        for source in by_prompt(folder.name, run, steps, requests):
            prompt, answer = source.lengths()
            for line in predicted:
                near = abs(line["prompt"] / prompt - 1) < 0.1 and abs(line["answer"] / answer - 1) < 0.1
                setup = next((each for each, _ in source.rows if str(each) == line["setup"]), None)
                if line["model"] != run.recipe or not near or setup is None:
                    continue
                cells = []
                for name in FIGURES:
                    values = source.rows.get((setup, name), {}).get(line["users"])
                    error = line[name] / fmean(values) - 1 if values else None
                    cells.append("" if error is None else f"{error:+.0%}")
                    if error is not None:
                        errors.setdefault(f"{line['how']}, {prompt} in", []).append(abs(error))
                where = f"{line['model']} | {line['setup']} | {prompt}, {answer} | {line['users']} | {line['how']}"
                yield f"| {where} | {' | '.join(cells)} |"
    for how, missed in errors.items():
        yield f"{how}: {len(missed)} figures, median {median(missed):.0%}, worst {max(missed):.0%}"


def main(arguments: list[str]) -> int:
    """See above."""
    if arguments[0] == "make":
        print("[\n" + ",\n".join(json.dumps(line) for line in make([Path(each) for each in arguments[1:]])) + "\n]")
    else:
        print("\n".join(judge(json.loads(Path(arguments[1]).read_text()), [Path(each) for each in arguments[2:]])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
