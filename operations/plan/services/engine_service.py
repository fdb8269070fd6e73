"""The engine of a model: unit, container, environment and scripts on each of its nodes."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from operations.paths import CACHE, ENGINE, ENGINE_SECRETS, FALLBACK, PROVEN, SLOT, folder_of, unit_file
from operations.plan.cluster import environment, nccl
from operations.plan.cluster.addresses import engine_url
from operations.plan.cluster.nodes import Node, rails_between, rdma_between
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.files import File, as_is, inside_quotes, node_program, render
from operations.plan.config.spark import SPARK_GIB
from operations.plan.engines import ENGINES, kept, loaders, starts
from operations.plan.engines.named import ATTACHED
from operations.plan.recipes.formats.sparkrun_env import launched
from operations.plan.recipes.images import Image
from operations.plan.recipes.recipe import Recipe
from operations.plan.services import demand, kept_kernels
from operations.plan.services.contract import Contract, Removal, Start
from operations.plan.services.service import SPEC, Service, docker_run, lessened, seal
from operations.wire.starts import LoaderChoice, StartSpec

#: At most, in a container's own /dev/shm: what [E] in docs/sources.md gives it.
SHARED_MEMORY = "16g"
#: Seconds for which a start waits for an RDMA device; a driver that is late is there in a few.
RDMA_S = 60
#: In a row, after which the unit stays down.
STARTS = 6
#: Capabilities of the container's root: in each, and where a mod's run.sh is run before the engine (docs/security.md
#: says why). RDMA's is the engine's class's to say.
_ROOT = ("DAC_OVERRIDE",)
#: All GPUs of a node, as NVIDIA's toolkit names them in its CDI specification.
CDI_DEVICE = "nvidia.com/gpu=all"
#: Variables of a recipe by which a container gets more or less of the driver.
_GPU_ENV = ("NVIDIA_", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
#: By which the program that chooses a loader is told that one has failed (files/engine/loader.py).
_FAILED = "TANDEM_LOADER_FAILED"
#: Where a model among several finds what all of them share.
_SECRETS = "/tandem-secrets"
#: What sees a start, and keeps how long it took.
_STARTS = ("starts.py", "starts.json", "phases.py")
_MODS = ("CHOWN", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


def engine_services(model: ServedModel) -> dict[str, Service]:
    """Services by node. In a cluster one spec over all ranks, so that a change to any restarts every one. Who else
    loads on a node is no part of it: other models come and go while this one serves.
    """
    if model.knobs.in_groups:
        return {name: service for each in model.engines for name, service in engine_services(each).items()}
    image, alone = model.image, replace(model, beside={})
    files = {node.name: _engine_files(model, node, image, model.folder) for node in model.nodes}
    hashed = {node.name: _but_starts(_engine_files(alone, node, image, model.folder)) for node in model.nodes}
    if model.knobs.topology != "cluster":
        sealed = {name: seal(model.unit, image, own, hashed[name]) for name, own in files.items()}
        return {name: replace(each, at_boot=not model.is_on_demand) for name, each in sealed.items()}
    everything = [File(f"{name}:{file.path}", file.content, file.mode) for name in hashed for file in hashed[name]]
    return {name: seal(model.unit, image, own, everything) for name, own in files.items()}


def _but_starts(files: list[File]) -> list[File]:
    """How a start is seen is no reason for one."""
    return [file for file in files if posixpath.basename(file.path) not in _STARTS]


def alone_files(model: ServedModel, node: Node) -> tuple[File, ...]:
    """What a node of a cluster runs in the place of its rank when it serves alone (fallback.py).

    It is an engine of replicas: it listens on the fabric, for the proxies of all nodes. It has a spec of its own.
    """
    engine = kept_kernels.alone(model, node)
    files = _engine_files(engine, node, model.image, folder_of(FALLBACK), "solo")
    return seal(model.unit, model.image, files, _but_starts(files)).files


def _engine_files(model: ServedModel, node: Node, image: Image, folder: str, topology: str = "") -> list[File]:
    """`topology`: what its container is said to be in, where that is not the model's own."""
    recipe, knobs = model.recipe, model.knobs
    runs, room = ENGINES[recipe.engine], demand.of(model).of(min(SPARK_GIB))
    # A node that serves alone for a cluster does so while another is away: nothing is tried then.
    choices = loaders.choices(recipe, knobs, runs.LOADERS, runs.LOADS, room) if folder == model.folder else []
    hooks = {f"hook-{number}.sh": f"{text.rstrip()}\n" for number, text in enumerate(recipe.hooks, 1)}
    files = [
        File(f"{folder}/engine.env", "".join(f"{name}={value}\n" for name, value in _env(model, node).items()), "600"),
        File(f"{folder}/start.sh", _start(model, node, choices, hooks), "755"),
        File(f"{folder}/ready.sh", _ready(model, node, image), "755"),
        File(f"{folder}/proof.py", as_is("engine/proof.py")),
        File(f"{folder}/made_for.py", as_is("engine/made_for.py")),
        File(f"{folder}/compiled.py", node_program("kernels/compiled.py")),
        File(f"{folder}/content_id.py", node_program("image/content_id.py")),
        *_start_files(model, node, folder),
    ]
    if choices:
        files.append(File(f"{folder}/loader.py", as_is("engine/loader.py")))
        files.append(File(f"{folder}/loader.json", json.dumps(choices, indent=1) + "\n"))
    if runs.PACKAGE:
        files.append(File(f"{folder}/byte_code.py", as_is("engine/byte_code.py")))
    if recipe.needs.gpu:
        files.append(File(f"{folder}/ollama.py", as_is("engine/ollama.py")))
        files.append(File(f"{folder}/on_gpu.py", node_program("machine/on_gpu.py")))
    if recipe.start_mods or hooks:
        files.append(File(f"{folder}/start_mods.py", as_is("engine/start_mods.py")))
    files += [File(f"{folder}/{name}", text) for name, text in hooks.items()]
    files += _rank_files(model, node, folder) if knobs.topology == "cluster" else []
    files += [File(f"{folder}/{name}", content) for name, content in runs.files(recipe).items()]
    files += [File(f"{folder}/{ATTACHED}{name}", content) for name, content in recipe.attached.items()]
    if model.name:
        # The deploy gives the model the same ports again, whatever models come and go.
        files.append(File(f"{folder}/{SLOT}", f"{model.slot}\n"))
    files.append(File(f"{folder}/memory.py", as_is("engine/memory.py")))
    if model.shares(node):
        files.append(File(f"{folder}/turn.py", as_is("engine/turn.py")))
    run = render(
        "run.sh.j2",
        docker=_engine_docker(model, node, image, folder, topology or model.topology, (_FAILED,) if choices else ()),
        device="/dev/infiniband" if _rdma(model, node) else "",
        drop_caches_s=recipe.drop_caches_s,
        beside=_beside(model, node, folder),
        failed=["python3", "-B", f"{folder}/starts.py", "failed"] if choices else [],
    )
    return [*files, File(f"{folder}/run.sh", run, "755"), _unit(model, node, folder)]


