"""The proxy that clients of a node reach: HAProxy, before two LiteLLM of which each may die, hang or be renewed."""

from __future__ import annotations

from collections.abc import Sequence

from operations.paths import (
    ADMIN,
    AT_OFFICE,
    LITELLM,
    OFFICE,
    OFFICE_RUN,
    PAGE_RUN,
    PAGE_SOCKET,
    PROXY,
    PROXY_ASKED,
    PROXY_CONFIG,
    PROXY_LOADED,
    PROXY_MODEL,
    PROXY_RUN,
    PROXY_USER,
    SOCKETS,
    TLS,
    folder_of,
    unit_file,
)
from operations.plan.cluster.environment import MOUNT
from operations.plan.cluster.nodes import Node
from operations.plan.config.files import File, render
from operations.plan.config.knobs import Knobs
from operations.plan.recipes.images import proxy_image
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.contract import Contract, Removal, Start
from operations.plan.services.litellm import REQUEST_S, TIMEOUT_S
from operations.plan.services.litellm_service import haproxy_name, listens, pulse
from operations.plan.services.page import ROOT as PAGE_ROOT
from operations.plan.services.proxy import bind_addresses, in_url, kept_url, shared_url
from operations.plan.services.proxy_memory import bounded, container_id, memory
from operations.plan.services.service import SPEC, Service, confined, docker_run, seal

#: Connections at once, idle ones among them. Each costs HAProxy some kB until something goes through it.
CONNECTIONS = 2000
#: A host has three quarters of what all may have at once, and these at least: idle ones count too.
LEAST_EACH = 64
#: Methods that a request may have.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: Headers that a key may be in (files/litellm/door.py).
KEY_HEADERS = (
    *("authorization", "x-litellm-api-key", "api-key", "x-api-key", "x-goog-api-key"),
    "ocp-apim-subscription-key",
)
#: Bytes of a body that are kept whole: a prompt of 100,000 tokens. For each connection twice as much may be held. What
#: comes behind them is timed by LiteLLM's door (files/litellm/door_size.py).
BUFFER = 512 << 10
#: Seconds that an answer may be silent: LiteLLM gives an engine up first, and says why.
ANSWER_S = TIMEOUT_S + 30
#: Seconds after which a client may try again: at the other LiteLLM, when one has started (6 to 16 s), and at most: the
#: programs of OpenAI and Anthropic take no notice of more than a minute (files/litellm/comes_back.py).
AGAIN_S, START_S, MOST_S = 2, 10, 60
#: What HAProxy says itself, in OpenAI's form: status, type, code, message.
_ERRORS = (
    (400, "invalid_request_error", "bad_request", "this is no HTTP request"),
    (401, "invalid_request_error", "invalid_api_key", "no key: it goes into `Authorization: Bearer`"),
    (405, "invalid_request_error", "method_not_allowed", "this is no method of this service"),
    (408, "invalid_request_error", "request_timeout", f"the request did not arrive in {REQUEST_S} s"),
    (413, "invalid_request_error", "request_too_large", "the body is larger than this service takes"),
    (429, "requests", "rate_limit_exceeded", "too many requests are under way here; try again"),
    (502, "server_error", "bad_gateway", "the proxy has lost this request; send it again"),
    (503, "server_error", "service_unavailable", "the service starts, or is down; try again"),
    (504, "server_error", "gateway_timeout", f"no answer in {ANSWER_S} s"),
)


#: Where HAProxy finds what is said of the office's interface, and how it listens there (files/office/office.py).
_OFFICE = "/office"
_OFFICE_BIND = '"${OFFICE}" transparent'


def _bind(address: str, port: int) -> str:
    """One that is not here yet, or any more, is no reason not to start: the kernel lets it be bound (IP_FREEBIND)."""
    return f"{in_url(address)}:{port}{'' if address in ('0.0.0.0', '127.0.0.1') else ' transparent'}"


def _reload(read_by: Sequence[str], follows: bool) -> str:
    more = {"office_run": OFFICE_RUN if follows else "", "config": PROXY_CONFIG, "loaded": PROXY_LOADED}
    return render("proxy/reload.sh.j2", read_by=read_by, **more)


