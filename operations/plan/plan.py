"""recipe x topology x nodes -> what each node shall have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import yaml

from operations.plan import engine, environment, proxy
from operations.plan.files import File, as_is, digest, render
from operations.plan.images import Image
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal

ETC = "/etc/tandem"
NETPLAN = "/etc/netplan/90-tandem-fabric.yaml"
ENGINE = "tandem-engine"
PROXY = "tandem-proxy"
UNIT_FILES = tuple(f"/etc/systemd/system/{unit}.service" for unit in (ENGINE, PROXY))
RAY_TOKEN = f"{ETC}/engine/secrets/ray.token"
#: Stands in rendered files where the spec will be, which is a hash over those files.
SPEC = "@SPEC@"
PROXY_KEY = f"{ETC}/proxy/secrets/master.key"


@dataclass(frozen=True)
class Service:
    """A unit with its container and files. `spec` changes when, and only when, it must be restarted."""

    unit: str
    image: Image
    files: tuple[File, ...]
    spec: str


@dataclass(frozen=True)
class NodePlan:
    """What one node shall have; None is: must not be there."""

    node: Node
    netplan: File | None
    engine: Service | None
    proxy: Service | None

    @property
    def services(self) -> dict[str, Service | None]:
        return {ENGINE: self.engine, PROXY: self.proxy}


@dataclass(frozen=True)
class Plan:
    """The whole declared state."""

    knobs: Knobs
    recipe: Recipe
    nodes: tuple[NodePlan, ...]

    @property
    def head(self) -> NodePlan:
        return self.nodes[0]

    @property
    def serving(self) -> tuple[NodePlan, ...]:
        """Nodes that run a rank or an engine, the head first."""
        return tuple(each for each in self.nodes if each.engine)

    @property
    def endpoints(self) -> dict[str, str]:
        """Base URL of each engine, by the node that answers on it."""
        answering = self.serving if self.knobs.topology == "replicas" else (self.head,)
        return {each.node.name: engine.url(self.knobs, each.node) for each in answering}

    @property
    def url(self) -> str:
        """The one address that clients know."""
        return proxy.client_url(self.knobs, self.head.node)

    def of(self, name: str) -> NodePlan:
        return next(each for each in self.nodes if each.node.name == name)


def check_topology(recipe: Recipe, knobs: Knobs, node_count: int) -> None:
    """Refuse what can't be, with the knob that would have to change."""
    if knobs.topology not in recipe.topologies:
        allowed = ", ".join(recipe.topologies)
        problem = f"topology={knobs.topology!r}: the recipe {recipe.name} runs in: {allowed}"
        raise Refusal(Finding("data", problem, f"set topology to one of: {allowed}, or choose another recipe"))
    if node_count + 11 > min(subnet.num_addresses for subnet in knobs.rail_subnets) - 2:
        problem = (
            f"fabric_subnets={knobs.fabric_subnets!r}: too small for {node_count} nodes, of which the head has .11"
        )
        raise Refusal(Finding("data", problem, "give each rail a wider subnet, a /24 for instance"))
    if knobs.topology != "solo" and node_count < 2:
        problem = f"topology={knobs.topology!r} needs two nodes or more; the inventory has {node_count}"
        raise Refusal(Finding("data", problem, "add a node to the inventory, or set topology to solo"))


def make_plan(recipe: Recipe, knobs: Knobs, nodes: Sequence[Node]) -> Plan:
    """The plan; raises Refusal when recipe, topology and nodes do not go together."""
    check_topology(recipe, knobs, len(nodes))
    serving = nodes[:1] if knobs.topology == "solo" else nodes
    image = Image("engine", recipe.image, knobs.engine_image_from)
    engines = _sealed({node.name: _engine_files(recipe, knobs, node, serving, image) for node in serving}, image, knobs)
    draft = Plan(knobs, recipe, tuple(NodePlan(n, _netplan(knobs, n), engines.get(n.name), None) for n in nodes))
    head = replace(draft.head, proxy=_proxy_service(draft))
    return replace(draft, nodes=(head, *draft.nodes[1:]))


def _sealed(engines: dict[str, list[File]], image: Image, knobs: Knobs) -> dict[str, Service]:
    """Services with their spec: one over all ranks in a cluster, so that a change to any restarts every one."""
    everything = [File(f"{name}:{file.path}", file.content, file.mode) for name in engines for file in engines[name]]
    return {
        name: _seal(ENGINE, image, files, everything if knobs.topology == "cluster" else files)
        for name, files in engines.items()
    }


def _seal(unit: str, image: Image, files: list[File], hashed: list[File]) -> Service:
    spec = digest(hashed, image.local)
    sealed = tuple(replace(file, content=file.content.replace(SPEC, spec)) for file in files)
    return Service(unit, image, sealed, spec)


