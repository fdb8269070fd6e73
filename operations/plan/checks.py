"""What a survey of a node says against a deploy. Pure: survey in, findings out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from operations.plan.cluster import fabric_checks
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel, on
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding
from operations.plan.recipes.images import Image
from operations.plan.services import demand, tuning
from operations.plan.services.ports import listens
from operations.wire.look import Survey
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
        return [Finding(node.name, "has no python3", "apt install python3")]
    if not survey.get("sudo"):
        remedy = f'on {node.name}: echo "$USER ALL=(ALL) NOPASSWD:ALL" | sudo tee /etc/sudoers.d/tandem'
        return [Finding(node.name, "sudo wants a password for this login", remedy)]
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
    return [Finding(node.name, problem, remedy) for check in checks for problem, remedy in check]


Findings = Iterator[tuple[str, str]]


def _machine(survey: Survey, head: Survey, models: Sequence[ServedModel]) -> Findings:
    if survey["machine"] != head.get("machine"):
        yield f"is {survey['machine']}, the head is {head.get('machine')}", "one image can't serve both; leave one out"
    if any(each.recipe.needs.gpu for each in models) and survey["kernel"] in BAD_KERNELS:
        yield f"runs the kernel {survey['kernel']}", BAD_KERNELS[survey["kernel"]]
    if not survey["docker"]["version"]:
        yield (
            "Docker does not answer",
            "sudo systemctl enable --now docker (or install it: apt install docker.io docker-buildx)",
        )


def _firewall(survey: Survey) -> Findings:
    if not survey["firewall"]["nft"]:
        yield (
            "nftables can't be set, and without it what the engine listens on is everybody's",
            "sudo apt install nftables (where `sudo nft list tables` fails all the same, the kernel lacks nf_tables, "
            "or a container's newer nftables wrote a table that this one can't read: a reboot without it clears it)",
        )


def _tls(survey: Survey, knobs: Knobs) -> Findings:
    if knobs.tls != "off" and not survey["openssl"]:
        yield f"tls={knobs.tls!r} needs openssl", "sudo apt install openssl"


def _secrets(survey: Survey) -> Findings:
    yield from ((problem, remedy) for problem, remedy in survey["state"]["modes"]["refused"])


def _gpu(survey: Survey, models: Sequence[ServedModel]) -> Findings:
    if not any(each.recipe.needs.gpu for each in models):
        return
    if not survey["nvidia"]:
        yield (
            "no NVIDIA driver is loaded, and this recipe needs a GPU",
            "nvidia-smi must work; or choose another recipe",
        )
    if "nvidia" not in survey["docker"]["runtimes"] and not survey["cdi"]:
        remedy = (
            "install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure && sudo systemctl restart docker"
        )
        yield "Docker has no NVIDIA runtime", remedy
    # The driver, and who else computes (operations/node/machine/on_gpu.py).
    yield from ((problem, remedy) for problem, remedy in survey["gpu"])
    if not demand.is_serving(survey):
        yield from strangers(survey)


def strangers(survey: Survey) -> Findings:
    """Other programs on the GPU: they keep an engine from its start, and are a remark beside one that runs."""
    yield from ((problem, remedy) for problem, remedy in survey.get("strangers", []))


def _room(node: Node, survey: Survey, models: Sequence[ServedModel], knobs: Knobs) -> Findings:
    wanted: dict[int, tuple[str, float]] = {}
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
            yield (
                f"{disk['path']} has {disk['free'] / GIB:.1f} GiB free, {need_gib:g} GiB are needed",
                "make room"
                + (" (`tandem models` says what may go), or point model_store at another disk" if shared else "")
                + (", or lower monitoring_gib" if name == "metrics" else ""),
            )


def _store(survey: Survey, knobs: Knobs) -> Findings:
    """Before the first byte is fetched: an image would come, and a model would not."""
    if place := survey["unwritable"]:
        remedy = f'sudo chown -R "$USER": {place}'
        if not survey["disks"]["store"]["path"].startswith(f"{survey['home']}/"):
            remedy = f'sudo mkdir -p {knobs.model_store} && sudo chown "$USER": {knobs.model_store}'
        yield f"{place} is not the login's, so it can't make the model store {knobs.model_store} there", remedy


def _built(survey: Survey, models: Sequence[ServedModel]) -> Findings:
    """Ubuntu's docker.io comes without BuildKit's client; its older builder knows no `RUN --mount`."""
    missing = [each.image.base for each in models if not _has(survey, each.image) and each.image.base.kind == "build"]
    wants = any(b"RUN --mount" in content for image in missing for _, content in image.build_files())
    if wants and not survey["docker"]["buildx"]:
        yield "Docker has no buildx, and the recipe's image is built with it", "sudo apt install docker-buildx"


def _metrics_gib(survey: Survey, knobs: Knobs) -> float:
    """GiB that Prometheus may still come to have, with those of its packages."""
    packages = PACKAGES_GIB if survey["state"]["missing"] else 0
    kept_gib: float = survey["disks"]["metrics"]["kept"] / GIB
    return round(max(knobs.monitoring_gib - kept_gib, 0) + packages, 1)


def still_to_come(models: Sequence[ServedModel], states: Mapping[str, ModelState]) -> Iterator[float]:
    """GiB of each file set that is not there: what a recipe says of the served one's, and the others' weights."""
    counted = set[str]()
    for recipe in (each.recipe for each in models):
        for model in recipe.models:
            if model.key not in counted and not _is_there(states.get(model.key)):
                counted.add(model.key)
                yield recipe.needs.model_disk_gib if model is recipe.model else model.weights_gib or 0


def _is_there(state: ModelState | None) -> bool:
    return state is not None and state["present"]


def _has(survey: Survey, image: Image) -> bool:
    found = survey["state"]["images"].get(image.local)
    return found is not None and bool(found["image"])


def _ports(node: Node, survey: Survey, knobs: Knobs, count: int, models: Sequence[ServedModel]) -> Findings:
    wanted = listens(node, knobs, count, models)
    for listener in survey["ports"]:
        if listener["port"] in wanted and not listener["ours"]:
            holder = f"{listener['process'] or 'another program'}" + (
                f" (pid {listener['pid']})" if listener["pid"] else ""
            )
            yield (
                f"port {listener['port']} is held by {holder}",
                f"end it, or change `{wanted[listener['port']]}` in group_data/all.py",
            )


def _sources(node: Node, survey: Survey, knobs: Knobs) -> Findings:
    if node.is_head:
        for problem in survey["source"]:
            yield problem, "put the whole model there, or set model_from=hub"
    for problem in survey["archives"].values():
        if problem:
            yield problem, "make it again with `docker save`, or change engine_image_from / proxy_image_from"
    if survey["token"]:
        remedy = "create it with the token alone in it, the login's or root's as its folder is, and `chmod 600` it"
        yield survey["token"], f"{remedy}; or clear hub_token_file"
