"""The flags that sparkrun makes of `defaults` when a recipe has no command: what it does not know it leaves out.

Which they are is said by the engine's class. Source of the others: `BASE_CONSUMED_CONFIG_KEYS` in base.py of sparkrun
0.4.2 on PyPI.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from operations.plan.config.refusal import Remark, nearest
from operations.plan.engines.base import Sparkrun
from operations.plan.recipes.formats.shell import Word, split

#: How like a known name another has to be to be taken for its misspelling.
_NEAR = 0.8
#: Read by name elsewhere in sparkrun: no flags, and nothing to be said.
CONSUMED = (
    *("api_key", "benchmark_framework", "benchmark_output_dir", "data_parallel", "ep_size", "executor"),
    *("expert_parallel", "host", "image_prefix", "init_port", "kubectl", "launcher_image", "model"),
    *("pipeline_parallel", "port", "resolved_model_path", "save_build_logs", "served_model_name"),
    *("tensor_parallel", "transformers", "use_sentinel_image", "data_parallel_rpc_port"),
    "distributed_executor_backend",
)


def words(defaults: Mapping[str, Any], made: Sparkrun) -> Iterator[Word]:
    """The words behind the model; raises ValueError for a quote that is not closed."""
    for key, value in defaults.items():
        if value is None:
            continue
        if key in made.switches:
            if _is_on(value):
                yield Word(f"--{made.switches[key]}")
            elif key in made.on:
                yield Word(f"--no-{made.switches[key]}")
        elif key in made.off:
            if not _is_on(value):
                yield Word(f"--{made.off[key]}")
        elif key in made.flags:
            yield Word(f"--{made.flags[key]}")
            yield from _value(
                {True: "on", False: "off"}[value] if key in made.valued and value in (True, False) else value
            )


def left_out(defaults: Mapping[str, Any], made: Sparkrun) -> list[Remark]:
    """A word about each name that sparkrun makes no flag of."""
    said = []
    for key, value in defaults.items():
        if value is not None and key not in made.known and key not in CONSUMED:
            remedy = nearest(key, made.known, f"write a `command` with --{key.replace('_', '-')} if it is meant", _NEAR)
            said.append(Remark(False, f"`{key}` under `defaults` is no flag that sparkrun makes: left out", remedy))
    return said


def _is_on(value: Any) -> bool:
    """A switch as sparkrun's library reads it: on with a 1, a t or a y anywhere in it."""
    return value is True or (bool(value) and any(each in str(value).lower() for each in "1ty"))


def _value(value: Any) -> Iterator[Word]:
    """As in the shell that sparkrun writes it for: blanks make words, unless it is JSON."""
    if isinstance(value, dict | list):
        yield Word(json.dumps(value, separators=(",", ":"), default=str))
        return
    text = str(value).strip()
    if text.startswith(("{", "[")):
        yield Word(text)
        return
    for command in split(text).commands:
        yield from command
