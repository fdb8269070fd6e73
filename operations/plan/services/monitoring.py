"""What a node exports for Prometheus, and the configuration of a Prometheus that scrapes all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from operations.paths import EXPORTER, PAGE, PROXY_ASKED, TLS, folder_of
from operations.plan.cluster.addresses import engine_url
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.files import FILES, File, node_program
from operations.plan.config.knobs import Knobs
from operations.plan.engines import ENGINES
from operations.plan.services.contract import Contract, Start
from operations.plan.services.engine_service import STARTS
from operations.plan.services.service import Program, Service, python_program
from operations.wire import Json
from operations.wire.specs import ExporterSpec, OnDemand, Passed

_PARTS = ("background_call", "facts", "happened", "machine", "passed", "text")
#: Of HAProxy's own some thousand lines: who asks, how long it takes, what is answered, which LiteLLM is up.
_OF_PROXY = (
    r"haproxy_(frontend|backend)_(current_sessions|bytes_(in|out)_total|http_(requests|responses)_total)$"
    r"|haproxy_(backend|server)_(response|total)_time_average_seconds$|haproxy_server_(status|current_sessions)$"
)
RULES = FILES / "monitoring/rules.yml"


def exporter(
    knobs: Knobs, node: Node, models: Sequence[tuple[ServedModel, Service]], units: Sequence[str]
) -> Program | None:
    """The exporter of a node that serves; None: nobody wants one. `models`: those with a part there, and that part;
    `units`: all that may be there.
    """
    if knobs.monitoring == "off":
        return None
    folder = folder_of(EXPORTER)
    passed: dict[str, Passed] = {"proxy": {"url": f"{PROXY_ASKED}:/metrics", "names": _OF_PROXY}}
    for model, _ in models:
        if node.name in model.endpoints or knobs.falls_back:
            runs = ENGINES[model.recipe.engine]
            url = f"{engine_url(model.knobs, node)}{runs.SIGNS.path}"
            # Alarms and figures name the model as its clients do.
            passed[model.unit.removeprefix("tandem-")] = {
                "url": url,
                "names": runs.METRICS,
                "model": model.recipe.served_name,
            }
    wanted: ExporterSpec = {
        "address": node.fabric,
        "port": knobs.monitoring_port,
        "facts": {
            "units": [unit for unit in units if unit not in (PAGE, EXPORTER)],
            "store": node.path(knobs.model_store),
            "rails": list(node.rails),
            "floor_mib": round(knobs.memory_floor_gib * 1024),
            "starts": STARTS,
            "plans": [
                {
                    "recipe": each.recipe.name,
                    "topology": each.topology,
                    "model": each.recipe.served_name,
                    "spec": engine.spec,
                    "unit": each.unit,
                    **rests(each),
                }
                for each, engine in models
            ],
            "certificate": "" if knobs.tls == "off" else f"{TLS}/proxy.pem",
        },
        "passed": passed,
    }
    more = [
        File(f"{folder}/speaking.py", node_program("door/speaking.py")),
        File(f"{folder}/phases.py", node_program("unit/phases.py")),
    ]
    return python_program(EXPORTER, wanted, _PARTS, more, gpu=any(each.recipe.needs.gpu for each, _ in models))


def rests(model: ServedModel) -> OnDemand:
    """What pages and alarms are told of a model on demand."""
    return {"on_demand": "yes"} if model.is_on_demand else {}


def addresses_by_knobs(knobs: Knobs, names: Sequence[str]) -> dict[str, str]:
    """What each node is called by on the fabric, where nobody has been asked; solo's is the head's own loopback. In a
    ring (operations/plan/cluster/ring.py) all but the head's and the next one's are others.
    """
    if knobs.topology == "solo":
        return {names[0]: "127.0.0.1"}
    first = knobs.rail_subnets[0].network_address
    return {name: str(first + 11 + index) for index, name in enumerate(names)}


def targets(knobs: Knobs, addresses: Mapping[str, str]) -> dict[str, str]:
    """`address:port` of each node's exporter. `addresses`: what each node is called by on the fabric."""
    return {name: f"{address}:{knobs.monitoring_port}" for name, address in addresses.items()}


def scrape_job(of: Mapping[str, str]) -> Json:
    """The job of a Prometheus that scrapes these targets."""
    static = [{"targets": [target], "labels": {"node": name}} for name, target in of.items()]
    return {"job_name": "tandem", "scrape_interval": "15s", "scrape_timeout": "10s", "static_configs": static}


def scrape_config(of: Mapping[str, str]) -> str:
    """For the `scrape_configs` of a Prometheus on a node, as YAML."""
    return yaml.safe_dump({"scrape_configs": [scrape_job(of)]}, sort_keys=False)


SERVICE = Contract(
    (EXPORTER,),
    lambda its: [exporter(its.knobs, its.node, [(each, its.engine(each)) for each in its.here], its.units)],
    Start.AT_END,
)
