"""What Tandem asks of an engine: its command lines, its files, and which of its flags follow from the plan."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Executor, Knobs, Topology
from operations.plan.config.refusal import Remark
from operations.plan.engines.kept import Cache
from operations.plan.engines.loaders import Loader
from operations.plan.engines.named import Place
from operations.plan.engines.starts import Mark
from operations.plan.recipes.lint.subject import Subject
from operations.plan.recipes.recipe import Answers, Forbidden, Kind, Recipe

#: Tokens of the longest prompt, where a recipe does not say.
CONTEXT_TOKENS = 262_144


@dataclass(frozen=True)
class Signs:
    """What an engine says of its own work: what `pattern` finds in the answer to GET `path` changes while it works.

    It must not change when only somebody asks, or when requests arrive at an engine that hangs.
    """

    path: str
    pattern: str


@dataclass(frozen=True)
class Question:
    """What an engine is asked to show that it works: POST `body` and the served name to `path`, of the engine as of the
    proxy; `pattern` is found in a good answer.
    """

    path: str
    body: Mapping[str, Any]
    pattern: str


@dataclass(frozen=True)
class Memory:
    """What a recipe's flags say of the memory that an engine takes; None, and empty: nothing.

    `share`: of a node's memory; `cache_bytes`: of the KV cache; `cache_type`: of its values; `requests`: at once;
    `context`: tokens of a question and its answer.
    """

    share: float | None = None
    cache_bytes: float | None = None
    cache_type: str = ""
    requests: int | None = None
    context: int | None = None


@dataclass(frozen=True)
class Demand:
    """What a start finds free of a node's memory, or ends: `gib` GiB, and `share` of the whole; 0: nothing."""

    gib: float = 0.0
    share: float = 0.0

    def of(self, total_gib: float) -> float:
        """GiB on a node that has so many in all."""
        return max(self.gib, self.share * total_gib)


@dataclass(frozen=True)
class Sparkrun:
    """How sparkrun calls an engine, and what it makes of a recipe's `defaults` where that has no command.

    `runtimes`: patterns of its names; `flags` and `switches`: a key -> the flag's name; `on`: switches that the engine
    turns on by itself, so that false has to be said; `off`: a key -> the flag that is said where it is false; `valued`:
    flags for which true and false are the words `on` and `off`; `same`: a key that stands for another where that is
    absent; `image`: the one that it takes where a recipe names none; `builds`: names under which its owner builds one
    instead; `options`: keys that go into the engine's own file (`config`), each with its section there, which may be
    empty, and its name; `otherwise`: a key that it makes a flag of all the same -> its value. Source of images:
    `_DGX_SPARK_DEFAULTS` in sparkrun/platforms/dgx_spark.py ([F]).
    """

    runtimes: tuple[str, ...]
    flags: Mapping[str, str]
    switches: Mapping[str, str]
    on: Collection[str] = ()
    off: Mapping[str, str] = field(default_factory=dict)
    valued: Collection[str] = ()
    same: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    builds: Collection[str] = ()
    options: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    otherwise: Mapping[str, str] = field(default_factory=dict)

    def image_of(self, runtime: str) -> str:
        """The image of a recipe that names none, by what it calls its runtime; empty: there is none."""
        return "" if runtime in self.builds else self.image

    @property
    def known(self) -> tuple[str, ...]:
        """All keys of `defaults` that it makes something of."""
        return (*self.flags, *self.switches, *self.off, *self.options)


@dataclass(frozen=True)
class Weights:
    """Whose files another tool's recipe wants: a repository, or a path, by the `command` and as `named` beside it;
    `files`: patterns of those that are the model's, empty: all.
    """

    command: str
    named: str
    files: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()


