"""What a survey of a node says against a deploy. Pure: survey in, findings out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from ipaddress import IPv4Interface

from operations.plan import demand, nccl, tuning
from operations.plan.images import Image
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node, on_fabric
from operations.plan.proxy import asked_at, talks
from operations.plan.refusal import Finding
from operations.plan.served_model import ServedModel, on
from operations.shapes.fabric import Link, NetplanEntry
from operations.shapes.look import Survey
from operations.shapes.model import ModelState

GIB = 1 << 30
#: GiB that a start or a deploy writes itself: Docker's files of a container, units, programs.
SPARE_GIB = 0.1
#: GiB that Prometheus' and Alertmanager's packages unpack to, with what they need.
PACKAGES_GIB = 0.3
#: Of netdevs that can do RDMA.
RDMA_DRIVER = "mlx5_core"
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
        _walls(survey),
        _gpu(survey, here),
        demand.check(survey, here, tuning.kept_gib(survey, knobs), knobs.memory_floor_gib),
        tuning.check(survey, knobs),
        # The head obtains every model's files and images: the others get them from there.
        _room(node, survey, models if node.is_head else here, knobs),
        _store(survey, knobs),
        _built(survey, models if node.is_head else ()),
        _ports(node, survey, knobs, count, here),
        _fabric(node, survey, knobs),
        _firewall(node, survey, knobs),
        _rdma(node, survey, here),
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


def _walls(survey: Survey) -> Findings:
    if not survey["walls"]["nft"]:
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
        *([("metrics", disks["metrics"], _metrics_gib(survey, knobs))] if knobs.keeps and node.is_head else []),
    ):
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


def listens(node: Node, knobs: Knobs, count: int, models: Sequence[ServedModel]) -> dict[int, str]:
    """Ports on which a node of `count` listens while it serves or a copy goes on, with the knob that moves each.
    `models`: those with a part on it.
    """
    is_head = node.is_head
    wanted: dict[int, str] = {}
    for model in models:
        wanted |= _of_an_engine(model.on(node.name), model.knobs)
    if models:
        wanted[knobs.proxy_port] = "proxy_port"
        wanted |= dict.fromkeys(range(knobs.litellm_ports, asked_at(knobs) + 1), "litellm_ports")
    if knobs.monitoring != "off" and models:
        wanted[knobs.monitoring_port] = "monitoring_port"
        wanted[knobs.page_port] = "page_port"
    if knobs.keeps and is_head and models:
        wanted |= {knobs.prometheus_port: "prometheus_port", knobs.alertmanager_port: "alertmanager_port"}
    if models and talks(knobs, node):
        wanted[knobs.port("office")] = "cluster_ports"
    copies: list[int] = []
    if knobs.topology != "solo":
        # The head has a server for each worker; where there are several, they hand on what they have.
        copies = list(range(1, count)) if is_head else [node.index] if count > 2 else []
    return wanted | dict.fromkeys((knobs.copy_port(index) for index in copies), "cluster_ports")


def _of_an_engine(node: Node, knobs: Knobs) -> dict[int, str]:
    """Ports of a model's engine on one of its nodes."""
    wanted: dict[int, str] = {}
    if node.leads or knobs.topology == "replicas" or knobs.falls_back:
        wanted[knobs.engine_port] = "engine_port"
    names: list[str] = []
    if knobs.topology == "cluster":
        # A node that serves alone answers there those who come back.
        names += ["meeting"] if node.leads or knobs.falls_back else []
        if knobs.executor == "mp":
            names += ["master"] if node.leads else []
        else:
            names += ["node_manager", "object_manager", "agent_grpc", "agent_listen", "runtime_env", "metrics"]
            names += ["gcs", "ray_client", "autoscaler_metrics", "dashboard_metrics"] if node.leads else []
    return wanted | dict.fromkeys((knobs.port(name) for name in names), "cluster_ports")


