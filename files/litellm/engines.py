"""The engines of LiteLLM's configuration are taken up while it runs.

A switch of topology changes which engines there are, and a start of LiteLLM takes ten seconds. So the file is looked
at twice a second, and its list of models goes to the router in one step of the event loop: a request that is under way
keeps the engine that it has. Everything else of the file is read at the start alone (litellm.py in operations/plan).
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import yaml
from litellm.proxy import proxy_server
from litellm.types.router import RetryPolicy

CONFIG = Path(__file__).parent / "config.yaml"
#: Seconds between two looks.
LOOK_S = 0.5


class Engines:
    """`loaded`: the hash of the file whose engines the router has; empty until it has some."""

    def __init__(self) -> None:
        self.loaded = ""
        self._seen = b""
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """From now on, as long as the event loop runs."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                self._look()
            except Exception as error:
                # The engines of before are still there, and the deploy sees that these are not taken.
                print(f"tandem: {CONFIG.name} is not taken up: {type(error).__name__}: {error}")
            await asyncio.sleep(LOOK_S)

    def _look(self) -> None:
        text, router = CONFIG.read_bytes(), proxy_server.llm_router
        if text == self._seen or router is None:
            return
        self._seen = text
        take(router, yaml.safe_load(text))
        self.loaded = hashlib.sha256(text).hexdigest()


def take(router: Any, config: dict[str, Any]) -> None:
    """The engines, and how often another one is tried."""
    settings = config["router_settings"]
    router.set_model_list(config["model_list"])
    router.num_retries = settings["num_retries"]
    router.retry_policy = RetryPolicy(**settings["retry_policy"]) if "retry_policy" in settings else None
    proxy_server.llm_model_list = router.get_model_list()


known = Engines()
