"""A recipe file as keys and values, and whose format it is in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from operations.plan.refusal import Finding, Refusal

#: Keys that eugr's tool has and sparkrun has not, or reads for its sake.
_EUGRS = ("name", "build_args", "solo_only", "cluster_only")
#: Keys that sparkrun has and eugr's tool has not.
_SPARKRUNS = (
    *("metadata", "mode", "min_nodes", "max_nodes", "model_revision", "runtime_version", "runtime_config", "builder"),
    *("builder_config", "executor", "executor_config", "distribution_config", "containers", "include", "overrides"),
    *("pre_exec", "post_exec", "post_commands", "readiness", "layout", "scheduler", "benchmark", "runtime_cache"),
)
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True)
class Document:
    """A file's content. `twice`: keys that are given twice in one place, each with whether the values differ."""

    path: Path
    data: dict[str, Any]
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


class _Loader(yaml.SafeLoader):
    """SafeLoader that notes keys given twice: YAML keeps the last one in silence."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.twice: dict[str, bool] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            try:
                value = self.construct_object(value_node, deep=True)
                if key in seen:
                    where = f"{key}` in line {key_node.start_mark.line + 1}"
                    self.twice[where] = self.twice.get(where, False) or seen[key] != value
                seen[key] = value
            except TypeError:
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is not a word", key_node.start_mark
                ) from None
        return super().construct_mapping(node, deep)


def read(path: Path) -> Document:
    """The file; raises Refusal when it is not YAML with keys and values."""
    try:
        loader = _Loader(path.read_text())
        data = loader.get_single_data()
    except (yaml.YAMLError, UnicodeDecodeError, OSError, RecursionError, ValueError) as error:
        where = " ".join(str(error).split())
        raise Refusal(Finding(path.name, f"is not YAML: {where}", "correct the line that it names")) from None
    if not isinstance(data, dict):
        raise Refusal(Finding(path.name, "is not a recipe: expected keys and values", "compare it with files/recipes"))
    return Document(path, {str(key): value for key, value in data.items()}, loader.twice)
