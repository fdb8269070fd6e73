"""What a survey of a node says against a deploy. Pure: survey in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from operations.plan.images import Image
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node, on_fabric
from operations.plan.proxy import asked_at
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding

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

Survey = dict[str, Any]


def check_survey(
    node: Node, survey: Survey, head: Survey, recipe: Recipe, knobs: Knobs, images: list[Image], count: int
) -> list[Finding]:
    """Everything that stands in the way on one node; `count`: nodes of the inventory."""
    if not survey.get("python", True):
        return [Finding(node.name, "has no python3", "apt install python3")]
    if not survey.get("sudo"):
        remedy = f'on {node.name}: echo "$USER ALL=(ALL) NOPASSWD:ALL" | sudo tee /etc/sudoers.d/tandem'
        return [Finding(node.name, "sudo wants a password for this login", remedy)]
    if knobs.topology == "solo" and not node.is_head:
        # It only has to be rid of what an older plan has left there.
        return []
    checks = (
        _machine(survey, head, recipe),
        _walls(survey),
        _gpu(survey, recipe),
        _room(node, survey, recipe, knobs, images),
        _ports(node, survey, knobs, count),
        _fabric(node, survey, knobs),
        _sources(node, survey, knobs),
        _secrets(survey),
        _tls(survey, knobs),
    )
    return [Finding(node.name, problem, remedy) for check in checks for problem, remedy in check]


Findings = Iterator[tuple[str, str]]


def _machine(survey: Survey, head: Survey, recipe: Recipe) -> Findings:
    if survey["machine"] != head.get("machine"):
        yield f"is {survey['machine']}, the head is {head.get('machine')}", "one image can't serve both; leave one out"
    if recipe.needs.gpu and survey["kernel"] in BAD_KERNELS:
        yield f"runs the kernel {survey['kernel']}", BAD_KERNELS[survey["kernel"]]
    if not survey["docker"]["version"]:
        yield "Docker does not answer", "sudo systemctl enable --now docker (or install it: apt install docker.io)"


def _walls(survey: Survey) -> Findings:
    if not survey["walls"]["nft"]:
        yield (
            "nftables can't be set, and without it what the engine listens on is everybody's",
            "sudo apt install nftables (where `sudo nft list tables` fails all the same, the kernel lacks nf_tables)",
        )


def _tls(survey: Survey, knobs: Knobs) -> Findings:
    if knobs.tls != "off" and not survey["openssl"]:
        yield f"tls={knobs.tls!r} needs openssl", "sudo apt install openssl"


def _secrets(survey: Survey) -> Findings:
    yield from survey["state"]["modes"]["refused"]


def _gpu(survey: Survey, recipe: Recipe) -> Findings:
    if not recipe.needs.gpu:
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


def _room(node: Node, survey: Survey, recipe: Recipe, knobs: Knobs, images: list[Image]) -> Findings:
    need = recipe.memory_gib(knobs.topology)
    memory = survey["memory"]
    alone = recipe.memory_gib("solo") if knobs.falls_back else 0
    if memory["total_mib"] < alone * 1024:
        yield (
            f"has {memory['total_mib'] / 1024:.1f} GiB of memory; serving alone the recipe needs {alone:g}",
            "set fallback to off, or choose a recipe that fits into one node",
        )
    # What Ollama holds is unloaded before the start of an engine on the GPU.
    available_mib = memory["available_mib"] + (memory.get("ollama_mib", 0) if recipe.needs.gpu else 0)
    if memory["total_mib"] < need * 1024:
        yield f"has {memory['total_mib'] / 1024:.1f} GiB of memory, the recipe needs {need:g}", "choose another recipe"
    # A running engine gives its memory back before the next one starts.
    elif (
        survey["state"]["services"]["units"]["tandem-engine"].get("ActiveState") != "active"
        and available_mib < need * 1024
    ):
        yield (
            f"has {available_mib / 1024:.1f} GiB of memory available, the recipe needs {need:g}",
            "end what holds it: ps aux --sort -rss | head",
        )
    wanted: dict[int, tuple[str, float]] = {}
    missing_image = any(image.role == "engine" and not _has(survey, image) for image in images)
    for name, size in (
        ("store", sum(_still_to_come(recipe, survey))),
        ("docker", recipe.needs.image_disk_gib if missing_image else SPARE_GIB),
        ("files", SPARE_GIB),
        *([("metrics", _metrics_gib(survey, knobs))] if knobs.keeps and node.is_head else []),
    ):
        disk = survey["disks"][name]
        path, so_far = wanted.get(disk["device"], (disk["path"], 0.0))
        wanted[disk["device"]] = (path, so_far + size)
        if wanted[disk["device"]][1] * GIB > disk["free"]:
            need_gib = wanted[disk["device"]][1]
            shared = disk["device"] == survey["disks"]["store"]["device"]
            yield (
                f"{disk['path']} has {disk['free'] / GIB:.1f} GiB free, {need_gib:g} GiB are needed",
                "make room"
                + (", or point model_store at another disk" if shared else "")
                + (", or lower monitoring_gib" if name == "metrics" else ""),
            )


def _metrics_gib(survey: Survey, knobs: Knobs) -> float:
    """GiB that Prometheus may still come to have, with those of its packages."""
    packages = PACKAGES_GIB if survey["state"]["missing"] else 0
    kept_gib: float = survey["disks"]["metrics"]["kept"] / GIB
    return round(max(knobs.monitoring_gib - kept_gib, 0) + packages, 1)


def _still_to_come(recipe: Recipe, survey: Survey) -> Iterator[float]:
    """GiB of each model that is not there: what the recipe says of the served one's, and the others' weights."""
    for model, state in zip(recipe.models, survey["state"]["models"], strict=True):
        if not state["present"]:
            yield recipe.needs.model_disk_gib if model is recipe.model else model.weights_gib or 0


def _has(survey: Survey, image: Image) -> bool:
    return bool(survey["state"]["images"].get(image.local, {}).get("image"))


def _ports(node: Node, survey: Survey, knobs: Knobs, count: int) -> Findings:
    wanted = listens(node.index, knobs, count)
    for listener in survey["ports"]:
        if listener["port"] in wanted and not listener["ours"]:
            holder = f"{listener['process'] or 'another program'}" + (
                f" (pid {listener['pid']})" if listener["pid"] else ""
            )
            yield (
                f"port {listener['port']} is held by {holder}",
                f"end it, or change `{wanted[listener['port']]}` in group_data/all.py",
            )


def listens(index: int, knobs: Knobs, count: int) -> dict[int, str]:
    """Ports on which a node (0: the head) listens while it serves or a copy goes on, with the knob that moves each."""
    is_head = index == 0
    wanted: dict[int, str] = {}
    if is_head or knobs.topology == "replicas" or knobs.falls_back:
        wanted[knobs.engine_port] = "engine_port"
    if is_head or knobs.topology != "solo":
        wanted[knobs.proxy_port] = "proxy_port"
        wanted |= dict.fromkeys(range(knobs.litellm_ports, asked_at(knobs) + 1), "litellm_ports")
    if knobs.monitoring != "off" and (is_head or knobs.topology != "solo"):
        wanted[knobs.monitoring_port] = "monitoring_port"
        wanted[knobs.page_port] = "page_port"
    if knobs.keeps and is_head:
        wanted |= {knobs.prometheus_port: "prometheus_port", knobs.alertmanager_port: "alertmanager_port"}
    names: list[str] = []
    if knobs.topology == "cluster":
        # A node that serves alone answers there those who come back.
        names += ["meeting"] if is_head or knobs.falls_back else []
        if knobs.executor == "mp":
            names += ["master"] if is_head else []
        else:
            names += ["node_manager", "object_manager", "agent_grpc", "agent_listen", "runtime_env", "metrics"]
            names += ["gcs", "ray_client", "autoscaler_metrics", "dashboard_metrics"] if is_head else []
    copies: list[int] = []
    if knobs.topology != "solo":
        # The head has a server for each worker; where there are several, they hand on what they have.
        copies = list(range(1, count)) if is_head else [index] if count > 2 else []
    ports = [*(knobs.port(name) for name in names), *(knobs.copy_port(index) for index in copies)]
    return wanted | dict.fromkeys(ports, "cluster_ports")


def _fabric(node: Node, survey: Survey, knobs: Knobs) -> Findings:
    if knobs.topology == "solo":
        return
    links = survey["state"]["links"]
    # Only a link that is up knows its carrier. On a fresh node rails may be down, and the deploy itself sets them up.
    # Those that have their address have been set up before: nothing is left to do that would do it again.
    live = [name for name in links if links[name]["up"] and links[name]["carrier"]]
    for rail in node.rails:
        if rail not in links:
            yield f"there is no interface `{rail}`", f"`fabric_interfaces` must be two of: {', '.join(links) or 'none'}"
        elif links[rail]["up"] and not links[rail]["carrier"]:
            yield (
                f"no carrier on `{rail}`",
                "plug the cable in at both ends (a link that is down at the other end looks the same there), or name "
                f"other `fabric_interfaces`; with carrier: {', '.join(live) or 'none'}",
            )
        elif not links[rail]["up"] and on_fabric(links[rail]["addresses"], node.subnets):
            yield f"`{rail}` is down", f"on {node.name}: sudo ip link set {rail} up"
    if len(node.rails) != 2:
        yield (
            f"a fabric has two rails, here are {len(node.rails)}: {', '.join(node.rails) or 'none'}",
            "name the two interfaces in the inventory: `fabric_interfaces`",
        )
    for entry in survey["netplan"]:
        if entry.get("unread"):
            yield f"{entry['file']} can't be looked into: {entry['unread']}", "put that right: netplan reads it too"
        for rail in node.rails if entry.get("gives") else ():
            if is_for(entry, rail, links.get(rail, {})):
                yield (
                    f"{entry['file']} gives `{rail}` {entry['gives']} too",
                    f"remove `{rail}` from it: netplan would keep both, and ranks could meet on the wrong one",
                )


def is_for(entry: dict[str, Any], rail: str, link: dict[str, Any]) -> bool:
    """Whether an entry of netplan's is about this interface: by its name, or by all that its `match` asks for."""
    match = entry.get("match")
    if not match:
        return bool(entry["device"] == rail)
    drivers = match.get("driver", [])
    drivers = [drivers] if isinstance(drivers, str) else drivers
    return (
        fnmatchcase(rail, match.get("name", "*"))
        and match.get("macaddress", link.get("mac", "")).lower() == link.get("mac", "").lower()
        and (not drivers or any(fnmatchcase(link.get("driver", ""), driver) for driver in drivers))
    )


def _sources(node: Node, survey: Survey, knobs: Knobs) -> Findings:
    if node.is_head and knobs.model_from != "hub":
        for problem in survey["source"]:
            yield problem, "put the whole model there, or set model_from=hub"
    for problem in survey["archives"].values():
        if problem:
            yield problem, "make it again with `docker save`, or change engine_image_from / proxy_image_from"
    if survey["token"]:
        remedy = "create it with the token alone in it, the login's or root's as its folder is, and `chmod 600` it"
        yield survey["token"], f"{remedy}; or clear hub_token_file"
