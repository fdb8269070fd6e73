"""Run folders that nobody measured: figures from a formula and a seed, in the form that `tandem bench` writes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.folder import write_run
from bench.records import Counters, Folder, NodeState, Request, Run, Setup, Step
from bench.resuming import ENDED

RECIPE = "nemotron-3-super-nvfp4-cutlass"
USERS = (1, 2, 4, 8, 16, 32, 64)
NODES = ("spark-1", "spark-2")


@dataclass(frozen=True)
class MadeUp:
    """Seconds for a token of one user, what each further user adds to that, and seconds for a prompt's token."""

    step_s: float
    added_s: float
    prompt_s: float


#: Solo is behind, the cluster ahead with few users, replicas with many.
FORMULAS = {
    "solo": MadeUp(0.060, 0.0072, 0.00070),
    "cluster/mp": MadeUp(0.042, 0.0052, 0.00045),
    "replicas": MadeUp(0.059, 0.0036, 0.00036),
}


def setup(name: str, why_not: str = "", routing: str = "balanced") -> Setup:
    """One that came up, unless it is said why not."""
    topology, _, executor = name.partition("/")
    versions = {"image": "sha256:0123456789ab", "vllm": "0.31.0", "driver": "580.95.05"}
    return Setup(
        name=name, topology=topology, executor=executor or "mp", routing=routing, nodes=0 if why_not else 2,
        plan="" if why_not else "made-up-plan", why_not=why_not, deploy_s=612.0, versions={} if why_not else versions,
    )  # fmt: skip


def made_up_run(
    path: Path,
    names: Sequence[str] = tuple(FORMULAS),
    users: Sequence[int] = USERS,
    repeats: int = 3,
    *,
    prompt: int = 1024,
    answer: int = 128,
    slower: float = 1.0,
    seed: int = 7,
    why_not: str = "",
    errors: bool = False,
    cached: float = 0.0,
    **changes: object,
) -> Path:
    """A folder; `slower`: all times are so many times longer, `why_not`: solo did not come up, `cached`: which
    share of prompts.
    """
    chance = random.Random(seed)
    folder = Folder(path)
    setups = [setup(name, why_not if name == "solo" else "") for name in names]
    run = Run(
        profile="standard", seed=seed, repeats=repeats, users=list(users), slo="ttft=2s tpot=100ms", recipe=RECIPE,
        served_name="nemotron", model="nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", revision="4f0cf9daaeb7",
        environment={"tandem": "made up", "controller": "nobody's machine", ENDED: "2026-11-23 10:00 UTC"},
        began=1_795_000_000.0, client_requests_s=900.0, client_pieces_s=60_000.0, setups=setups,
    )  # fmt: skip
    write_run(folder, run.model_copy(update=changes))
    with folder.requests.open("w") as requests, folder.steps.open("w") as steps:
        for each in setups:
            for count in users if not each.why_not else ():
                for repeat in range(repeats):
                    step, asked = _step(each.name, count, repeat, prompt, answer, slower, chance, errors, cached)
                    requests.writelines(f"{request.model_dump_json()}\n" for request in asked)
                    steps.write(f"{step.model_dump_json()}\n")
    return path


def _step(
    setup_name: str,
    users: int,
    repeat: int,
    prompt: int,
    answer: int,
    slower: float,
    chance: random.Random,
    errors: bool,
    cached: float,
) -> tuple[Step, list[Request]]:
    formula, name = FORMULAS[setup_name], f"{setup_name}/proxy/{users}/{repeat}"
    pace = slower * (formula.step_s + formula.added_s * (users - 1)) * chance.gauss(1, 0.01)
    requests = list(_requests(name, users, prompt, answer, slower * formula.prompt_s, pace, errors))
    took = max(each.done_s for each in requests)
    nodes = NODES if setup_name == "replicas" else NODES[:1]
    most = (users + 1) // 2 if len(nodes) == 2 else users
    counts = dict(zip(nodes, (most, users - most), strict=False))
    state = NodeState(clock_mhz=2400, temperature_c=61 + users / 4, power_w=80, energy_j=0, available_gib=30)
    after = state.model_copy(update={"energy_j": 80 * took})
    return Step(
        name=name, setup=setup_name, target="proxy", users=users, repeat=repeat, prompt_tokens=prompt,
        answer_tokens=answer, began=1_795_000_000.0, took_s=took, requests=len(requests),
        engines={node: Counters(requests=count, prompt_tokens=count * prompt, answer_tokens=count * answer,
                                prefix_asked=count * prompt, prefix_found=int(cached * count * prompt))
                 for node, count in counts.items()},
        before=dict.fromkeys(nodes, state), after=dict.fromkeys(nodes, after),
    ), requests  # fmt: skip


def _requests(
    name: str, users: int, prompt: int, answer: int, prompt_s: float, pace: float, errors: bool
) -> Iterator[Request]:
    for user in range(users):
        if errors and user == users - 1:
            yield Request(step=name, conversation=user, sent_s=0, done_s=1, error="made up: connection reset")
            continue
        first = (user + 1) * prompt * prompt_s
        pieces = [round(first + number * pace, 4) for number in range(answer)]
        yield Request(
            step=name, conversation=user, sent_s=0, first_s=first, done_s=pieces[-1], pieces_s=pieces,
            prompt_tokens=prompt, answer_tokens=answer,
        )  # fmt: skip


if __name__ == "__main__":
    import sys

    made_up_run(Path(sys.argv[1]))
