"""A recipe file as keys and values, and whose format it is in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from operations.plan.recipes.formats import include
from operations.plan.recipes.kinds import NoRecipe, kind
from operations.plan.recipes.loader import content
from operations.wire import Json

#: Keys that eugr's tool has and sparkrun has not, or reads for its sake.
_EUGRS = ("name", "build_args", "solo_only", "cluster_only")
#: Keys that sparkrun has and eugr's tool has not.
_SPARKRUNS = (
    *("metadata", "mode", "min_nodes", "max_nodes", "model_revision", "runtime_version", "runtime_config", "builder"),
    *("builder_config", "executor", "executor_config", "distribution_config", "containers", "include", "overrides"),
    *("pre_exec", "post_exec", "post_commands", "readiness", "layout", "scheduler", "benchmark", "runtime_cache"),
)


@dataclass(frozen=True)
class Document:
    """A file's content. `twice`: keys that are given twice in one place, each with whether the values differ."""

    path: Path
    data: Json
    twice: dict[str, bool] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return self.path.name

    @property
    def format(self) -> str:
        """`tandem`, `eugr` or `sparkrun`, told by the keys that only one of them has."""
        version = str(self.data.get("recipe_version", "")).partition(".")[0]
        if "runtime" in self.data:
            return "sparkrun"
        if version == "2" and "engine" not in self.data:
            # eugr's tool reads any version with a remark, and forks count on; it wants a name, sparkrun knows none.
            has_eugrs = "command" in self.data and any(key in self.data for key in _EUGRS)
            return "eugr" if has_eugrs and not any(key in self.data for key in _SPARKRUNS) else "sparkrun"
        if version or ("command" in self.data and "container" in self.data):
            return "eugr"
        # sparkrun asks for no version and can tell the runtime from the command.
        return "sparkrun" if "container" in self.data and "engine" not in self.data else "tandem"


def read(path: Path) -> Document:
    """The file; raises Refusal when it is not YAML with keys and values, NoRecipe when it is another tool's."""
    data, twice = content(path)
    if isinstance(data, dict):
        data = include.merged(path, data, lambda base: content(base)[0])
    if what := kind(data):
        raise NoRecipe(path.name, what)
    return Document(path, data, twice)
