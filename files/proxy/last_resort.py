"""A callback of LiteLLM's: an engine that is left alone after a failure is better than none.

With every engine in its cooldown LiteLLM refuses requests for 20 s, although one broken connection is enough for a
cooldown, and the only engine of a cluster is in one whenever it has just come back.
"""

from __future__ import annotations

from typing import Any

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
        """The engines to choose from: all of them rather than none."""
        if healthy_deployments:
            return healthy_deployments
        from litellm.proxy.proxy_server import llm_router

        return list(llm_router.get_model_list(model_name=model) or [])  # type: ignore[union-attr]


callback = LastResort()