def _fabric(node: Node, survey: Survey, knobs: Knobs) -> Findings:
    if knobs.topology == "solo":
        return
    links = survey["state"]["links"]
    # Only a link that is up knows its carrier. On a fresh node rails may be down, and the deploy itself sets them up.
    # Those that have their address have been set up before: nothing is left to do that would do it again.
    live = [name for name in links if links[name]["up"] and links[name]["carrier"]]
    # Those of the rules in force: without them another port would look like the one that is meant.
    gone = [each for each in survey["state"]["walls"].get("inside", []) if each != "lo" and each not in links]
    lost = gone if not set(node.rails) & {name for name in links if links[name]["carrier"]} else []
    if lost:
        remedy = "plug the cable in at both ends, or into another port at both"
        yield f"{' and '.join(lost)} {'is' if len(lost) == 1 else 'are'} gone", remedy
    for place, rail in enumerate(() if lost else node.rails):
        if node.ends and not node.ends[place]:
            # The node at its other end is not needed, or it would have been missed.
            continue
        if rail not in links:
            there = ", ".join(links) or "none, as where no cable is in"
            yield (
                f"there is no interface `{rail}`",
                "plug the cable in at both ends: without one its interfaces may be gone; "
                f"or let `fabric_interfaces` be of those that are here: {there}",
            )
        elif links[rail]["up"] and not links[rail]["carrier"]:
            yield (
                f"no carrier on `{rail}`",
                "plug the cable in at both ends (a link that is down at the other end looks the same there), or name "
                f"other `fabric_interfaces`; with carrier: {', '.join(live) or 'none'}",
            )
        elif not links[rail]["up"] and on_fabric(links[rail]["addresses"], node.subnets):
            yield f"`{rail}` is down", f"on {node.name}: sudo ip link set {rail} up"
    if survey["came_in_by"] in node.rails:
        yield (
            f"the login comes in over `{survey['came_in_by']}` ({node.management}), which is a rail: a deploy sets its "
            "addresses anew",
            "name its address in the office's network: `ssh_hostname` in inventory.py",
        )
    elif on_fabric(_v4(node.management), node.subnets):
        yield (
            f"the login comes in on {node.management}, which is in `fabric_subnets`",
            "set `fabric_subnets` in group_data/all.py to others: they are the rails' alone",
        )
    if not node.rails and not lost:
        yield (
            "no interface of a ConnectX is here, and a fabric needs one",
            "plug the cable in at both ends: without one its interfaces may be gone; if they stay away, reboot, and "
            "look whether `lspci -d 15b3:` lists it",
        )
    elif len(node.rails) > 2 and not node.ends:
        yield (
            f"a fabric has two rails, here are {len(node.rails)}: {', '.join(node.rails)}",
            "name the two interfaces in the inventory: `fabric_interfaces`",
        )
    for entry in survey["netplan"]:
        if entry.get("unread"):
            yield f"{entry['file']} can't be looked into: {entry['unread']}", "put that right: netplan reads it too"
        for rail in node.rails if entry.get("gives") else ():
            if is_for(entry, rail, links.get(rail)):
                yield (
                    f"{entry['file']} gives `{rail}` {entry['gives']} too",
                    f"remove `{rail}` from it: netplan would keep both, and ranks could meet on the wrong one",
                )


def _v4(address: str) -> list[str]:
    """The address where it is IPv4; a name or IPv6 is in no subnet of the rails."""
    return [address] if re.fullmatch(r"[\d.]+", address) else []


def _firewall(node: Node, survey: Survey, knobs: Knobs) -> Findings:
    """What would keep out the other nodes. A port that is no rail may be shut."""
    # More rails than subnets are refused beside this.
    rails = dict(zip(node.rails, node.subnets, strict=False)) if knobs.topology != "solo" else {}
    shut = [
        each
        for rail, subnet in rails.items()
        for each in survey.get("shut", [])
        if each["device"] == rail and not each["is_door"] and subnet.subnet_of(IPv4Interface(each["own"]).network)
    ]
    if shut:
        over = ", ".join(f"`{each['device']}`" for each in shut)
        yield (
            f"{shut[0]['by']} lets no connection in over {over}: ranks and copies could not reach this node",
            " && ".join(each["remedy"] for each in shut),
        )


def _rdma(node: Node, survey: Survey, models: Sequence[ServedModel]) -> Findings:
    """Rails of a cluster's rank that can do RDMA and have no device for it: NCCL would take sockets, or half of the
    bandwidth. Without any where other ranks have them it would not come up.
    """
    wants = [each for each in models if nccl.may_use_rdma(each.recipe, each.knobs)]
    if not wants:
        return
    links = survey["state"]["links"]
    without = [rail for rail in node.rails if rail in links and not links[rail]["rdma"]]
    lacking = [rail for rail in without if links[rail]["driver"] == RDMA_DRIVER]
    others = [rank.name for each in wants for rank in each.nodes if rank.rdma and rank.name != node.name]
    if lacking or (without and others and not node.rdma):
        yield (
            f"no RDMA device is on {' and '.join(f'`{rail}`' for rail in lacking or without)}"
            f"{f', {others[0]} has them' if others else ''}: NCCL would speak TCP, and every token be late",
            "sudo modprobe mlx5_ib, or reboot: `rdma link` has to name them; where TCP is meant, set NCCL_IB_DISABLE "
            "to '1' in the recipe's env",
        )


def is_for(entry: NetplanEntry, rail: str, link: Link | None) -> bool:
    """Whether an entry of netplan's is about this interface: by its name, or by all that its `match` asks for."""
    match = entry.get("match")
    if not match:
        return bool(entry["device"] == rail)
    mac, has = (link["mac"], link["driver"]) if link else ("", "")
    drivers = match.get("driver", [])
    drivers = [drivers] if isinstance(drivers, str) else drivers
    return (
        fnmatchcase(rail, match.get("name", "*"))
        and match.get("macaddress", mac).lower() == mac.lower()
        and (not drivers or any(fnmatchcase(has, driver) for driver in drivers))
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