def _engine_files(recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node], image: Image) -> list[File]:
    head, ranks = serving[0], len(serving)
    env = environment.common_environment(recipe)
    if knobs.topology == "cluster":
        env |= environment.rank_environment(node)
        if knobs.executor == "ray":
            env |= environment.ray_environment(node, head, knobs)
    # The recipe has the last word on everything that it may say (OWNED_ENV is refused when it is read).
    env |= recipe.env
    folder = f"{ETC}/engine"
    files = [
        File(f"{folder}/engine.env", "".join(f"{name}={value}\n" for name, value in env.items()), "600"),
        File(
            f"{folder}/start.sh", render("engine/start.sh.j2", commands=_commands(recipe, knobs, node, serving)), "755"
        ),
        File(
            f"{folder}/ready.sh",
            render(
                "engine/ready.sh.j2", address=node.fabric, memory_mib=round(recipe.memory_gib(knobs.topology) * 1024)
            ),
            "755",
        ),
    ]
    if knobs.topology == "cluster":
        meeting = {"address": head.fabric, "port": knobs.port("meeting"), "ranks": ranks, "rank": node.index}
        files.append(File(f"{folder}/meeting.json", json.dumps(meeting) + "\n"))
        files.append(File(f"{folder}/meet.py", as_is("engine/meet.py")))
        if knobs.executor == "ray":
            files.append(File(f"{folder}/ray_nodes.py", as_is("engine/ray_nodes.py")))
    role = f"rank {node.index} of {ranks}" if knobs.topology == "cluster" else knobs.topology
    files.append(
        File(f"{folder}/run.sh", render("run.sh.j2", docker=_engine_docker(recipe, knobs, node, image)), "755")
    )
    unit = render("engine/tandem-engine.service.j2", description=f"{recipe.name}, {role}", etc=ETC)
    return [*files, File(f"/etc/systemd/system/{ENGINE}.service", unit)]


def _commands(recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> list[list[str]]:
    """What runs in the container, in order; the last one stays."""
    head, ranks = serving[0], len(serving)
    if knobs.topology != "cluster":
        return [engine.serve(recipe, knobs, node, 1)]
    if knobs.executor == "mp":
        return [engine.mp_serve(recipe, knobs, head, node.index, ranks)]
    if not node.is_head:
        return [engine.ray_start(knobs, node, head)]
    return [
        engine.ray_start(knobs, node, head),
        ["python3", f"{environment.MOUNT}/ray_nodes.py", str(ranks)],
        engine.ray_serve(recipe, knobs, head, ranks),
    ]


def _engine_docker(recipe: Recipe, knobs: Knobs, node: Node, image: Image) -> list[str]:
    argv = [*_docker_run(ENGINE), "--ipc", "host", "--env-file", f"{ETC}/engine/engine.env"]
    argv += ["--label", f"tandem.recipe={recipe.name}", "--label", f"tandem.topology={knobs.topology}"]
    argv += ["--label", f"tandem.model={recipe.served_name}"]
    if node.is_head or knobs.topology == "replicas":
        argv += ["--label", f"tandem.url={engine.url(knobs, node)}"]
    argv += ["--volume", f"{ETC}/engine:{environment.MOUNT}:ro"]
    argv += ["--volume", f"{node.path(knobs.model_store)}:{environment.HUB}:ro"]
    # Compiled kernels and graphs outlive the container: a first start on vLLM 0.26 takes 18 minutes, the next 7.
    argv += ["--volume", f"/var/lib/tandem/cache/{image.local.rpartition(':')[2]}:/root/.cache"]
    if recipe.needs.gpu:
        argv += ["--gpus", "all", "--ulimit", "memlock=-1", "--cap-add", "IPC_LOCK"]
    if node.rdma:
        argv += ["--device", "/dev/infiniband"]
    if knobs.topology == "cluster":
        return [*argv, "--entrypoint", "python3", image.local, f"{environment.MOUNT}/meet.py", SPEC]
    return [*argv, "--entrypoint", f"{environment.MOUNT}/start.sh", image.local]


def _proxy_service(plan: Plan) -> Service:
    knobs, head = plan.knobs, plan.head.node
    image = Image("proxy", knobs.proxy_image, knobs.proxy_image_from)
    config = proxy.proxy_config(plan.recipe, knobs, list(plan.endpoints.values()))
    bind = proxy.bind_address(knobs, head)
    folder = f"{ETC}/proxy"
    files = [
        File(f"{folder}/config.yaml", yaml.safe_dump(config, sort_keys=False)),
        File(f"{folder}/start.sh", render("proxy/start.sh.j2", bind=bind, port=knobs.proxy_port), "755"),
    ]
    docker = [*_docker_run(PROXY), "--env", "LITELLM_LOCAL_MODEL_COST_MAP=True"]
    docker += ["--label", f"tandem.url={plan.url}", "--label", f"tandem.model={plan.recipe.served_name}"]
    docker += ["--volume", f"{folder}:{environment.MOUNT}:ro"]
    docker += ["--entrypoint", f"{environment.MOUNT}/start.sh", image.local]
    files.append(File(f"{folder}/run.sh", render("run.sh.j2", docker=docker), "755"))
    unit = render("proxy/tandem-proxy.service.j2", etc=ETC, wait_for=bind)
    files.append(File(f"/etc/systemd/system/{PROXY}.service", unit))
    return _seal(PROXY, image, files, files)


def _docker_run(name: str) -> list[str]:
    """What both containers share: foreground, removed when they end, logs bounded."""
    return [
        *("/usr/bin/docker", "run", "--rm", "--init", "--name", name, "--label", f"tandem.spec={SPEC}"),
        *("--network", "host", "--pull", "never", "--log-driver", "local", "--log-opt", "max-size=50m"),
    ]


def _netplan(knobs: Knobs, node: Node) -> File | None:
    if not node.rails:
        return None
    rails = [
        {"device": device, "address": f"{address}/{subnet.prefixlen}"}
        for device, address, subnet in zip(node.rails, node.rail_addresses, node.subnets, strict=True)
    ]
    content = render("fabric/90-tandem-fabric.yaml.j2", rails=rails, mtu=knobs.fabric_mtu)
    return File(NETPLAN, content, "600")