def _env(model: ServedModel, node: Node) -> dict[str, str]:
    """The container's variables. The recipe has the last word on all that it may say: OWNED_ENV is refused before."""
    recipe, knobs, nodes = model.recipe, model.knobs, model.nodes
    runs, is_cluster = ENGINES[recipe.engine], knobs.topology == "cluster"
    env = environment.common_environment() | runs.environment(recipe, knobs)
    env |= kept.MOVED if recipe.needs.gpu else {}
    if is_cluster:
        env |= runs.rank_environment(node) | environment.rank_environment(nccl.seen_by(recipe, knobs, node), nodes)
        env |= kept.for_one_start(runs.CACHES, recipe.engine_version or "")
        if knobs.executor == "ray":
            env |= environment.ray_environment(node, model.leader, knobs)
            env |= {"RAY_AUTH_TOKEN_PATH": f"{_SECRETS}/ray.token"} if model.name else {}
    return env | launched(recipe, node, nodes if is_cluster else [node]) | nccl.variables(recipe, knobs, node)


def _start(model: ServedModel, node: Node, choices: list[LoaderChoice], hooks: Mapping[str, str]) -> str:
    """start.sh, with which the container begins. `hooks`: names of the recipe's own scripts."""
    recipe = model.recipe
    return render(
        "engine/start.sh.j2",
        exports=recipe.exports,
        shell=recipe.shell,
        folders=recipe.folders,
        before=[*recipe.start_mods, *(f"{environment.MOUNT}/{name}" for name in hooks)],
        mount=environment.MOUNT,
        package=ENGINES[recipe.engine].PACKAGE,
        runs=starts.RUNS,
        commands=[*nccl.commands(recipe, model.knobs), *_commands(model, node, choices)],
    )


