"""The engine's unit, container, environment and scripts on each node that serves."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence

from operations.plan import environment, nccl
from operations.plan.addresses import engine_address, engine_url
from operations.plan.engines import ENGINES
from operations.plan.engines.named import ATTACHED
from operations.plan.files import File, as_is, render
from operations.plan.images import Image, engine_image
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node
from operations.plan.places import CONTAINER_ID, ENGINE, ETC, FALLBACK, MEETING, PROVEN, folder_of
from operations.plan.recipe import Recipe
from operations.plan.service import SPEC, Service, docker_run, lessened, seal

#: At most, in a container's own /dev/shm: what [E] in docs/sources.md gives it.
SHARED_MEMORY = "16g"
#: In a row, after which the unit stays down.
STARTS = 6
#: Capabilities of the container's root: in each, and where a mod's run.sh is run before the engine (docs/security.md
#: says why). RDMA's is the engine's class's to say.
_ROOT = ("DAC_OVERRIDE",)
_MODS = ("CHOWN", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


def engine_services(recipe: Recipe, knobs: Knobs, serving: Sequence[Node]) -> dict[str, Service]:
    """Services by node. In a cluster one spec over all ranks, so that a change to any restarts every one."""
    image = engine_image(recipe, knobs)
    files = {node.name: _engine_files(recipe, knobs, node, serving, image) for node in serving}
    if knobs.topology != "cluster":
        return {name: seal(ENGINE, image, own, own) for name, own in files.items()}
    everything = [File(f"{name}:{file.path}", file.content, file.mode) for name in files for file in files[name]]
    return {name: seal(ENGINE, image, own, everything) for name, own in files.items()}


def alone_files(recipe: Recipe, knobs: Knobs, node: Node) -> tuple[File, ...]:
    """What a node of a cluster runs in the place of its rank when it serves alone (operations/plan/fallback.py).

    It is an engine of replicas: it listens on the fabric, for the proxies of all nodes. It has a spec of its own.
    """
    image, alone = engine_image(recipe, knobs), knobs.model_copy(update={"topology": "replicas"})
    files = _engine_files(recipe, alone, node, [node], image, folder_of(FALLBACK), "solo")
    return seal(ENGINE, image, files, files).files


def _engine_files(
    recipe: Recipe,
    knobs: Knobs,
    node: Node,
    serving: Sequence[Node],
    image: Image,
    folder: str = folder_of(ENGINE),
    topology: str = "",
) -> list[File]:
    """`topology`: what it is called on the node, where that is not the knobs'."""
    head, ranks = serving[0], len(serving)
    runs = ENGINES[recipe.engine]
    env = environment.common_environment() | runs.environment(recipe)
    if knobs.topology == "cluster":
        env |= runs.rank_environment(node) | environment.rank_environment(node)
        if knobs.executor == "ray":
            env |= environment.ray_environment(node, head, knobs)
    env |= nccl.variables(recipe, knobs)
    # The recipe has the last word on everything that it may say (OWNED_ENV is refused when it is read).
    env |= recipe.env
    start = render(
        "engine/start.sh.j2",
        exports=recipe.exports,
        shell=recipe.shell,
        folders=recipe.folders,
        mods=recipe.start_mods,
        mount=environment.MOUNT,
        commands=[*nccl.commands(recipe, knobs), *runs.commands(recipe, knobs, node, serving)],
    )
    files = [
        File(f"{folder}/engine.env", "".join(f"{name}={value}\n" for name, value in env.items()), "600"),
        File(f"{folder}/start.sh", start, "755"),
        File(f"{folder}/ready.sh", _ready(recipe, knobs, node, head, image), "755"),
        File(f"{folder}/proof.py", as_is("engine/proof.py")),
    ]
    if recipe.needs.gpu:
        files.append(File(f"{folder}/ollama.py", as_is("engine/ollama.py")))
    if recipe.start_mods:
        files.append(File(f"{folder}/start_mods.py", as_is("engine/start_mods.py")))
    if knobs.topology == "cluster":
        meeting = {"address": head.fabric, "port": knobs.port("meeting"), "ranks": ranks, "rank": node.index}
        meeting["mark"] = MEETING
        files.append(File(f"{folder}/meeting.json", json.dumps(meeting) + "\n"))
        files.append(File(f"{folder}/meet.py", as_is("engine/meet.py")))
        if knobs.executor == "ray":
            files.append(File(f"{folder}/ray_nodes.py", as_is("engine/ray_nodes.py")))
        if nccl.is_swapped(recipe, knobs):
            files.append(File(f"{folder}/nccl.py", as_is("engine/nccl.py")))
    files += [File(f"{folder}/{name}", content) for name, content in runs.files(recipe).items()]
    files += [File(f"{folder}/{ATTACHED}{name}", content) for name, content in recipe.attached.items()]
    role = f"rank {node.index} of {ranks}" if knobs.topology == "cluster" else knobs.topology
    docker = _engine_docker(recipe, knobs, node, image, folder, topology or knobs.topology)
    run = render("run.sh.j2", docker=docker, drop_caches_s=recipe.drop_caches_s)
    files.append(File(f"{folder}/run.sh", run, "755"))
    if folder != folder_of(ENGINE):
        description = f"{recipe.name}, alone for a cluster"
        drop_in = render("fallback/alone.conf.j2", description=description, folder=folder, spec=SPEC)
        return [*files, File(f"{folder}/alone.conf", drop_in)]
    unit = render(
        "engine/tandem-engine.service.j2", description=f"{recipe.name}, {role}", etc=ETC, spec=SPEC, starts=STARTS
    )
    return [*files, File(f"/etc/systemd/system/{ENGINE}.service", unit)]


