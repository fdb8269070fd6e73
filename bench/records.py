"""What a run folder holds, and nothing that can be computed from it.

    run.json         one `Run`: what was measured, on what
    requests.jsonl   one `Request` a line, as they ended
    steps.jsonl      one `Step` a line, written when all of its requests are: a run goes on behind the last

Times are seconds. A step's own clock (monotonic) begins with the step; `began` alone is the world's (Unix time).
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

#: Of the folder: it changes when an older reader would read it wrongly.
FORMAT = 1
#: The last part of the name of a step in which answers that are known are asked for under load.
KNOWN = "known"


class Record(BaseModel):
    """A line or file of the folder: what it does not know is an error, because a figure would be wrong without it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeState(Record):
    """A node around a step; None: the node can't say."""

    clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    #: Since the node's start.
    energy_j: float | None = None
    #: MemAvailable, of the whole node.
    available_gib: float | None = None


class Counters(Record):
    """What an engine counted during a step: the differences of its own counters (vLLM's /metrics)."""

    prompt_tokens: int
    answer_tokens: int
    #: None: it counts none.
    requests: int | None = None
    #: Prompt tokens that were looked for in the prefix cache, and those that were found; None: it has none.
    prefix_asked: int | None = None
    prefix_found: int | None = None
    preemptions: int | None = None


class Request(Record):
    """One request as the client saw it."""

    step: str
    #: Which conversation of the step, and which turn of it, from 0; a profile of single requests has turn 0 alone.
    conversation: int
    turn: int = 0
    sent_s: float
    #: When the first token was there; None: none came.
    first_s: float | None = None
    done_s: float
    #: When each piece of the stream came that had text; a piece may hold several tokens.
    pieces_s: list[float] = Field(default_factory=list)
    #: The server's own counts (`usage`); None: it sent none.
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    cached_tokens: int | None = None
    #: Why there is no whole answer, in one line; empty: there is.
    error: str = ""
    #: Whether a known answer came back word for word; None: nothing is known of it.
    right: bool | None = None


class Step(Record):
    """So many users asking the same of one setup at once, once."""

    #: Unique in the run: `SETUP/TARGET/USERS/REPEAT`, for profiles of several prompts `/PROMPT` behind it, and `/known`
    #: where the answers are known.
    name: str
    setup: str
    #: `proxy`, or the node whose engine was asked directly.
    target: str
    users: int
    #: From 0.
    repeat: int
    #: Tokens as the profile wants them; None: they differ, see the requests.
    prompt_tokens: int | None
    answer_tokens: int | None
    began: float
    took_s: float
    #: How many requests it had: with fewer lines the folder was cut.
    requests: int
    #: By node (the one an engine's API is on), and by node.
    engines: dict[str, Counters] = Field(default_factory=dict)
    before: dict[str, NodeState] = Field(default_factory=dict)
    after: dict[str, NodeState] = Field(default_factory=dict)

    @property
    def which(self) -> str:
        """What stands behind the repeat in its name; empty where the profile has one prompt."""
        return self.name.removeprefix(f"{self.setup}/{self.target}/{self.users}/{self.repeat}").strip("/")

    @property
    def is_known(self) -> bool:
        """Whether its answers are known: it is no figure's."""
        return self.which == KNOWN


class Setup(Record):
    """One way to serve the model that was measured; `name` is `solo`, `cluster/mp`, `cluster/ray` or `replicas`; of
    a cluster in two stages `cluster/mp/pp2`.
    """

    name: str
    topology: str
    executor: str
    routing: str
    #: Of a cluster's pipeline.
    stages: int = 1
    #: How many nodes compute.
    nodes: int
    #: The plan's identity as the nodes keep it; empty where it did not come up.
    plan: str
    #: Why there is no figure (as the articles' "OOM"), in one line; empty: it came up.
    why_not: str = ""
    #: Seconds of the deploy, start of the engine included; None: it was deployed already.
    deploy_s: float | None = None
    #: Image by content, versions of engine and driver, the model's revision on disk, as text by name.
    versions: dict[str, str] = Field(default_factory=dict)


class Run(Record):
    """What was measured, and on what."""

    format: int = FORMAT
    profile: str
    seed: int
    repeats: int
    users: list[int]
    #: As the owner gave it, `ttft=2s tpot=100ms`; empty: no target.
    slo: str = ""
    recipe: str
    served_name: str
    model: str
    revision: str
    #: Tandem's commit or version; the client's versions and machine; as text by name.
    environment: dict[str, str] = Field(default_factory=dict)
    began: float
    #: Requests a second and pieces a second that the client managed against a server that costs nothing.
    client_requests_s: float | None = None
    client_pieces_s: float | None = None
    setups: list[Setup] = Field(default_factory=list)


class Folder:
    """A run's folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run, self.requests, self.steps = path / "run.json", path / "requests.jsonl", path / "steps.jsonl"
