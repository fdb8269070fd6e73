"""What a node is and has: the survey before a deploy, and the look that every step compares with the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from operations.wire import Json
from operations.wire.fabric import Claimed, Links, NetplanEntry, Office, OfficeState, Shut
from operations.wire.kernels import Kernels
from operations.wire.model import ImageState, Layout, ModelState, Place, Vocabulary
from operations.wire.unit import Alone, Services

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


class FileState(TypedDict):
    """A file: hash of its content, mode in octal; `text` where that was asked for (operations/node/look/files.py)."""

    sha256: str
    mode: str
    text: NotRequired[str]


class SecretFolder(TypedDict):
    """A folder of secrets: the number of the user whose it is, and a path where it has to be."""

    path: str
    user: int
    where: NotRequired[str]


class Modes(TypedDict):
    """What is wrong with secrets (operations/node/secret/modes.py): what a deploy puts right, in words, and [problem,
    remedy] of what it leaves to the owner.
    """

    wrong: list[str]
    refused: list[list[str]]


class ProxyState(TypedDict):
    """What the proxy has read (operations/node/door/proxy.py): hashes of configurations, of HAProxy and by LiteLLM;
    those LiteLLM that are `older` than the key, and those that are sent nothing more.
    """

    loaded: str
    engines: dict[str, str]
    drained: list[str]
    page_is_older: bool
    older: list[str]


class Certificate(TypedDict, total=False):
    """What HAProxy shows (operations/node/door/certificate.py): hashes, names, its end in seconds since 1970. Or
    `asks`, the question to the authority alone, or its answer, `chain`.
    """

    hash: str
    names: list[str]
    ends: float
    authority: str
    own: str
    owners: list[str]
    newer: bool
    asks: str
    chain: str


class CertificateLeft(TypedDict, total=False):
    """Days until the certificate ends; empty: there is none."""

    days: float


class Problem(TypedDict):
    """Why something is not as planned; empty: it is."""

    problem: str


class FirewallState(Problem, total=False):
    """Tandem's firewall. `inside`: interfaces by which the rules in force let everything in; missing without rules."""

    inside: list[str]


class LookArguments(TypedDict):
    """What operations/node/look/look.py has to know; see there."""

    store: str
    models: dict[str, Place]
    archives: dict[str, str]
    paths: list[str]
    folders: list[SecretFolder]
    units: list[str]
    engines: list[str]


class Look(TypedDict):
    """Tandem's own state on a node (operations/node/look/look.py).

    `images` by local name, `files` by path, `links` by netdev, `models` by their keys; `slots`: ports of models, by
    name; `secrets`: path -> hash, or empty; `served`: id of the plan that served last; `starts`: spec of an engine ->
    seconds of its longest start; `missing`: packages; `refused`: apt was asked for them within a day; `kernels`: what
    engines have compiled.
    """

    services: Services
    images: dict[str, ImageState]
    files: dict[str, FileState]
    links: Links
    models: dict[str, ModelState]
    slots: dict[str, int]
    secrets: dict[str, str]
    modes: Modes
    served: str
    starts: dict[str, float]
    firewall: FirewallState
    proxy: ProxyState
    certificate: Certificate
    missing: list[str]
    refused: bool
    alone: Alone
    office: OfficeState
    kernels: Kernels


class Listener(TypedDict):
    """Who listens on a TCP port; `ours`: a program or a container of Tandem's."""

    port: int
    address: str
    process: str
    pid: str
    ours: bool


class Docker(TypedDict):
    """Docker's version, empty where it does not answer, its runtimes, and whether it builds by BuildKit (`buildx`)."""

    version: str
    runtimes: list[str]
    buildx: bool


class Firewall(TypedDict, total=False):
    """Whether nftables can be set, whether a rule can tell a socket by its control group; Docker's cgroup driver."""

    nft: bool
    groups: bool
    driver: str


class Memory(TypedDict):
    """MiB; `ollama_mib`: what an engine's start unloads; `min_free_kib`: what the kernel keeps free;
    `swapped_kib`: what is swapped out.
    """

    total_mib: int
    available_mib: int
    ollama_mib: NotRequired[int]
    min_free_kib: NotRequired[int]
    swapped_kib: NotRequired[int]


class Clocks(TypedDict):
    """How many GPUs nvidia-smi tells of, and the clocks that all of them have; None: it does not tell."""

    gpus: int
    lowest_mhz: float | None
    highest_mhz: float | None


class Free(TypedDict):
    """Free bytes where a path is or would be made; `device`: of the file system, which may be `read_only`; `kept`:
    bytes there already.
    """

    path: str
    free: int
    device: int
    read_only: bool
    kept: NotRequired[int]


class Disks(TypedDict):
    """Where a deploy writes."""

    store: Free
    docker: Free
    files: Free
    metrics: Free


class Survey(TypedDict, total=False):
    """What a node is and has (operations/node/look/survey.py). One without python3 or sudo says that, and nothing else.

    `management`: the address that the login came in on, `came_in_by` its netdev; `cdi`: engines get the GPU by a CDI
    specification; `gpu`: [problem, remedy] of what keeps an engine from it, `strangers`: of other programs on it;
    `saw_gpu`: with what the images' containers have seen it, by their local names; `unwritable`: where the login can't
    make the store; `deaf`: receivers of alarms that take no connection; `archives` and `source`: what is wrong with
    them; `clocks`: where they are asked for; `foreign`: places that are not the login's; `vocabulary` and `inside` by
    the images' local names; `mtp`, `layout` by the models' keys; `main`: repo -> commit; `shut`: what the owner's
    firewall would not let in.
    """

    python: bool
    sudo: bool
    home: str
    management: str
    came_in_by: str
    office: Office
    claimed: Claimed | None
    deaf: list[str]
    ssh_port: int
    machine: str
    kernel: str
    openssl: bool
    shut: list[Shut]
    firewall: Firewall
    docker: Docker
    software: dict[str, str]
    nvidia: str
    cdi: bool
    clocks: Clocks | None
    gpu: list[list[str]]
    strangers: list[list[str]]
    saw_gpu: dict[str, Json]
    unwritable: str
    memory: Memory
    disks: Disks
    ports: list[Listener]
    netplan: list[NetplanEntry]
    archives: dict[str, str]
    source: list[str]
    token: str
    foreign: list[str]
    lock: str
    vocabulary: dict[str, Vocabulary]
    inside: dict[str, dict[str, str]]
    mtp: dict[str, bool | None]
    layout: dict[str, Layout]
    main: dict[str, str]
    state: Look