def _rank_files(model: ServedModel, node: Node, folder: str) -> Iterator[File]:
    """What a rank of a cluster has beside the others' files: where they meet, and what Ray and NCCL need."""
    recipe, knobs, nodes, leader = model.recipe, model.knobs, model.nodes, model.leader
    meeting = {"address": leader.fabric, "port": knobs.port("meeting"), "ranks": len(nodes), "rank": node.place}
    meeting |= {"mark": model.meeting, "stop_s": ENGINES[recipe.engine].STOP_S, "spec": SPEC}
    # In a ring of three each rank has its own rails and devices for each of the others.
    ring_rails = node.rails if node.ends and len(nodes) > 2 else ()
    meeting |= {"node": node.name, "rdma": _rdma(model, node), "ring_rails": ring_rails}
    meeting |= {"socket_interfaces": environment.socket_interfaces(node, nodes)}
    if turns := [each.place for each in sorted(nodes, key=lambda each: each.index) if model.shares(each)]:
        meeting |= {"turns": turns} | ({"given": model.turn} if model.shares(node) else {})
    yield File(f"{folder}/meeting.json", json.dumps(meeting) + "\n")
    yield File(f"{folder}/meet.py", as_is("engine/meet.py"))
    if knobs.executor == "ray":
        yield File(f"{folder}/ray_nodes.py", as_is("engine/ray_nodes.py"))
        own = sorted(environment.rank_environment(nccl.seen_by(recipe, knobs, node), nodes))
        yield File(f"{folder}/{environment.OWN_OF_RANKS}", json.dumps(own) + "\n")
    if nccl.is_swapped(recipe, knobs):
        yield File(f"{folder}/nccl.py", as_is("engine/nccl.py"))


def _unit(model: ServedModel, node: Node, folder: str) -> File:
    """The engine's unit; of a node that serves alone for a cluster, what it changes in that unit."""
    recipe, knobs = model.recipe, model.knobs
    if folder != model.folder:
        description = f"{recipe.name}, alone for a cluster"
        drop_in = render("fallback/alone.conf.j2", description=description, folder=folder, unit=model.unit, spec=SPEC)
        return File(f"{folder}/alone.conf", drop_in)
    role = f"rank {node.place} of {len(model.nodes)}" if knobs.topology == "cluster" else knobs.topology
    unit = render(
        "engine/tandem-engine.service.j2",
        description=f"{recipe.name}, {role}",
        unit=model.unit,
        folder=folder,
        spec=SPEC,
        starts=STARTS,
        stop_s=ENGINES[recipe.engine].STOP_S,
    )
    return File(unit_file(model.unit), unit)


def _commands(model: ServedModel, node: Node, choices: list[LoaderChoice]) -> list[list[str]]:
    """What runs in the container; the last one, by the program that chooses how weights are loaded where that may."""
    *before, last = ENGINES[model.recipe.engine].commands(model.recipe, model.knobs, node, model.nodes)
    return [*before, ["python3", f"{environment.MOUNT}/loader.py", *last] if choices else last]


def _start_files(model: ServedModel, node: Node, folder: str) -> list[File]:
    """What sees a start (files/engine/starts.py)."""
    runs = ENGINES[model.recipe.engine]
    wanted: StartSpec = {
        "unit": model.unit,
        "spec": SPEC,
        "recipe": model.recipe.name,
        "url": loaded_at(model, node),
        "marks": starts.told(runs.STARTS),
        "faults": {name: each.fault for name, each in runs.LOADERS.items() if each.fault},
    }
    return [
        File(f"{folder}/starts.json", json.dumps(wanted, indent=1) + "\n"),
        File(f"{folder}/starts.py", as_is("engine/starts.py")),
        File(f"{folder}/phases.py", node_program("unit/phases.py")),
    ]


