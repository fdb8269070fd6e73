"""The proxy's unit, container and configuration."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from operations.plan.environment import MOUNT
from operations.plan.files import File, as_is, render
from operations.plan.images import proxy_image
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node
from operations.plan.places import ETC, KEYS_USED, PROXY, PROXY_USER, folder_of
from operations.plan.proxy import bind_address, client_url, in_url, modules, proxy_config
from operations.plan.recipe import Recipe
from operations.plan.service import SPEC, Service, confined, docker_run, seal


def proxy_service(recipe: Recipe, knobs: Knobs, head: Node, engines: Sequence[str]) -> Service:
    """The proxy on the head, over engines at these base URLs."""
    image = proxy_image(recipe, knobs)
    folder, bind = folder_of(PROXY), bind_address(knobs, head)
    docker = [*docker_run(PROXY), *confined(PROXY_USER), "--env", "LITELLM_LOCAL_MODEL_COST_MAP=True"]
    # An engine closes a connection that was idle for 5 s; a request that takes it up in that moment fails.
    docker += ["--env", "AIOHTTP_KEEPALIVE_TIMEOUT=2"]
    # A stream whose rail is cut says nothing at all: the kernel asks from the fifth second on (files/proxy/links.py).
    docker += ["--env", "AIOHTTP_SO_KEEPALIVE=True", "--env", "AIOHTTP_TCP_KEEPIDLE=5"]
    docker += ["--env", "AIOHTTP_TCP_KEEPINTVL=5", "--env", "AIOHTTP_TCP_KEEPCNT=3"]
    docker += ["--label", f"tandem.url={client_url(knobs, head)}", "--label", f"tandem.model={recipe.served_name}"]
    # What keys have used is kept beyond the container (files/proxy/door_counts.py).
    docker += ["--volume", f"{KEYS_USED}:/used"]
    docker += ["--volume", f"{folder}:{MOUNT}:ro", "--entrypoint", f"{MOUNT}/start.sh", image.local]
    config = yaml.safe_dump(proxy_config(recipe, knobs, engines), sort_keys=False)
    files = [
        File(f"{folder}/config.yaml", config),
        *(File(f"{folder}/{name}.py", as_is(f"proxy/{name}.py")) for name in modules(knobs)),
        File(f"{folder}/start.sh", render("proxy/start.sh.j2", bind=bind, port=knobs.proxy_port), "755"),
        File(
            f"{folder}/ready.sh",
            render("proxy/ready.sh.j2", address=bind, listens=in_url(bind), port=knobs.proxy_port),
            "755",
        ),
        File(f"{folder}/run.sh", render("run.sh.j2", docker=docker), "755"),
        File(f"/etc/systemd/system/{PROXY}.service", render("proxy/tandem-proxy.service.j2", etc=ETC, spec=SPEC)),
    ]
    return seal(PROXY, image, files, files)
