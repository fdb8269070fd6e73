"""Models and images on a node, and how they get there."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired

from operations.wire import Json


class Place(TypedDict):
    """Where a model's files lie in a store and what they must have: its folder, its revision or `none`, its kind.

    `only`: patterns of those that are wanted, of a revision that may have more (other quants); none: all.
    """

    folder: str
    revision: str
    kind: str
    only: list[str]


class ModelFile(TypedDict):
    """A file of a revision: bytes, and the name of its blob (the Hub's hash of it, or empty)."""

    size: int
    blob: str


class ModelState(TypedDict):
    """A revision in a store (operations/node/model/proof.py). `files` by their names; `proven`: the content of all was;
    `touched`: names of those that were written to since.
    """

    present: bool
    problems: list[str]
    files: dict[str, ModelFile]
    proven: bool
    touched: list[str]


class ModelVerified(ModelState):
    """The same, where it lies, and how many seconds that took (operations/node/model/verify.py)."""

    path: str
    seconds: float


class Verified(TypedDict):
    """What `tandem verify` is told, in the order in which it has asked."""

    models: list[ModelVerified]


class Mended(TypedDict):
    """Names of files that were set aside (operations/node/model/mend.py)."""

    aside: list[str]


class ModelSource(TypedDict):
    """A folder that files shall come from; `plain`: they may lie in it as they are."""

    source: str
    plain: bool


class Hub(TypedDict, total=False):
    """Where the Hub is, and `unpinned`: repo -> folder of models whose revision is not known."""

    endpoint: str
    unpinned: dict[str, str]


class Layout(TypedDict, total=False):
    """What the ranks of a cluster are cut by (operations/node/model/facts.py); 0: it is not said."""

    heads: int
    layers: int
    architectures: list[str]


class Module(TypedDict):
    """Modules of one kind in a model's weights: how many, how they are quantised, bytes."""

    module: str
    method: str
    count: int
    bytes: int


class Audit(TypedDict, total=False):
    """What weights are made of, the largest first, in bytes; or `error` (operations/node/model/audit.py)."""

    rows: list[Module]
    quantised: int
    total: int
    error: str


class Identity(TypedDict, total=False):
    """An image that is here: Docker's id, the hash of its content (operations/node/image/content_id.py). Empty: it is
    not here.
    """

    id: str
    content: str
    architecture: str


class ImageState(TypedDict):
    """An image by its local name (operations/node/image/origin.py). `replaced`: its archive is another one by now."""

    image: Identity
    replaced: bool


class Package(TypedDict):
    """A package in an image. `place`: the folder of a Python one, where there are several."""

    name: str
    version: str
    architecture: NotRequired[str]
    place: NotRequired[str]


class Packages(TypedDict, total=False):
    """The packages in an image (files/sbom/packages.py), and which image (operations/node/image/packages.py); `system`
    is its os-release. Empty: it is not here; `error`: it can't be asked.
    """

    system: dict[str, str]
    deb: list[Package]
    apk: list[Package]
    python: list[Package]
    id: str
    content: str
    error: str


class FlagFacts(TypedDict, total=False):
    """What a flag of an engine takes (files/engine/arguments.py has the words); what is not known is left out."""

    takes: str
    choices: list[str]
    many: str
    none: bool
    bounds: dict[str, float]
    loose: bool
    short: list[str]


class Vocabulary(TypedDict, total=False):
    """What an image's engine understands (files/engine/vocabulary.py prints it, files/vocabularies has those of
    releases). None: it can't be read. `environment`: variables with their choices, or `int` or `float`.

    `asked`: the image's name, and `error`: it can't be asked, are operations/node/image/vocabulary.py's.
    """

    format: int
    version: str
    environment: dict[str, list[str] | str | None] | None
    flags: dict[str, FlagFacts] | None
    reasoning_parsers: list[str] | None
    tool_parsers: list[str] | None
    kernels: list[str] | None
    ray: bool
    asked: str
    error: str


class GpuTrial(TypedDict):
    """A start of an image that looks for the GPU (operations/node/image/gpu_trial.py): `names`, of which the first that
    is on the node is tried, flags of `docker run`, `exports`: lines of shell before it, `python`: whether the image
    has Python, `serving`: an engine runs beside it, and `by`: what the outcome hangs on.
    """

    names: list[str]
    flags: list[str]
    exports: str
    python: bool
    serving: bool
    by: Json


class GpuTold(TypedDict):
    """What came of it: `problem`, empty where the GPU was seen, with its remedy; or a remark, or nothing."""

    problem: str
    remedy: str
    remark: str


class Copied(TypedDict, total=False):
    """A line of a program that copies: `bytes` of so many (0: not known) in so many seconds, `rate` bytes a second of
    late, `still` seconds since the last one, and what it waits for (operations/node/copy/meter.py); in the last one
    `done` or `error`. `said`: what the owner has to know meanwhile.
    """

    bytes: int
    of: int
    seconds: float
    rate: float
    still: float
    limit: str
    said: str
    done: bool
    error: str


class Worker(TypedDict):
    """Where a worker hands on what it has: rails' addresses, a port, and its number among the workers."""

    addresses: list[str]
    port: int
    part: int


class Ready(TypedDict, total=False):
    """The first line of a server: it listens, on these `ports` where the system has chosen them, or why not."""

    ready: bool
    ports: list[int]
    error: str