def proxy_service(recipe: Recipe, knobs: Knobs, node: Node) -> Service:
    """The proxy of a node. Its configuration is no part of the spec: a change is loaded while it runs."""
    image, folder = proxy_image(recipe, knobs), folder_of(PROXY)
    docker = [*docker_run(PROXY), *confined(PROXY_USER, memory=memory(PROXY)), *bounded(PROXY)]
    docker += ["--label", f"tandem.url={kept_url(knobs, node)}"]
    if shared_url(knobs):
        docker += ["--label", f"tandem.address={shared_url(knobs)}"]
    docker += ["--volume", f"{PROXY_RUN}:{PROXY_RUN}", "--volume", f"{SOCKETS}:{SOCKETS}"]
    # The page comes and goes, and HAProxy is not started anew for it.
    docker += ["--volume", f"{PAGE_RUN}:{PAGE_RUN}:ro"]
    docker += ["--volume", f"{folder}:{MOUNT}:ro"]
    if knobs.tls != "off":
        docker += ["--volume", f"{TLS}:/tls:ro"]
    if AT_OFFICE in bind_addresses(knobs, node):
        docker += ["--volume", f"{OFFICE_RUN}:{_OFFICE}:ro"]
    # The keys, which lie there as well, are no matter of HAProxy's: an empty folder lies over them.
    docker += ["--tmpfs", f"{MOUNT}/secrets:ro,size=4k", "--entrypoint", "haproxy", image.local]
    addresses = bind_addresses(knobs, node)
    follows = AT_OFFICE in addresses
    # The addresses first: the other file has them as a variable.
    read = [*([f"{_OFFICE}/haproxy.cfg"] if follows else []), f"{MOUNT}/{PROXY_CONFIG.rpartition('/')[2]}"]
    read_by = [word for each in read for word in ("-f", each)]
    docker += ["-W", "-db", *read_by]
    named = [in_url(address) for address in addresses if address != AT_OFFICE]
    each = max(LEAST_EACH, knobs.proxy_requests * 3 // 4)
    config = render(
        "proxy/haproxy.cfg.j2",
        admin=ADMIN,
        connections=CONNECTIONS,
        buffer=BUFFER,
        asked=PROXY_ASKED.removeprefix("unix:"),
        exports=knobs.monitoring != "off",
        page=PAGE_ROOT if knobs.monitoring != "off" else "",
        page_socket=PAGE_SOCKET,
        connections_each=each,
        # Where nobody comes from elsewhere, nobody has to be left any.
        connections_local=CONNECTIONS - each if set(addresses) != {"127.0.0.1"} else 0,
        methods=METHODS,
        key_headers=KEY_HEADERS,
        answer_s=ANSWER_S,
        request_s=REQUEST_S,
        again_s=AGAIN_S,
        start_s=START_S,
        most_s=MOST_S,
        errors=_ERRORS,
        binds=[_OFFICE_BIND if each == AT_OFFICE else _bind(each, knobs.proxy_port) for each in addresses],
        certificate="" if knobs.tls == "off" else "/tls/proxy.pem",
        body_bytes=knobs.proxy_body_mib << 20,
        requests=knobs.proxy_requests,
        processes=[(haproxy_name(unit).partition("/")[2], listens(unit), pulse(unit)) for unit in LITELLM],
    )
    ready = render(
        "proxy/ready.sh.j2",
        office=folder_of(OFFICE) if follows else "",
        office_run=OFFICE_RUN,
        port=knobs.proxy_port,
        listens=named,
        sockets=SOCKETS,
        container_id=container_id(PROXY),
        run=PROXY_RUN,
        user=PROXY_USER,
        config=PROXY_CONFIG,
        loaded=PROXY_LOADED,
    )
    started = [
        File(f"{folder}/ready.sh", ready, "755"),
        File(f"{folder}/reload.sh", _reload(read_by, follows), "755"),
        File(f"{folder}/run.sh", render("run.sh.j2", docker=docker), "755"),
        File(
            unit_file(PROXY),
            render("proxy/tandem-proxy.service.j2", folder=folder, spec=SPEC),
        ),
    ]
    # HAProxy does not know of models: another one is no reason to start it anew.
    live = [File(PROXY_CONFIG, config), File(PROXY_MODEL, f"{recipe.served_name}\n")]
    return seal(PROXY, image, [*live, *started], started)


SERVICE = Contract(
    (PROXY,),
    lambda its: [proxy_service(its.recipe, its.knobs, its.node)],
    Start.OWN_STEP,
    removal=Removal.SERVING,
)
