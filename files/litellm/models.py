"""What clients are told of the models that they can ask for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import loading
from door_answers import Said, no_model
from litellm.proxy import proxy_server


async def answer(name: str) -> Said:
    """The models, or the one of this name (empty: all). `max_model_len` is a context in tokens, `answers` what it is
    asked for; of one on demand `loaded` says whether it is, null where its node does not answer.
    """
    router = proxy_server.llm_router
    known = sorted(router.model_names) if router else []
    if name and name not in known:
        return no_model()
    told = await asyncio.gather(*map(_about, [name] if name else known))
    return 200, json.dumps(told[0] if name else {"object": "list", "data": [*told]}).encode(), []


async def _about(name: str) -> dict[str, Any]:
    entries = proxy_server.llm_router.get_model_list(model_name=name) if proxy_server.llm_router else None
    known: Any = entries[0].get("model_info", {}) if entries else {}
    context = {"max_model_len": known["context"]} if known.get("context") else {}
    about = {"id": name, "object": "model", "created": 0, "owned_by": "tandem"}
    on_demand = {"loaded": await loading.is_loaded(url)} if (url := known.get("loaded_by")) else {}
    return {**about, **context, "answers": known.get("mode") or "chat", **on_demand}
