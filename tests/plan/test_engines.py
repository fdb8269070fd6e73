"""An engine is one file: no other code names one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from operations.node.look import bench_facts
from operations.plan.config.knobs import Executor
from operations.plan.engines import ENGINES
from operations.plan.recipes.recipe import EngineName

ROOT = Path(__file__).parents[2]
#: An engine's name as a value, what its metrics are called, and LiteLLM's word for engines of a kind.
NAMED = re.compile(
    rf"""["'](?:{"|".join(ENGINES)})["']|hosted_vllm|{"|".join(runs.METRICS for runs in ENGINES.values())}"""
)
#: Where an engine has to be named: its registration, what sparkrun takes for granted, what runs in vLLM's own image.
MAY = {"operations/plan/recipes/recipe.py", "operations/plan/recipes/formats/sparkrun.py", "files/engine/vocabulary.py"}


def test_every_engine_is_registered_by_its_name() -> None:
    assert set(ENGINES) == set(get_args(EngineName))


def test_no_code_that_all_share_names_an_engine() -> None:
    places = [ROOT / "deploy.py", ROOT / "config.py"]
    for folder in ("operations", "bench", "files", "manual"):
        places += [file for kind in ("py", "j2", "yml", "sh") for file in (ROOT / folder).rglob(f"*.{kind}")]
    code = {str(place.relative_to(ROOT)): place.read_text() for place in places}
    naming = {name for name, text in code.items() if NAMED.search(text)}
    assert {name for name in naming if not name.startswith("operations/plan/engines/")} == MAY


def test_what_an_engine_says_of_its_flags_fits_together() -> None:
    for name, runs in ENGINES.items():
        owned = runs.OWNED.keys()
        assert {*runs.IGNORED_FOREIGN_FLAGS, *runs.TAKES, *runs.COUNTED, runs.SPLIT} - {""} <= owned, name
        assert not owned & {*runs.SAME, *runs.SHORT}, name
        assert bool(runs.ALONE) == ("cluster" not in runs.TOPOLOGIES), name
        assert bool(runs.EXECUTORS) == ("cluster" in runs.TOPOLOGIES) and set(runs.EXECUTORS) <= set(get_args(Executor))
        assert all(metric.startswith(runs.METRICS) for metric in runs.PANELS.values()), name
        assert not runs.PANELS or runs.COUNTERS.keys() >= {*bench_facts.NEEDED}, name
