"""A callback of LiteLLM's: an engine that is there only while a cluster lacks a node is the last to be asked.

Such an engine is marked in the configuration (`standby`). As long as the cluster serves nobody listens at its address,
and each try would be one in vain. Behind the filter of cooldowns and last_resort.py.
"""

from __future__ import annotations

from typing import Any

from litellm.integrations.custom_logger import CustomLogger


class Standby(CustomLogger):
    """Asked for each try of each request."""

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[Any],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[Any]:
        """The engines that are no standby; where there is none, the others."""
        first = [engine for engine in healthy_deployments if not engine.get("model_info", {}).get("standby")]
        return first or healthy_deployments


callback = Standby()
