"""A recipe: which model at which revision, which image, which flags and environment.

What readers of all formats make (operations/plan/formats), and what everything behind them works with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from operations.plan.config.knobs import Topology
from operations.plan.config.refusal import Remark
from operations.plan.recipes import patterns as patterns_of
from operations.wire import Json
from operations.wire.model import Place

#: Environment that is the plan's: computed from each node's own links, left to be found there (a GID's index differs by
#: node and drifts), what a start is judged by, or what keeps others out of a cluster's Ray. How an engine is told its
#: address is its class's to say. NCCL_IB_DISABLE is a recipe's: it says whether, not by which way.
OWNED_ENV = (
    *("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_IB_HCA", "MASTER_ADDR"),
    *("NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_SOCKET_FAMILY", "NCCL_OOB_NET_ENABLE", "NCCL_OOB_NET_IFNAME"),
    *("NCCL_IB_GID_INDEX", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM"),
    *("NCCL_IB_MERGE_NICS", "NCCL_IB_SUBNET_AWARE_ROUTING", "NCCL_IB_SUBNET_PREFIX_LEN", "NCCL_CROSS_NIC"),
    *("NCCL_COMM_ID", "NCCL_HOSTID", "NCCL_CONF_FILE", "NCCL_DEBUG_FILE"),
    *("VLLM_GPU_NIC_PCIE_MAPPING", "VLLM_NIC_SELECTION_VARS", "NVSHMEM_HCA_LIST", "NVSHMEM_IB_GID_INDEX"),
    *("UCX_NET_DEVICES", "UCX_IB_GID_INDEX", "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include"),
    *("MN_IF_NAME", "NODE_IP", "RAY_ADDRESS", "HF_HUB_CACHE"),
    *("RAY_NODE_IP_ADDRESS", "RAY_OVERRIDE_NODE_IP_ADDRESS"),
    *("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ENABLE_K8S_TOKEN_AUTH"),
    *("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT"),
)
#: A repository on the Hub, whose parts are never `.` or `..`. No `\w`: it is more to Python than to pydantic.
REPOSITORY = "[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*"
#: What clients call a model.
SERVED_NAME = r"[\w./:+-]+"
#: Stands in a flag's value where the path of the model's snapshot in the container will be.
MODEL = "{model}"

EngineName = Literal["vllm", "tensorrt-llm", "sglang", "llama-cpp"]
#: What clients can ask for: tokens, vectors, an order of documents, or what only the engine itself would answer.
Answers = Literal["chat", "embedding", "rerank", "classify", "reward", "transcription"]
#: What is fetched of a repository: a model, one in GGUF, a LoRA adapter, or what it has beside weights (a tokenizer, a
#: template).
Kind = Literal["model", "gguf", "adapter", "files"]
#: Of a recipe, what says nothing about what is served.
TOLD = frozenset({"figures", "known", "gated", "newer"})


class Strict(BaseModel):
    """Unknown keys are refused, nothing is changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Model(Strict):
    """A model on the Hub, at one commit; `revision` None: the knob `model_revision` has to say it.

    The facts below are for the lint: `weights_gib` GiB on disk, `mtp`: whether the checkpoint has layers for
    multi-token prediction, `block_size`: tokens of a Mamba block in a hybrid at the recipe's context length, `kv_kib`:
    KiB that a token takes in a KV cache of 16 bits.
    """

    repo: Annotated[str, Field(pattern=rf"^{REPOSITORY}$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    # Files of the repository that are not fetched, as patterns.
    ignore: tuple[str, ...] = ()
    # Those that are fetched, as patterns; none: all.
    files: tuple[Annotated[str, Field(pattern=r"^[^\s/][^\s]*$")], ...] = ()
    weights_gib: Annotated[float, Field(gt=0)] | None = None
    mtp: bool | None = None
    block_size: Annotated[int, Field(gt=0)] | None = None
    kv_kib: Annotated[float, Field(gt=0)] | None = None
    # Follows from the engine, of a further model from the flags that name it.
    kind: Kind = "model"

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

    @property
    def at(self) -> str:
        """Its repository's folder and its commit."""
        return f"{self.folder}@{self.revision or 'none'}"

    @property
    def key(self) -> str:
        """What node programs call it in answers: `models--ORG--NAME@REVISION` (or `@none`), and its files' patterns,
        since two quants may be of one revision.
        """
        return " ".join((self.at, *self.files))

    @property
    def place(self) -> Place:
        """Where it lies in a store and what it must have, as programs on nodes take it."""
        # One without a revision gets no further than the survey.
        return {
            "folder": self.folder,
            "revision": self.revision or "none",
            "kind": self.kind,
            "only": list(self.files),
        }


class Needs(Strict):
    """What a node must have. GiB; 0 and absent: the recipe does not say."""

    gpu: bool = True
    memory_gib: dict[Topology, float] = {}
    model_disk_gib: float = 0
    image_disk_gib: float = 0


class Forbidden(Strict):
    """A line that must not be in the engine's log, and what it means when it is."""

    pattern: str
    meaning: str


class Proof(Strict):
    """What the engine's log and answers must show before a deploy calls it good. Patterns are Python's `re`."""

    expect: tuple[str, ...] = ()
    forbid: tuple[Forbidden, ...] = ()
    # True: an answer without reasoning in its own field is wrong. None: decided by whether there is a parser.
    reasoning: bool | None = None
    # False: the model's text is noise, do not judge it.
    text: bool = True

    @field_validator("expect", "forbid")
    @classmethod
    def _patterns(cls, patterns: tuple[Any, ...]) -> tuple[Any, ...]:
        for each in patterns:
            text = each.pattern if isinstance(each, Forbidden) else each
            if why := patterns_of.fault(text):
                raise ValueError(f"`{text[:100]}` {why}")
        return patterns


class Figure(Strict):
    """A published figure: tokens a second of all answers together. `source` is one of docs/sources.md."""

    topology: Topology
    users: Annotated[int, Field(ge=1)]
    tokens_per_second: Annotated[float, Field(gt=0)]
    source: Annotated[str, Field(pattern=r"^[A-Z]{1,2}$")]


class Flag(Strict):
    """One flag of the engine's command line: its name in one spelling, and its words as they were written."""

    name: str
    words: tuple[str, ...]

    @property
    def value(self) -> str | Literal[True]:
        """What is given; True: the bare flag."""
        first, equals, rest = self.words[0].partition("=")
        if equals and first.startswith("-"):
            return rest
        return " ".join(self.words[1:]) if len(self.words) > 1 else True


def flag(name: str, value: Any, several: Container[str] = ()) -> Flag | None:
    """A flag from a recipe's mapping: true is the bare flag, false is none, mappings and lists are JSON.

    `several`: flags for which a list is as many words.
    """
    if value is False:
        return None
    words = [f"--{name}"]
    if isinstance(value, list) and value and canonical(name) in several:
        words += [json.dumps(each) if isinstance(each, Mapping | list | bool) else str(each) for each in value]
    elif isinstance(value, Mapping | list):
        words.append(json.dumps(value, separators=(",", ":")))
    elif value is not True:
        words.append(str(value))
    return Flag(name=canonical(name), words=tuple(words))


def canonical(name: str) -> str:
    """A flag's name without dashes in front, one spelling for `max_num_seqs` and `max-num-seqs`."""
    return name.lstrip("-").partition("=")[0].partition(".")[0].replace("_", "-")


class Recipe(Strict):
    """One recipe. `flags` keep their order: that is the order on the command line."""

    name: Annotated[str, Field(pattern=r"^[\w.+-]+$")]
    description: str
    source: str
    format: Literal["tandem", "eugr", "sparkrun"] = "tandem"
    engine: EngineName
    # The version of the engine in the image, where it is known: what its words are judged by before the image is asked.
    engine_version: Annotated[str, Field(pattern=r"^\d+(\.\d+)+(rc\d+)?$")] | None = None
    # A name in a registry, best with its digest, or `build:files/images/NAME`.
    image: str
    # Folders in files/mods (or paths), applied to the image once, when it is obtained.
    mods: tuple[str, ...] = ()
    # Mods that the recipe names and that are not here: it can't be deployed without them.
    absent_mods: tuple[str, ...] = ()
    # Names of those among them that are run at each start of the container; see operations/plan/recipes/mod_acts.py.
    start_mods: tuple[str, ...] = ()
    # Seconds between two times that the node drops its page cache while the engine runs, as a mod would; 0: never.
    drop_caches_s: Annotated[int, Field(ge=0)] = 0
    model: Model
    # What flags name beside it by its repository: a draft, adapters, another tokenizer. Fetched and proven like it.
    further_models: tuple[Model, ...] = ()
    # What it is asked for; where a file does not say it, the engine's class tells it by the flags.
    answers: Answers = "chat"
    served_name: Annotated[str, Field(pattern=rf"^{SERVED_NAME}$")]
    topologies: Annotated[tuple[Topology, ...], Field(min_length=1)]
    # Nodes that a cluster must have at least.
    min_nodes: Annotated[int, Field(ge=1)] = 1
    # Stages of a pipeline that it was written for in a cluster; the knob `pipeline_parallel` has the last word.
    pipeline_parallel: Annotated[int, Field(ge=1)] = 1
    needs: Needs = Needs()
    load_minutes: Annotated[float, Field(gt=0, le=10_080)]
    # What others measured, and what is known against the release in the image, each in one line with its source: for
    # the table in docs/recipes.md.
    figures: tuple[Figure, ...] = ()
    known: tuple[str, ...] = ()
    # The recipe that is taken today in its place, where this one is of before: it stays for who has proven it.
    newer: str = ""
    # Whether the Hub gives the model only to a login that has accepted its terms; None: nobody has looked.
    gated: bool | None = None
    # Whose NCCL the ranks of a cluster load: the one of torch's wheel, or the system's in the same image ([M]).
    nccl: Literal["wheel", "system"] = "wheel"
    env: dict[str, str] = {}
    # How the engine is called where it is not by its own name (`/opt/venv/bin/vllm serve`).
    program: tuple[str, ...] = ()
    # Variables whose value the shell in the container fills in (`/usr/local/cuda/bin:$PATH`).
    exports: dict[str, str] = {}
    # Words of flags with variables that the same shell fills in.
    shell: tuple[str, ...] = ()
    # Scripts that a shell in the container runs before the engine, at each start.
    hooks: tuple[str, ...] = ()
    # Folders that the engine expects to be there.
    folders: tuple[str, ...] = ()
    flags: tuple[Flag, ...] = ()
    # TensorRT-LLM: the file of extra LLM API options.
    config: Json | None = None
    # Files beside the recipe that flags name (a chat template, a parser's plugin): name -> content.
    attached: dict[str, str] = {}
    proof: Proof = Proof()
    remarks: tuple[Remark, ...] = ()
    # Of a plan that is gone back to: role of an image -> the local name under which it is still there. It is taken as
    # it is, whatever has become of its source.
    kept_images: dict[str, str] = {}

    @field_validator("env", mode="before")
    @classmethod
    def _env(cls, env: Any) -> Any:
        if isinstance(env, dict):
            for name, value in env.items():
                if name in OWNED_ENV:
                    raise ValueError(f"`{name}` is set by the plan, for each node; remove it")
                if not isinstance(value, str):
                    raise ValueError(f"`{name}` is {value!r}: quote it, so that it is the text that you mean")
                if name == "NCCL_IB_DISABLE" and value not in ("", "0", "1"):
                    raise ValueError(f"`{name}` is {value!r}: expected '1' for TCP, or '0' for RDMA")
                if not re.fullmatch(r"[A-Za-z_]\w*", str(name)) or "\n" in value:
                    raise ValueError(f"`{name}` can't be passed as environment: a name, and one line of text")
        return env

    @property
    def models(self) -> tuple[Model, ...]:
        """All that the engine loads from the store, the served one first."""
        return (self.model, *self.further_models)

    @property
    def weights_gib(self) -> float | None:
        """GiB of all weights, where those of the served model are known."""
        first, *others = (each.weights_gib for each in self.models)
        return None if first is None else first + sum(each or 0 for each in others)

    @property
    def flag_argv(self) -> list[str]:
        """The recipe's own part of the engine's command line."""
        return [word for each in self.flags for word in each.words]

    def flag(self, name: str) -> str | bool | None:
        """What a flag is set to, the last one of a name; True: bare; None: absent."""
        return next((each.value for each in reversed(self.flags) if each.name == name), None)

    def memory_gib(self, topology: Topology) -> float:
        """MemAvailable that a node must have before the engine starts, GiB; 0: the recipe does not say."""
        return self.needs.memory_gib.get(topology, self.needs.memory_gib.get("solo", 0.0))
