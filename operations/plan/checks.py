"""What a survey of a node says against a deploy. Pure: survey in, findings out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from operations.plan import node_kinds as kinds
from operations.plan.cluster import fabric_checks
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel, on
from operations.plan.config.kind import Findings
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding
from operations.plan.recipes.images import Image
from operations.plan.services import demand, tuning
from operations.plan.services.ports import listens
from operations.wire.look import Free, Listener, Survey
from operations.wire.model import ModelState

GIB = 1 << 30
#: GiB that a start or a deploy writes itself: Docker's files of a container, units, programs.
SPARE_GIB = 0.1
#: GiB that Prometheus' and Alertmanager's packages unpack to, with what they need.
PACKAGES_GIB = 0.3
#: Kernels that are known to fail with ConnectX-7 or the GPU, and what to run instead.
BAD_KERNELS = {
    "7.0.0-1019-nvidia": "it reserves 9 GiB for kexec and RDMA registration fails; boot with kho=off, or 6.17.0-1032",
    "6.17.0-1008-nvidia": "it panics under load; 6.17.0-1032 does not",
}


def check_survey(
    node: Node, survey: Survey, head: Survey, models: Sequence[ServedModel], knobs: Knobs, count: int
) -> list[Finding]:
    """Everything that stands in the way on one node. `models`: all of the plan; `count`: nodes of the inventory."""
    if not survey.get("python", True):
        return [kinds.NO_PYTHON.finding(node.name)]
    if not survey.get("sudo"):
        return [kinds.SUDO_PASSWORD.finding(node.name, node=node.name)]
    here = on(models, node.name)
    if not here and not node.is_head:
        # It only has to be rid of what an older plan has left there.
        return []
    checks = (
        _machine(survey, head, here),
        _firewall(survey),
        _gpu(survey, here),
        demand.check(survey, here, tuning.kept_gib(survey, knobs), knobs.memory_floor_gib),
        tuning.check(survey, knobs),
        # The head obtains every model's files and images: the others get them from there.
        _room(node, survey, models if node.is_head else here, knobs),
        _store(survey, knobs),
        _built(survey, models if node.is_head else ()),
        _ports(node, survey, knobs, count, here),
        fabric_checks.check(node, survey, here, knobs),
        _sources(node, survey, knobs),
        _secrets(survey),
        _tls(survey, knobs),
    )
    return [Finding(node.name, *said) for check in checks for said in check]


def _machine(survey: Survey, head: Survey, models: Sequence[ServedModel]) -> Findings:
    if survey["machine"] != head.get("machine"):
        yield kinds.OTHER_MACHINE.said(machine=survey["machine"], head=head.get("machine"))
    if any(each.recipe.needs.gpu for each in models) and survey["kernel"] in BAD_KERNELS:
        yield kinds.BAD_KERNEL.said(kernel=survey["kernel"], remedy=BAD_KERNELS[survey["kernel"]])
    if not survey["docker"]["version"]:
        yield kinds.DOCKER_SILENT.said()


def _firewall(survey: Survey) -> Findings:
    if not survey["firewall"]["nft"]:
        yield kinds.NO_NFTABLES.said()


def _tls(survey: Survey, knobs: Knobs) -> Findings:
    if knobs.tls != "off" and not survey["openssl"]:
        yield kinds.NO_OPENSSL.said(tls=knobs.tls)


def _secrets(survey: Survey) -> Findings:
    for problem, remedy in survey["state"]["modes"]["refused"]:
        yield kinds.SECRETS_OPEN.said(problem=problem, remedy=remedy)


def _gpu(survey: Survey, models: Sequence[ServedModel]) -> Findings:
    if not any(each.recipe.needs.gpu for each in models):
        return
    if not survey["nvidia"]:
        yield kinds.NO_DRIVER.said()
    if "nvidia" not in survey["docker"]["runtimes"] and not survey["cdi"]:
        yield kinds.NO_RUNTIME.said()
    # The driver, and who else computes (operations/node/machine/on_gpu.py).
    yield from (kinds.DRIVER_FAILS.said(problem=problem, remedy=remedy) for problem, remedy in survey["gpu"])
    if not demand.is_serving(survey):
        yield from strangers(survey)


def strangers(survey: Survey) -> Findings:
    """Other programs on the GPU: they keep an engine from its start, and are a remark beside one that runs."""
    yield from (kinds.GPU_TAKEN.said(problem=problem, remedy=remedy) for problem, remedy in survey.get("strangers", []))


def _room(node: Node, survey: Survey, models: Sequence[ServedModel], knobs: Knobs) -> Findings:
    wanted: dict[int, tuple[str, float]] = {}
    shut = {disk["device"]: disk["path"] for disk in _written(survey) if disk["read_only"]}
    yield from (kinds.READ_ONLY.said(path=path) for path in shut.values())
    missing = {each.image.local: each.recipe for each in models if not _has(survey, each.image)}
    disks = survey["disks"]
    for name, disk, size in (
        ("store", disks["store"], sum(still_to_come(models, survey["state"]["models"]))),
        (
            "docker",
            disks["docker"],
            sum(recipe.needs.image_disk_gib for recipe in missing.values()) if missing else SPARE_GIB,
        ),
        ("files", disks["files"], SPARE_GIB),
        *(
            [("metrics", disks["metrics"], _metrics_gib(survey, knobs))]
            if knobs.runs_prometheus and node.is_head
            else []
        ),
    ):
        path, so_far = wanted.get(disk["device"], (disk["path"], 0.0))
        wanted[disk["device"]] = (path, so_far + size)
        if wanted[disk["device"]][1] * GIB > disk["free"]:
            need_gib = wanted[disk["device"]][1]
            shared = disk["device"] == survey["disks"]["store"]["device"]
            more = ", `tandem models` all models; or point model_store at another disk" if shared else ""
            more += ", or lower monitoring_gib" if name == "metrics" else ""
            yield kinds.NO_ROOM.said(path=disk["path"], free_gib=disk["free"] / GIB, need_gib=need_gib, more=more)


def _written(survey: Survey) -> tuple[Free, ...]:
    """Where every deploy writes."""
    disks = survey["disks"]
    return disks["store"], disks["docker"], disks["files"]


def _store(survey: Survey, knobs: Knobs) -> Findings:
    """Before the first byte is fetched: an image would come, and a model would not."""
    # Where nobody can write it is no matter of owners.
    if (place := survey["unwritable"]) and not survey["disks"]["store"]["read_only"]:
        remedy = f'sudo chown -R "$USER": {place}'
        if not survey["disks"]["store"]["path"].startswith(f"{survey['home']}/"):
            remedy = f'sudo mkdir -p {knobs.model_store} && sudo chown "$USER": {knobs.model_store}'
        yield kinds.STORE_SHUT.said(place=place, store=knobs.model_store, remedy=remedy)


def _built(survey: Survey, models: Sequence[ServedModel]) -> Findings:
    """Ubuntu's docker.io comes without BuildKit's client; its older builder knows no `RUN --mount`."""
    missing = [each.image.base for each in models if not _has(survey, each.image) and each.image.base.kind == "build"]
    wants = any(b"RUN --mount" in content for image in missing for _, content in image.build_files())
    if wants and not survey["docker"]["buildx"]:
        yield kinds.NO_BUILDX.said()


def _metrics_gib(survey: Survey, knobs: Knobs) -> float:
    """GiB that Prometheus may still come to have, with those of its packages."""
    packages = PACKAGES_GIB if survey["state"]["missing"] else 0
    kept_gib: float = survey["disks"]["metrics"]["kept"] / GIB
    return round(max(knobs.monitoring_gib - kept_gib, 0) + packages, 1)


def still_to_come(models: Sequence[ServedModel], states: Mapping[str, ModelState]) -> Iterator[float]:
    """GiB of each file set that is not whole: what a recipe says of the served one's, and the others' weights, without
    the files that are there.
    """
    counted = set[str]()
    for recipe in (each.recipe for each in models):
        for model in (each for each in recipe.models if each.key not in counted):
            counted.add(model.key)
            whole = recipe.needs.model_disk_gib if model is recipe.model else model.weights_gib or 0
            yield max(whole - _gib_there(states.get(model.key)), 0)


def _gib_there(state: ModelState | None) -> float:
    """GiB of a file set that nothing is wrong with; endless where it is whole."""
    if state is None or not state["present"]:
        return 0
    if not state["problems"]:
        return math.inf
    # A file that is not whole is fetched anew, and stays beside that until it is there.
    problems = "\n".join(state["problems"])
    return sum(file["size"] for name, file in state["files"].items() if f"/{name}" not in problems) / GIB


def _has(survey: Survey, image: Image) -> bool:
    found = survey["state"]["images"].get(image.local)
    return found is not None and bool(found["image"])


def _ports(node: Node, survey: Survey, knobs: Knobs, count: int, models: Sequence[ServedModel]) -> Findings:
    wanted = listens(node, knobs, count, models)
    for listener in survey["ports"]:
        if listener["port"] in wanted and not listener["ours"]:
            yield kinds.PORT_HELD.said(port=listener["port"], holder=holder(listener), knob=wanted[listener["port"]])


def holder(listener: Listener) -> str:
    """Who listens: `nginx (pid 77)`."""
    return f"{listener['process'] or 'another program'}" + (f" (pid {listener['pid']})" if listener["pid"] else "")


def _sources(node: Node, survey: Survey, knobs: Knobs) -> Findings:
    if node.is_head:
        for problem in survey["source"]:
            yield kinds.SOURCE_NOT_WHOLE.said(problem=problem)
    for problem in survey["archives"].values():
        if problem:
            yield kinds.ARCHIVE_UNFIT.said(problem=problem)
    if survey["token"]:
        yield kinds.TOKEN_OPEN.said(problem=survey["token"])
