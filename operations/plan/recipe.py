"""A recipe: which model at which revision, which image, which flags and environment. Read strictly."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from operations.plan.knobs import Topology
from operations.plan.refusal import Finding, Refusal

FOLDER = Path(__file__).parents[2] / "files/recipes"

#: Flags that follow from the plan; a recipe that sets one would contradict the knobs.
OWNED_FLAGS = {
    "model": "`model.repo` says it",
    "host": "the engine binds to the fabric or loopback",
    "port": "the knob `engine_port` says it",
    "served-model-name": "`served_name` says it",
    "tensor-parallel-size": "it follows from the topology and the number of nodes",
    "pipeline-parallel-size": "the topologies of Tandem are tensor-parallel",
    "data-parallel-size": "the topology `replicas` is the way to serve in parallel",
    "distributed-executor-backend": "the knob `executor` says it",
    "nnodes": "it is the number of nodes in the inventory",
    "node-rank": "it follows from the node's place in the inventory",
    "master-addr": "it is the head's fabric address",
    "master-port": "the knob `cluster_ports` says it",
    "headless": "the workers' ranks have it by themselves",
    "api-key": "a key in argv can be read by everybody; the proxy has the key",
}
#: Environment that the plan computes from each node's own links.
OWNED_ENV = ("VLLM_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_IB_HCA")

FlagValue = bool | int | float | str | dict[str, Any] | list[Any]


class Model(BaseModel):
    """A model on the Hub, at one commit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repo: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]

    @field_validator("revision", mode="before")
    @classmethod
    def _revision(cls, revision: Any) -> Any:
        if isinstance(revision, int | float):
            raise ValueError("YAML reads it as a number: quote it")
        return revision

    @property
    def folder(self) -> str:
        """The repository's folder in an HF cache."""
        return "models--" + self.repo.replace("/", "--")


class Needs(BaseModel):
    """What a node must have. GiB."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu: bool
    memory_gib: dict[Topology, float]
    model_disk_gib: float
    image_disk_gib: float


class Recipe(BaseModel):
    """One recipe file, checked. `flags` keeps its order: that is the order on the command line."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    description: str
    source: str
    engine: Literal["vllm"]
    # The version of the engine in the image: what its variables, flags and choices are judged by.
    engine_version: Annotated[str, Field(pattern=r"^\d+(\.\d+)+$")]
    image: str
    model: Model
    served_name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    topologies: tuple[Topology, ...]
    needs: Needs
    load_minutes: Annotated[float, Field(gt=0)]
    env: dict[str, str] = {}
    flags: dict[str, FlagValue] = {}

    @field_validator("env", mode="before")
    @classmethod
    def _env(cls, env: Any) -> Any:
        if isinstance(env, dict):
            for name, value in env.items():
                if name in OWNED_ENV:
                    raise ValueError(f"`{name}` is computed for each node from its links; remove it")
                if not isinstance(value, str):
                    raise ValueError(f"`{name}` is {value!r}: quote it, so that it is the text that you mean")
                if not re.fullmatch(r"[A-Za-z_]\w*", str(name)) or "\n" in value:
                    raise ValueError(f"`{name}` can't be passed as environment: a name, and one line of text")
        return env

    @field_validator("flags", mode="before")
    @classmethod
    def _flags(cls, flags: Any) -> Any:
        if isinstance(flags, dict):
            for name in flags:
                plain = str(name).replace("_", "-")
                if plain in OWNED_FLAGS:
                    raise ValueError(f"`{name}` is not a recipe's: {OWNED_FLAGS[plain]}; remove it")
                if str(name).startswith("-"):
                    raise ValueError(f"`{name}`: write flags without the leading dashes")
        return flags

    @property
    def flag_argv(self) -> list[str]:
        """The recipe's own part of the engine's command line: `--name value`; true is the bare flag."""
        argv: list[str] = []
        for name, value in self.flags.items():
            if value is False:
                continue
            argv.append(f"--{name}")
            if isinstance(value, dict | list):
                argv.append(json.dumps(value, separators=(",", ":")))
            elif value is not True:
                argv.append(str(value))
        return argv

    def memory_gib(self, topology: Topology) -> float:
        """MemAvailable that a node must have before the engine starts, GiB; 0: the recipe does not say."""
        return self.needs.memory_gib.get(topology, self.needs.memory_gib.get("solo", 0.0))


def load_recipe(name: str, folder: Path = FOLDER) -> Recipe:
    """A recipe by its name in files/recipes, or by the path of a file; raises Refusal with every fault in it."""
    path = Path(name) if "/" in name or name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in folder.glob("*.yaml"))
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean `{close[0]}`? " if close else ""
        raise Refusal(Finding("data", f"recipe={name!r}: no such recipe", f"{hint}the recipes are: {', '.join(known)}"))
    try:
        raw = yaml.load(path.read_text(), Loader=_NoDuplicates)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())
        raise Refusal(Finding(path.name, f"is not YAML: {where}", "correct the line that it names")) from None
    if not isinstance(raw, dict):
        raise Refusal(Finding(path.name, "is not a recipe: expected keys and values", _keys()))
    try:
        return Recipe(**{str(key): value for key, value in raw.items()})
    except ValidationError as error:
        raise Refusal(*(_finding(path.name, dict(each)) for each in error.errors())) from None


class _NoDuplicates(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice: YAML would keep the last one in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"`{key}` is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _finding(file: str, error: dict[str, Any]) -> Finding:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return Finding(file, f"unknown key `{key}`", _keys())
    if error["type"] == "missing":
        return Finding(file, f"the key `{key}` is missing", _keys())
    message = error["msg"].removeprefix("Value error, ")
    return Finding(file, f"{key}: {message}", f"correct `{key}` in {file}")


def _keys() -> str:
    return f"a recipe has: {', '.join(Recipe.model_fields)}"