class Engine(Protocol):
    """One serving program. What most have not has a default here: an engine says only in what it differs."""

    #: What it is called in sentences.
    TITLE: str
    #: How it is called in a container, where a recipe does not call it otherwise.
    PROGRAM: tuple[str, ...]
    #: What LiteLLM calls engines of its kind, in front of a model's name: this one is for all that speak like OpenAI's.
    LITELLM_PREFIX: str = "hosted_vllm"
    #: What is asked of it, by what it is there for; it can't be proven to give any other kind of answer.
    QUESTIONS: Mapping[Answers, Question] = {}
    #: Why that is so of another kind, where it is this engine's matter.
    UNPROVEN: Mapping[Answers, str] = {}
    #: By which the canary knows that it works.
    SIGNS: Signs
    #: Topologies that it can take part in here.
    TOPOLOGIES: tuple[Topology, ...]
    #: Why it takes part in no cluster here; empty: it does.
    ALONE: str = ""
    #: What the files of a model that it serves are proven by.
    WEIGHTS: Kind
    #: Its Python package: its images have Python, and the Hub's client in it. Empty: they have not.
    PACKAGE: str = ""
    #: Whether it takes all of its memory at its start: what its model's files and its flags say, whatever is free.
    HELD: bool = False
    #: Whether a cluster's ranks can be stages of a pipeline.
    PIPELINES: bool = False
    #: Architectures (as models' config.json have them) that it can't put into stages, as a pattern; empty: none.
    STAGELESS: str = ""
    #: What can join its ranks in a cluster.
    EXECUTORS: tuple[Executor, ...] = ()
    #: Flags (canonical names) that follow from the plan, each with what says it instead.
    OWNED: Mapping[str, str]
    #: Those among them that other tools' recipes may have: the plan's own stand in their place, and nothing is wrong.
    IGNORED_FOREIGN_FLAGS: Collection[str] = ()
    #: An owned flag -> the flag beside which it has another meaning, and is the recipe's own.
    OWN_BESIDE: Mapping[str, str] = {}
    #: Those among them that are followed by another number of words than one.
    TAKES: Mapping[str, int] = {}
    #: The flag that says over how many GPUs the model is split (empty: none does), and those that count GPUs in other
    #: ways, the one for pipeline stages first.
    SPLIT: str = ""
    COUNTED: tuple[str, ...] = ()
    #: The flags that say how many requests it takes at once, and how many tokens a question and its answer may have.
    REQUESTS: str
    CONTEXT: str
    #: The flag that says which share of a node's memory it takes; empty: none says it.
    SHARE: str = ""
    #: Flags for which a list in a recipe is as many words; for others it is JSON.
    SEVERAL: Collection[str] = ()
    #: Short flags and the long names that they stand for.
    SHORT: Mapping[str, str] = {}
    #: Other long names of flags, and the ones that they stand for.
    SAME: Mapping[str, str] = {}
    #: Names of images whose tags are its releases.
    IMAGES: tuple[str, ...] = ()
    #: Folders in which its makers' images have programs and files of their own.
    PLACES: tuple[str, ...] = ()
    #: Those in the folder that these images start in: a flag may name a file there without a path.
    HERE: tuple[str, ...] = ()
    #: Variables that say a node's address to it: the plan's, for each node.
    ADDRESS: tuple[str, ...] = ()
    #: What sparkrun makes of it.
    SPARKRUN: Sparkrun
    #: Lines of its log on a GPU that mean that it must not go on.
    FORBIDDEN: tuple[Forbidden, ...] = ()
    #: Seconds that it is given to end when it is asked to: as long as it brings anything.
    STOP_S: int
    #: How the names of its metrics begin.
    METRICS: str
    #: What the panels of files/monitoring/panels.yml call its metrics -> the metrics; what is absent is not drawn.
    PANELS: Mapping[str, str] = {}
    #: Counters of ours (operations/node/look/bench_facts.py) -> its own, without `_total`, the newest name first.
    COUNTERS: Mapping[str, tuple[str, ...]] = {}
    #: What it keeps for its next start, and whether the ranks of a cluster must have the same.
    CACHES: tuple[Cache, ...] = ()
    #: The lines of its log by which its start is known, in the order in which they come.
    STARTS: tuple[Mark, ...]
    #: What the knob `loader` can name, what `auto` likes best first; and flags by which a recipe says its own.
    LOADERS: Mapping[str, Loader] = {}
    LOADS: tuple[str, ...] = ()
    #: Programs of files/engine that read its words out of an image, the one that is run last; none: it can't be asked.
    VOCABULARY: tuple[str, ...] = ()

    def arguments(self, words: Sequence[str]) -> list[str] | None:
        """What follows the program's name in a command line; None: it is another program's."""
        ...

    def program(self, called: Sequence[str]) -> list[str]:
        """The words in front of its arguments, where they have to be kept; empty: PROGRAM does as well."""
        return []

    def served_name(self, name: str) -> str:
        """What clients call a model for which a recipe of another tool says this."""
        return name

    def weights(self, served: str, named: str, owned: Mapping[str, str]) -> Weights:
        """Which files another tool's command wants. `served`: its model; `named`: the recipe's; `owned`: its flags that
        are the plan's here.
        """
        return Weights(served, named)

    def placed(self, recipe: Recipe, place: Place) -> list[str]:
        """The recipe's flags, with what `place` says for each model, adapter and file that they name."""
        ...

    def answers(self, recipe: Recipe) -> Answers:
        """What the recipe's flags, or else its model's name, say that clients can ask for."""
        ...

    def adapters(self, recipe: Recipe) -> tuple[str, ...]:
        """Names under which it serves adapters beside the model."""
        return ()

    def continues(self, recipe: Recipe) -> Mapping[str, Any] | None:
        """What a request has beside its messages by which it goes on with the last one, the beginning of an answer that
        another engine began; None: it can't.
        """
        return None

    def lacks(self, recipe: Recipe) -> Mapping[str, str]:
        """What clients can't ask of it as this recipe starts it (abilities.py), each with why."""
        ...

    def commands(self, recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> list[list[str]]:
        """What runs in the container of a node, in order; the last one stays."""
        ...

    def environment(self, recipe: Recipe, knobs: Knobs) -> dict[str, str]:
        """What the engine gets in every topology, under what the recipe says."""
        return {}

    def rank_environment(self, node: Node) -> dict[str, str]:
        """What it gets beside that in a cluster, on this node."""
        return dict.fromkeys(self.ADDRESS, node.fabric)

    def files(self, recipe: Recipe) -> dict[str, str]:
        """Files that it reads, by name; they lie beside start.sh."""
        return {}

    def docker(self, recipe: Recipe) -> list[str]:
        """Options of `docker run` that it needs on a GPU."""
        return ["--ulimit", "memlock=-1", "--cap-add", "IPC_LOCK"]

    def step_tokens(self, recipe: Recipe) -> int:
        """Tokens that it may compute between two signs of life; 0: its own default, which is small."""
        ...

    def context_tokens(self, recipe: Recipe) -> int:
        """Tokens of the longest prompt that it takes."""
        ...

    def drafts(self, recipe: Recipe) -> bool:
        """Whether tokens are drafted."""
        ...

    def memory(self, recipe: Recipe) -> Memory:
        """What the flags say of the memory that it takes."""
        ...

    def demand(self, recipe: Recipe, parts: int) -> Demand:
        """What it wants to find free on each of the nodes that share its weights, when it starts on a GPU."""
        ...

    def lint(self, of: Subject) -> Iterator[Remark]:
        """What is wrong with the recipe's words, beside what is wrong in every engine's."""
        yield from ()

    def judged_by(self, of: Subject) -> str:
        """By what they are judged while its image has not been asked."""
        ...


def count(value: object) -> int:
    """A number of tokens as flags have it: 8192, `128k` (thousands), `128K` (1024s); 0: no number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", str(value))
    units = {"": 1, "k": 1000, "m": 1000**2, "K": 1024, "M": 1024**2}
    return int(float(found[1]) * units[found[2]]) if found else 0


def size(value: object) -> float | None:
    """Bytes, or tokens, as flags have them: `24G` is binary, `24g` decimal; None: no number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtKMGT]?)", str(value or ""))
    units = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    return float(found[1]) * units[found[2]] if found else None


def value_bytes(kind: str) -> float:
    """Bytes of a value in a KV cache of this type, as flags of engines call it; 2 where none is known by that name.

    llama.cpp's types keep 32 values in a block with a scale (ggml-common.h in its repository).
    """
    blocks = {"q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18, "iq4_nl": 18}
    if kind.startswith("fp8"):
        return 1.0
    return blocks[kind] / 32 if kind in blocks else 4.0 if kind == "f32" else 2.0


def share(value: object) -> float | None:
    """A share of memory as flags have it; None: it is none."""
    return float(str(value)) if re.fullmatch(r"[01]?\.\d+|[01]", str(value)) else None
