"""The bench on two GPUs of one host: an engine each, one over both, and LiteLLM in front of each topology.

    python -m tests.gpu --to RUNS --vllm "vllm" --python "python3"

Every step is written as it ends, so that a run that is broken off has what it has measured. A second model begins when
the first has ended. What does not come up is a setup that says why.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from bench import limit
from bench.folder import write_run
from bench.process import Client, here
from bench.profiles import PROFILES, Profile
from bench.records import Folder, Run, Setup
from operations.node.machine import gpu
from operations.plan.config.refusal import Refusal
from tests.gpu import engines, proxies
from tests.gpu.engines import BOTH, FIRST, SECOND, Engine
from tests.gpu.measure import Bench, Target
from tests.gpu.models import MODELS, counter, make
from tests.gpu.started import Program, Up, started, words

#: Name, topology, routing, port of the proxy, engines.
SETUPS: tuple[tuple[str, str, proxies.Routing, int, tuple[Engine, ...]], ...] = (
    ("solo", "solo", "simple-shuffle", 18200, (FIRST,)),
    ("cluster/mp", "cluster", "simple-shuffle", 18210, (BOTH,)),
    ("replicas/simple-shuffle", "replicas", "simple-shuffle", 18220, (FIRST, SECOND)),
    ("replicas/balanced", "replicas", "balanced", 18230, (FIRST, SECOND)),
)
#: What is asked directly as well: what the proxy costs.
DIRECT = (("solo", FIRST), ("cluster/mp", BOTH))
#: Seconds for everything to come up: the first start compiles all of vLLM's modules.
START_S = 330


def arguments() -> argparse.Namespace:
    """What is given on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", type=Path, required=True, help="folder of run folders")
    parser.add_argument("--vllm", default="vllm", help="the command that is vLLM's")
    parser.add_argument("--python", default="python3", help="the Python that has LiteLLM")
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--profile", nargs="+", choices=("standard", "agent"), default=["standard", "agent"])
    parser.add_argument("--users", type=int, nargs="+", help="instead of the profile's")
    parser.add_argument("--prompt", type=int, help="tokens, instead of the profile's")
    parser.add_argument("--answer", type=int, help="tokens, instead of the profile's")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="requests of each user in a step")
    parser.add_argument("--seconds", type=float, default=3600, help="of a model; what is left out then is not measured")
    parser.add_argument("--seed", type=int, default=15)
    return parser.parse_args()


def main() -> int:
    """One model after the other."""
    given = arguments()
    given.to.mkdir(parents=True, exist_ok=True)
    with here() as client:
        rates = limit.measure()
        print(f"the client alone: {rates[0]:.0f} requests a second, {rates[1]:.0f} pieces a second", flush=True)
        for model in given.model:
            _model(model, given, client, rates)
    return 0


def _model(name: str, given: argparse.Namespace, client: Client, rates: tuple[float, float]) -> None:
    began, made_of = time.monotonic(), engines.recipe(name)
    folder = given.to.absolute() / "models" / name
    make(name, folder)
    at = given.to.absolute() / "logs" / name
    programs: list[Program] = [
        engines.program(words(given.vllm), made_of, each, folder, at) for each in (FIRST, SECOND, BOTH)
    ]
    python = words(given.python)
    programs += [
        proxies.program(python, made_of, _proxy(setup), port, routing, behind, at)
        for setup, _, routing, port, behind in SETUPS
    ]
    count = counter(folder)
    with started(programs, START_S) as up:
        benches = []
        for profile in (_profile(each, given) for each in given.profile):
            run = Folder(given.to / f"{name}-{profile.name}")
            write_run(run, _run(name, profile, given.seed, rates, up, given))
            benches.append(Bench(client, run, profile, made_of.served_name, given.seed, count))
        _measure(benches, up, began + given.seconds)


def _proxy(setup: str) -> str:
    return f"proxy-{setup.replace('/', '-')}"


