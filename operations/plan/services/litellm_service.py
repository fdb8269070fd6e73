"""The two LiteLLM behind a node's proxy: units, containers and configuration."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from operations.paths import ADMIN, KEYS_USED, LITELLM, PROXY, PROXY_USER, SHARED, SOCKETS, folder_of, unit_file
from operations.plan.cluster.environment import MOUNT
from operations.plan.config.files import File, as_is, render
from operations.plan.config.knobs import Knobs
from operations.plan.recipes.images import proxy_image
from operations.plan.services.contract import Context, Contract, Removal, Start
from operations.plan.services.litellm import MODULES, REQUEST_S, Behind, behind, fixed, proxy_config
from operations.plan.services.proxy_memory import bounded, container_id, memory
from operations.plan.services.service import SPEC, Program, Service, confined, docker_run, seal


def listens(unit: str) -> str:
    """The socket on which a LiteLLM takes requests."""
    return f"{SOCKETS}/{unit.removeprefix('tandem-')}.sock"


def pulse(unit: str) -> str:
    """The one on which it says that it runs (files/litellm/pulse.py)."""
    return f"{SOCKETS}/{unit.removeprefix('tandem-')}.pulse"


def config_of(unit: str) -> str:
    """Where its configuration lies."""
    return f"{folder_of(unit)}/config.yaml"


def haproxy_name(unit: str) -> str:
    """What HAProxy's configuration and its admin socket call a LiteLLM, `BACKEND/SERVER`: `litellm/litellm-a`."""
    return f"litellm/{unit.removeprefix('tandem-')}"


def litellm_service(knobs: Knobs, models: Sequence[Behind], unit: str) -> Service:
    """One LiteLLM over the engines of these models. They differ in their sockets alone. The engines are no part of the
    spec: they are taken up while it runs.
    """
    image, folder = proxy_image(models[0].recipe, knobs), folder_of(unit)
    docker = [
        *docker_run(unit),
        *confined(PROXY_USER, memory=memory(unit)),
        *bounded(unit),
        "--env",
        "LITELLM_LOCAL_MODEL_COST_MAP=True",
    ]
    # An engine closes a connection that was idle for 5 s; a request that takes it up in that moment fails.
    docker += ["--env", "AIOHTTP_KEEPALIVE_TIMEOUT=2"]
    # A stream whose rail is cut says nothing at all: the kernel asks from the fifth second on (files/litellm/links.py).
    docker += ["--env", "AIOHTTP_SO_KEEPALIVE=True", "--env", "AIOHTTP_TCP_KEEPIDLE=5"]
    docker += ["--env", "AIOHTTP_TCP_KEEPINTVL=5", "--env", "AIOHTTP_TCP_KEEPCNT=3"]
    docker += ["--env", f"TANDEM_LISTENS={listens(unit)}", "--env", f"TANDEM_PULSE={pulse(unit)}"]
    docker += ["--volume", f"{SOCKETS}:{SOCKETS}"]
    # HAProxy says who has asked, and nobody else gets to the socket.
    docker += ["--env", "FORWARDED_ALLOW_IPS=*"]
    # The proxy knows a body's length by its header alone.
    docker += ["--env", f"TANDEM_BODY_BYTES={knobs.proxy_body_mib << 20}"]
    if knobs.media_domains:
        docker += ["--env", f"TANDEM_MEDIA_DOMAINS={','.join(knobs.media_domains)}"]
    # And it waits for the beginning of one alone, as long as this.
    docker += ["--env", f"TANDEM_REQUEST_S={REQUEST_S}"]
    # What they know of each other (files/litellm/shared.py): in memory, so gone with a boot.
    docker += ["--env", "TANDEM_SHARED=/shared", "--volume", f"{SHARED}:/shared"]
    docker += ["--label", f"tandem.pulse=unix:{pulse(unit)}"]
    # What keys have used is kept beyond the container (files/litellm/door_counts.py).
    docker += ["--volume", f"{KEYS_USED}:/used", "--volume", f"{folder_of(PROXY)}/secrets:/secrets:ro"]
    docker += ["--volume", f"{folder}:{MOUNT}:ro", "--entrypoint", f"{MOUNT}/start.sh", image.local]
    config = proxy_config(knobs, models)
    ready = render(
        "litellm/ready.sh.j2",
        sockets=SOCKETS,
        container_id=container_id(unit),
        own=[listens(unit), pulse(unit)],
        shared=SHARED,
        user=PROXY_USER,
        folder=folder,
        admin=ADMIN,
        server=haproxy_name(unit),
    )
    service = render("litellm/tandem-litellm.service.j2", unit=unit, letter=unit[-1].upper(), folder=folder, spec=SPEC)
    files = [
        *(File(f"{folder}/{name}.py", as_is(f"litellm/{name}.py")) for name in (*MODULES, "undrain")),
        File(f"{folder}/start.sh", as_is("litellm/start.sh"), "755"),
        File(f"{folder}/ready.sh", ready, "755"),
        File(f"{folder}/run.sh", render("run.sh.j2", docker=docker), "755"),
        File(unit_file(unit), service),
    ]
    whole = File(config_of(unit), yaml.safe_dump(config, sort_keys=False))
    return seal(unit, image, [whole, *files], [File(config_of(unit), yaml.safe_dump(fixed(config))), *files])


def _both(its: Context) -> list[Program]:
    models = [behind(each, its.knobs) for each in its.models]
    return [litellm_service(its.knobs, models, unit) for unit in LITELLM]


#: One of them serves while the other is renewed.
SERVICE = Contract(LITELLM, _both, Start.OWN_STEP, removal=Removal.SERVING)
