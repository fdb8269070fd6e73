"""What the doctor sees on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from operations.wire.fabric import Links
from operations.wire.look import CertificateLeft, Listener

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


class Gpu(TypedDict):
    """A GPU in nvidia-smi's words: percent, MHz, W, °C; None: it does not tell. `reasons` are NVML's bits."""

    name: str
    driver: str
    pstate: str
    utilization: float | None
    sm_mhz: float | None
    power_w: float | None
    celsius: float | None
    reasons: int


class Gpus(TypedDict):
    """`counters`: why they were held back -> seconds since the driver was loaded."""

    gpus: list[Gpu]
    counters: dict[str, float]


class GpuProcess(TypedDict):
    """Who computes on a GPU; `mib` is None where it is not told."""

    pid: str
    process: str
    mib: float | None


class GpuLoad(TypedDict, total=False):
    """A GPU at work (operations/node/doctor/gpu_load.py): `by` the engine, or our `own` program, or empty and `why`."""

    by: str
    why: str
    samples: list[Gpu]
    tflops: float


class KernelEvent(TypedDict):
    """A kind of line in the kernel's log, how often, and the last of them."""

    kind: str
    case: str
    count: int
    last: str


class KernelLog(TypedDict):
    """The last 24 hours; `cut`: there was more than could be read."""

    readable: bool
    events: list[KernelEvent]
    cut: bool


class ClockService(TypedDict):
    """Who keeps the clock; `synchronized` is the kernel's word, None where nobody could be asked."""

    running: list[str]
    stopped: list[str]
    spared: list[str]
    synchronized: bool | None


class Now(TypedDict):
    """Seconds since 1970."""

    now: float


class Skew(TypedDict):
    """A node's clock against this machine's, in seconds, and how far that may be wrong."""

    offset_s: float
    doubt_s: float


class Room(TypedDict):
    """A file system: GiB, free inodes as a share, and whether it takes no writes."""

    path: str
    gib: float
    free_gib: float
    inodes_free: float
    read_only: bool


class Health(TypedDict, total=False):
    """An NVMe: `warning` are its bits, `used_percent` of its life. Empty: it does not tell."""

    warning: int
    used_percent: int
    spare_percent: int
    media_errors: int
    celsius: int


class DiskHealth(Health):
    """The same, with its name."""

    disk: str


class Reading(TypedDict, total=False):
    """How fast a disk reads a model: 10^9 bytes a second. Empty: no file, or no way around the cache."""

    gb_s: float
    file: str
    disk: str


class Disk(TypedDict):
    """`health` is None without a tool to ask with."""

    room: list[Room]
    health: list[DiskHealth] | None
    read: Reading


class Zone(TypedDict):
    """A thermal zone, °C."""

    name: str
    celsius: float


class Heat(TypedDict):
    """Every zone that tells."""

    zones: list[Zone]


class Swap(TypedDict):
    """A swap in GiB."""

    name: str
    gib: float
    used_gib: float


class MemoryGib(TypedDict):
    """GiB; `cache_gib`: what the kernel could give back."""

    total_gib: float
    available_gib: float
    cache_gib: float
    swaps: list[Swap]


class PcieLink(TypedDict):
    """Speed and lanes."""

    gt_s: float
    width: float


class Port(TypedDict, total=False):
    """A port that can be a rail; None: no carrier, or not on PCIe. `errors`: broken frames that it has received."""

    mbit_s: int | None
    pcie: PcieLink | None
    pcie_max: PcieLink | None
    firmware: str
    driver: str
    errors: int


class Holders(TypedDict):
    """Who else holds ports that Tandem wants, and the GPU."""

    ports: list[Listener]
    gpu: list[GpuProcess]


class Nccl(TypedDict, total=False):
    """Versions that an image has, and which one is loaded (`file`, bytes). Empty: no image; or `error`."""

    wheel: str
    system: str
    version: str
    file: str
    size: int
    error: str


class Software(TypedDict):
    """Versions; an empty text: not known. `nightly`: packages whose renewal, at night and unasked, restarts Docker."""

    system: str
    kernel: str
    driver: str
    bios: str
    product: str
    docker: str
    store: str
    nightly: list[str]
    nccl: Nccl


class Prefix(TypedDict):
    """Tokens of prompts that an engine's prefix cache was asked for since its start, and those that it had."""

    url: str
    asked: int
    found: int


class DoctorLook(TypedDict, total=False):
    """Each topic by its name (operations/node/doctor/look.py). One that could not be looked at is `{"failed": why}` in
    the place of its own shape: read it by Seen's methods, which leave such topics out.
    """

    gpu: Gpus
    kernel_log: KernelLog
    clock: ClockService
    disk: Disk
    heat: Heat
    memory: MemoryGib
    links: Links
    networks: dict[str, list[str]]
    ports: dict[str, Port]
    holders: Holders
    software: Software
    certificate: CertificateLeft
    prefixes: list[Prefix]


#: On `device` a frame has come in that `node` has sent out of its port `from`.
HeardFrame = TypedDict("HeardFrame", {"device": str, "node": str, "from": str})


class Cables(TypedDict):
    """Ports that take part, and whose frames they have heard."""

    ports: list[str]
    heard: list[HeardFrame]


class Stream(TypedDict):
    """What a rail carries one `way` (out, in), in Gbit/s, or the `problem`."""

    device: str
    address: str
    way: str
    gbit_s: NotRequired[float]
    problem: NotRequired[str]


class Streams(TypedDict, total=False):
    """What operations/node/doctor/streams.py measures; a server has only an `error` to tell."""

    streams: list[Stream]
    error: str


class Rdma(TypedDict, total=False):
    """What a rail carries by RDMA in Gbit/s; `missing`: there is no tool; `ready`: of a server."""

    ready: bool
    gbit_s: float
    missing: bool
    problem: str


class Measured(TypedDict):
    """A stream or an RDMA test between two nodes, with both ports; `way` and `address` are a stream's."""

    node: str
    peer: str
    device: str
    peer_device: str
    address: NotRequired[str]
    way: NotRequired[str]
    gbit_s: NotRequired[float]
    problem: NotRequired[str]
    missing: NotRequired[bool]
    ready: NotRequired[bool]
