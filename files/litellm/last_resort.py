"""A callback of LiteLLM's: an engine that is left alone after a failure is better than none.

With every engine in its cooldown LiteLLM refuses requests for 20 s, although one broken connection is enough for a
cooldown, and the only engine of a cluster is in one whenever it has just come back.
"""

from __future__ import annotations

from typing import Any

import avoided
from litellm.integrations.custom_logger import CustomLogger


class LastResort(CustomLogger):
    """Asked for each request, behind the filter of cooldowns."""

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[Any],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[Any]:
        """The engines to choose from; rather than none the one that has not failed for the longest time: whichever
        failed a moment ago is the one that is away. Those that have failed over this very request are not among them,
        as long as there are others.
        """
        if healthy_deployments:
            failed = avoided.addresses.get()
            others = [
                each for each in healthy_deployments if failed and each["litellm_params"]["api_base"] not in failed
            ]
            return others or healthy_deployments
        from litellm.proxy.proxy_server import llm_router

        assert llm_router
        engines: list[Any] = list(llm_router.get_model_list(model_name=model) or [])
        names = [engine["model_info"]["id"] for engine in engines]
        cooling = dict(await llm_router.cooldown_cache.async_get_active_cooldowns(names, parent_otel_span=None))

        def when(engine: Any) -> float:
            name = engine["model_info"]["id"]
            return float(cooling[name]["timestamp"]) if name in cooling else 0.0

        return sorted(engines, key=when)[:1]


callback = LastResort()