def _ready(model: ServedModel, node: Node, image: Image) -> str:
    recipe, knobs = model.recipe, model.knobs
    mib, share = _demand(model)
    return render(
        "engine/ready.sh.j2",
        unit=model.unit,
        container_id=model.container_id,
        meeting=model.meeting,
        shares=model.shares(node),
        # A cluster's rank loads nothing before the ranks have met.
        turn=model.turn if model.shares(node) and knobs.topology == "cluster" else "",
        loads_in_turn=model.shares(node) and knobs.topology != "cluster",
        loaded_at=loaded_at(model, node),
        # An engine by itself serves its own node without them: the firewall holds its address.
        rails=rails_between(node, model.nodes) if knobs.topology == "cluster" else [],
        rdma=[each["device"] for each in _rdma(model, node)],
        rdma_s=RDMA_S,
        memory_mib=mib,
        memory_share=share,
        gpu=recipe.needs.gpu,
        cdi=node.cdi,
        ports=_ports(model, node),
        image=image.local,
        kernels=kept_kernels.place_of(model),
        models=[
            {
                "snapshot": f"{node.path(knobs.model_store)}/{each.folder}/snapshots/{each.revision}",
                "record": f"{PROVEN}/{each.folder}/{each.revision}.json",
                "only": each.files,
            }
            for each in recipe.models
        ],
    )


def _rdma(model: ServedModel, node: Node) -> list[dict[str, str]]:
    """`device` and `address` of those by which a rank meets the others; none where they meet by sockets."""
    by_sockets = model.knobs.topology != "cluster" or nccl.turns_rdma_off(model.recipe)
    return [] if by_sockets else rdma_between(node, model.nodes)


def _demand(model: ServedModel) -> tuple[int, int]:
    """What a start demands, as memory.py takes it: MiB, and thousandths of the whole. The node knows its whole: a
    figure of it here would start the engine anew with each kernel that keeps some MiB more for itself.
    """
    wanted = demand.of(model)
    return round(wanted.gib * 1024), round(wanted.share * 1000)


def _beside(model: ServedModel, node: Node, folder: str) -> list[dict[str, object]]:
    """What runs on the node beside the container until the model is loaded, and why."""
    answers_at, is_cluster = loaded_at(model, node), model.knobs.topology == "cluster"
    argv = ["python3", "-B", f"{folder}/starts.py", "beside"]
    found: list[dict[str, object]] = [{"why": "Sees the start, and keeps how long it took.", "argv": argv}]
    if is_cluster and model.shares(node):
        # It has a part: nothing is left beside it.
        argv = ["python3", "-B", f"{folder}/turn.py", model.unit, answers_at, model.meeting, model.turn]
        argv += [str(each) for each in _demand(model)]
        found.append({"why": "Gives the rank its turn to load when all have met.", "argv": argv})
    if model.recipe.needs.gpu:
        argv = ["python3", f"{folder}/memory.py", "beside", answers_at, *([model.meeting] if is_cluster else [])]
        found.append({"why": "Keeps memory free until the model is loaded.", "argv": argv})
    return found


def loaded_at(model: ServedModel, node: Node) -> str:
    """What answers once the model is loaded, and not before."""
    return f"{engine_url(model.knobs, model.ranks(node)[0])}{ENGINES[model.recipe.engine].SIGNS.path}"


def _ports(model: ServedModel, node: Node) -> list[dict[str, object]]:
    """Where a start on this node listens, and fails late when somebody else does."""
    ports: list[dict[str, object]] = []
    if node in model.answering:
        ports.append({"address": node.fabric, "port": model.knobs.engine_port})
    if node.leads and model.knobs.topology == "cluster":
        names = ("meeting", "gcs" if model.knobs.executor == "ray" else "master")
        ports += [{"address": node.fabric, "port": model.knobs.port(name)} for name in names]
    return ports