def _profile(name: str, given: argparse.Namespace) -> Profile:
    """With what is given in place of its own. Conversations are long: one of each user, and fewer users."""
    base = PROFILES[name]
    base = replace(base, prompts=(given.prompt,) if given.prompt else base.prompts, answer=given.answer or base.answer)
    if name == "agent":
        users = tuple(given.users or (2, 8, 32))
        return replace(base, users=users, repeats=min(given.repeats, 2), direct=())
    return replace(
        base, users=tuple(given.users or base.users), repeats=given.repeats, rounds=given.rounds, direct=(1, 64)
    )


def _measure(benches: Sequence[Bench], up: Up, until: float) -> None:
    """All setups in turn under each load, so that what changes meanwhile changes for all of them."""
    ready = [
        Target(name, "proxy", f"http://127.0.0.1:{port}", behind)
        for name, _, _, port, behind in SETUPS
        if all(each in up.after for each in (_proxy(name), *(engine.name for engine in behind)))
    ]
    direct = [Target(name, engine.name, engine.url, (engine,)) for name, engine in DIRECT if engine.name in up.after]
    # What a first request compiles or captures belongs to none of them.
    warm = replace(benches[0], folder=Folder(benches[0].folder.path / "warm-up"), seed=benches[0].seed + 1)
    warm.folder.path.mkdir(exist_ok=True)
    for target in ready:
        warm.step(target, 8, 0)
    for repeat in range(max(bench.profile.repeats for bench in benches)):
        for bench in benches:
            for users in bench.profile.users if repeat < bench.profile.repeats else ():
                for target in (*ready, *(direct if users in bench.profile.direct and repeat < 2 else ())):
                    if time.monotonic() > until:
                        print("the time is over", flush=True)
                        return
                    bench.step(target, users, repeat)


def _run(name: str, profile: Profile, seed: int, rates: tuple[float, float], up: Up, given: argparse.Namespace) -> Run:
    made_of, gpus = engines.recipe(name), gpu.state()
    versions = {
        "vllm": _vllm(up),
        "litellm": _litellm(given.python),
        "driver": next((str(each["driver"]) for each in gpus), ""),
        "gpu": next((str(each["name"]) for each in gpus), ""),
    }
    setups = [
        Setup(
            name=setup,
            topology=topology,
            executor="mp",
            routing=routing,
            nodes=sum(len(engine.gpus) for engine in behind),
            plan="",
            why_not="; ".join(up.why_not[each.name] for each in behind if each.name in up.why_not),
            deploy_s=max((up.after[each.name] for each in behind if each.name in up.after), default=None),
            versions=versions,
        )
        for setup, topology, routing, _, behind in SETUPS
    ]
    return Run(
        profile=profile.name,
        seed=seed,
        repeats=profile.repeats,
        users=list(profile.users),
        recipe=made_of.name,
        served_name=made_of.served_name,
        model=made_of.model.repo,
        revision=made_of.model.revision or "",
        environment={
            "what": "random weights, two GPUs of one host, no Docker: tests/gpu",
            "gpus": ", ".join(str(each["name"]) for each in gpus),
            "flags": " ".join(made_of.flag_argv),
            "rounds": str(profile.rounds),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        began=time.time(),
        client_requests_s=rates[0],
        client_pieces_s=rates[1],
        setups=setups,
    )


def _vllm(up: Up) -> str:
    """The version that an engine says."""
    for engine in (FIRST, SECOND, BOTH):
        if engine.name in up.after:
            with urllib.request.urlopen(f"{engine.url}/version", timeout=10) as response:
                return str(json.load(response)["version"])
    return "unknown"


@cache
def _litellm(python: str) -> str:
    """The version of the one that this Python has."""
    argv = [*words(python), "-c", "import importlib.metadata as of; print(of.version('litellm'))"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Refusal as refusal:
        sys.exit(str(refusal))
