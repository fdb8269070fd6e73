"""The door's own layer (files/litellm/passthrough.py) on a port, over models on demand, with a double of LiteLLM.

`door_on_demand.py FOLDER PORT FILE`: FILE is JSON, model -> {engine, loaded_by}, and read for each request. Run by the
proxy's own Python: aiohttp, orjson and uvicorn are real; of LiteLLM there is a router that knows an engine a model.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


class RouterDouble:
    """LiteLLM's router, as far as the door asks it."""

    num_retries, cooldown_time = 1, 20
    cooldown_cache = SimpleNamespace(add_deployment_to_cooldown=lambda *_: None)

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def entries(self) -> dict[str, dict[str, Any]]:
        return {
            name: {
                "model_name": name,
                "model_info": {"id": name, **{word: each[word] for word in ("loaded_by", "mode") if each.get(word)}},
                "litellm_params": {"api_base": f"{each['engine']}/v1"},
            }
            for name, each in json.loads(self.file.read_text()).items()
        }

    @property
    def model_names(self) -> list[str]:
        return list(self.entries)

    def get_model_list(self, model_name: str | None = None) -> list[dict[str, Any]]:
        return [each for name, each in self.entries.items() if model_name in (None, name)]

    async def async_get_available_deployment(self, model: str, **_: Any) -> dict[str, Any]:
        return self.entries[model]


def main(folder: str, port: int, file: Path) -> None:
    """Serve, for ever."""
    names = ("litellm", "litellm.integrations", "litellm.llms", "litellm.llms.custom_httpx", "litellm.types", "fastapi")
    router = RouterDouble(file)
    leaves: dict[str, dict[str, Any]] = {
        "litellm.constants": {"AIOHTTP_KEEPALIVE_TIMEOUT": 2},
        "litellm.integrations.custom_logger": {"CustomLogger": object},
        "litellm.llms.custom_httpx.http_handler": {"build_aiohttp_keepalive_socket_factory": lambda: None},
        "litellm.proxy": {"proxy_server": SimpleNamespace(llm_router=router)},
        "fastapi": {"HTTPException": Exception},
    }
    for name in {*names, *leaves}:
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(leaves.get(name, {}))
    vars(sys.modules["litellm.llms.custom_httpx"])["http_handler"] = sys.modules[
        "litellm.llms.custom_httpx.http_handler"
    ]
    sys.path.insert(0, folder)
    import uvicorn

    loading: Any = importlib.import_module("loading")
    passthrough: Any = importlib.import_module("passthrough")

    # A node of a test's unloads sooner as well (desk_double.py).
    loading.GONE_S, loading.TOLD_S, loading.LOADED_S = 3.0, 0.2, 0.1

    async def nothing(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    uvicorn.run(passthrough.Passthrough(nothing), host="127.0.0.1", port=port, log_level="error", lifespan="off")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