def _ready(recipe: Recipe, knobs: Knobs, node: Node, head: Node, image: Image) -> str:
    need = recipe.memory_gib(knobs.topology)
    percent = 0
    if recipe.needs.gpu and not need:
        percent = round((ENGINES[recipe.engine].memory(recipe).share or 0) * 100)
    return render(
        "engine/ready.sh.j2",
        address=node.fabric if knobs.topology == "cluster" else engine_address(knobs, node),
        memory_mib=round(need * 1024),
        memory_percent=percent,
        gpu=recipe.needs.gpu,
        ports=_ports(knobs, node, head),
        image=image.local,
        models=[
            {
                "snapshot": f"{node.path(knobs.model_store)}/{model.folder}/snapshots/{model.revision}",
                "record": f"{PROVEN}/{model.folder}/{model.revision}.json",
            }
            for model in recipe.models
        ],
    )


def _ports(knobs: Knobs, node: Node, head: Node) -> list[dict[str, object]]:
    """Where a start on this node listens, and fails late when somebody else does."""
    ports = []
    if node is head or knobs.topology == "replicas":
        ports.append({"address": engine_address(knobs, node), "port": knobs.engine_port})
    if node is head and knobs.topology == "cluster":
        names = ("meeting", "gcs" if knobs.executor == "ray" else "master")
        ports += [{"address": node.fabric, "port": knobs.port(name)} for name in names]
    return ports


def _engine_docker(recipe: Recipe, knobs: Knobs, node: Node, image: Image, folder: str, topology: str) -> list[str]:
    # Not the host's: what a killed engine leaves in /dev/shm (vLLM's rings are 160 and 240 MB) goes with the container.
    argv = [*docker_run(ENGINE), "--shm-size", SHARED_MEMORY, "--env-file", f"{folder}/engine.env"]
    low = ("NET_BIND_SERVICE",) if knobs.engine_port < 1024 else ()
    argv += lessened(*_ROOT, *(_MODS if recipe.start_mods else ()), *low)
    # The guard kills by it; and where the kernel has to choose, it shall choose the engine.
    argv += ["--cidfile", CONTAINER_ID, "--oom-score-adj", "500"]
    if node.engine_group:
        # The walls know its sockets by it.
        argv += ["--cgroup-parent", node.engine_group]
    argv += ["--label", f"tandem.recipe={recipe.name}", "--label", f"tandem.topology={topology}"]
    argv += ["--label", f"tandem.model={recipe.served_name}"]
    if node.is_head or knobs.topology == "replicas":
        argv += ["--label", f"tandem.url={engine_url(knobs, node)}"]
    argv += ["--volume", f"{folder}:{environment.MOUNT}:ro"]
    argv += ["--volume", f"{node.path(knobs.model_store)}:{environment.HUB}:ro"]
    # Compiled kernels and graphs outlive the container: a first start on vLLM 0.26 takes 18 minutes, the next 7.
    argv += ["--volume", f"/var/lib/tandem/cache/{image.local.rpartition(':')[2]}:/root/.cache"]
    if recipe.needs.gpu:
        argv += ["--gpus", "all", *ENGINES[recipe.engine].docker(recipe)]
    if node.rdma and knobs.topology == "cluster":
        argv += ["--device", "/dev/infiniband"]
    if knobs.topology == "cluster":
        # Where meet.py says to the node's canary whether the ranks have met.
        argv += ["--volume", f"{posixpath.dirname(MEETING)}:{posixpath.dirname(MEETING)}"]
        return [*argv, "--entrypoint", "python3", image.local, f"{environment.MOUNT}/meet.py", SPEC]
    return [*argv, "--entrypoint", f"{environment.MOUNT}/start.sh", image.local]
