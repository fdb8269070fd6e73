"""LiteLLM as Tandem renders it, without its container."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from operations.paths import LITELLM
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.litellm import Behind
from operations.plan.services.litellm_service import litellm_service
from tests.bench.routing.doors import ON_A_PORT
from tests.gpu.engines import Engine, knobs
from tests.gpu.started import Program

Routing = Literal["simple-shuffle", "balanced", "least-busy"]
#: Of a machine that nobody else reaches.
KEY = "sk-tandem-gpu"


def program(
    python: Sequence[str], made_of: Recipe, name: str, port: int, routing: Routing, engines: Sequence[Engine], at: Path
) -> Program:
    """The files that a deploy would write, and the command and the environment of its container; `python`: which has
    LiteLLM.
    """
    topology = "replicas" if len(engines) > 1 else "solo"
    plan = knobs(recipe=made_of.name, topology=topology, routing=routing)
    folder = at / name
    folder.mkdir(parents=True, exist_ok=True)
    behind = Behind(made_of, tuple(engine.url for engine in engines))
    files = {Path(file.path).name: file.content for file in litellm_service(plan, [behind], LITELLM[0]).files}
    for file, content in files.items():
        (folder / file).write_text(content)
    shutil.copy(ON_A_PORT, folder)
    given = [str(folder / ON_A_PORT.name), "--config", str(folder / "config.yaml"), "--telemetry", "False"]
    return Program(
        name=name,
        argv=(*python, *given),
        environment={
            **_environment(files["run.sh"]),
            "LITELLM_MASTER_KEY": KEY,
            "TANDEM_SHARED": str(folder),
            "TANDEM_USED": str(folder),
            # It is asked on its port here.
            "PORT": str(port),
            "TANDEM_LISTENS": str(folder / "listens"),
            "TANDEM_PULSE": str(folder / "pulse"),
        },
        asks=f"http://127.0.0.1:{port}/health/liveliness",
        folder=folder,
    )


def _environment(run: str) -> dict[str, str]:
    """What `docker run` is told."""
    words = shlex.split(run.splitlines()[-1])
    pairs = [value.partition("=") for flag, value in pairwise(words) if flag == "--env"]
    return {name: value for name, _, value in pairs}