def gpu_trial(model: ServedModel, node: Node) -> list[str]:
    """Flags of `docker run` on which the GPU depends, for a start that only looks at it."""
    env = {name: value for name, value in model.recipe.env.items() if name.startswith(_GPU_ENV)}
    named = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    return [*_confined(model, node), *_gpu(model.recipe, node), *named]


def gpu_exports(recipe: Recipe) -> str:
    """What the shell of such a start fills in first, as start.sh does: the driver's libraries may hang on it."""
    named = {name: value for name, value in recipe.exports.items() if name.startswith(_GPU_ENV)}
    return "".join(f'export {name}="{inside_quotes(value)}"\n' for name, value in named.items())


def _gpu(recipe: Recipe, node: Node) -> list[str]:
    """With the hook of NVIDIA's runtime systemd can take a running container's devices at a daemon-reload; devices by
    CDI are known to it (nvidia-container-toolkit issue 48).
    """
    given = ("--device", CDI_DEVICE) if node.cdi else ("--gpus", "all")
    return [*given, *ENGINES[recipe.engine].docker(recipe)]


def _confined(model: ServedModel, node: Node) -> list[str]:
    """What its container may, and its control group."""
    low = ("NET_BIND_SERVICE",) if model.knobs.engine_port < 1024 else ()
    flags = lessened(*_ROOT, *(_MODS if model.recipe.start_mods or model.recipe.hooks else ()), *low)
    # The firewall knows its sockets by it.
    return [*flags, *(("--cgroup-parent", node.engine_group) if node.engine_group else ())]


def _engine_docker(
    model: ServedModel, node: Node, image: Image, folder: str, topology: str, handed: Sequence[str]
) -> list[str]:
    """`handed`: variables of run.sh that the container gets."""
    recipe, knobs = model.recipe, model.knobs
    # Not the host's: what a killed engine leaves in /dev/shm (vLLM's rings are 160 and 240 MB) goes with the container.
    argv = [*docker_run(model.unit), "--shm-size", SHARED_MEMORY, "--env-file", f"{folder}/engine.env"]
    argv += [word for name in handed for word in ("--env", name)]
    argv += _confined(model, node)
    # The guard kills by it; and where the kernel has to choose, it shall choose the engine.
    argv += ["--cidfile", model.container_id, "--oom-score-adj", "500"]
    argv += ["--label", f"tandem.recipe={recipe.name}", "--label", f"tandem.topology={topology}"]
    argv += ["--label", f"tandem.model={recipe.served_name}", "--label", f"tandem.answers={recipe.answers}"]
    if model.is_group:
        argv += ["--label", f"tandem.group={model.group}"]
    if node in model.answering:
        argv += ["--label", f"tandem.url={engine_url(knobs, node)}"]
    argv += ["--volume", f"{folder}:{environment.MOUNT}:ro"]
    argv += ["--volume", f"{node.path(knobs.model_store)}:{environment.HUB}:ro"]
    # Compiled kernels and graphs outlive the container: a first start on vLLM 0.26 takes 18 minutes, the next 7. It
    # may differ from rank to rank; what may not is elsewhere (operations/plan/engines/kept.py).
    argv += ["--volume", f"{CACHE}/{kept_kernels.place_of(model)}:{environment.CACHE_MOUNT}"]
    if recipe.needs.gpu:
        argv += _gpu(recipe, node)
    if knobs.topology == "cluster":
        if knobs.executor == "ray" and model.name:
            argv += ["--volume", f"{ENGINE_SECRETS}:{_SECRETS}:ro"]
        if knobs.executor == "ray":
            argv += ["--volume", f"{folder}/{environment.OWN_OF_RANKS}:{environment.NOT_COPIED}:ro"]
        # Where meet.py says to the node's canary whether the ranks have met.
        marks = posixpath.dirname(model.meeting)
        argv += ["--volume", f"{marks}:{marks}"]
        return [*argv, "--entrypoint", "python3", image.local, f"{environment.MOUNT}/meet.py", SPEC]
    return [*argv, "--entrypoint", f"{environment.MOUNT}/start.sh", image.local]


SERVICE = Contract(
    (ENGINE,), lambda its: [its.engine(each) for each in its.here], Start.OWN_STEP, removal=Removal.SERVING
)
