"""LiteLLM's configuration: each model's name, and those of its adapters, over the engines that serve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operations.plan.cluster.addresses import load_url
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.knobs import Knobs
from operations.plan.engines import ENGINES
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.fallback import standby_urls
from operations.wire import Json

#: Callbacks of files/litellm/application.py. Engines go through their filters in turn.
_CALLBACKS = ("last_resort", "unavailable", "door")
#: Parts of the program, of files/litellm.
MODULES = (
    *("application", "attempts", "avoided", "balanced", "chats", "comes_back", "door", "door_answers", "door_body"),
    *("door_bounds", "door_counts", "door_keys", "door_limits", "door_log", "door_repeats", "door_size", "door_usage"),
    *("engines", "events", "forms", "last_resort", "links", "loading", "media", "models", "passthrough", "pictures"),
    *("plain", "protocols", "pulse"),
    *("resume", "serve", "shapes", "shared", "standby", "streaming", "suspects", "unavailable"),
)
#: Settings of the router that follow from the engines.
_LIVE = ("num_retries", "retry_policy")
#: How an engine is chosen: LiteLLM's own strategy, and the callbacks that leave it no choice.
_ROUTING: dict[str, tuple[str, tuple[str, ...]]] = {
    "simple-shuffle": ("simple-shuffle", ()),
    "balanced": ("simple-shuffle", ("balanced",)),
    "least-busy": ("least-busy", ()),
}
#: Seconds until an answer must be complete, and until the first token of a stream: a GB10 reads a prompt of 200,000
#: tokens for two minutes, and one that is given up goes to the next engine, which then reads as long. An engine that
#: hangs is the canary's matter, a cut rail that of links.py. LiteLLM's own default, 6000, is a hang.
TIMEOUT_S = 900
#: Seconds that a client has for its headers and the first part of its body, and for each further one of that size.
REQUEST_S = 30
#: Seconds for which the proxy leaves an engine alone after a failure.
COOLDOWN_S = 20

#: How often a request is tried again where there is another engine.
RETRIES = 5
#: Without it LiteLLM tries nothing again while every engine is in a cooldown, and one that is only just back is in one:
#: when the other went then, eight requests of eight were turned away. What the client did wrong is not tried again.
_RETRY_POLICY = {
    "DefaultRetries": RETRIES,
    "BadRequestErrorRetries": 0,
    "AuthenticationErrorRetries": 0,
    "ContentPolicyViolationErrorRetries": 0,
    "NotFoundErrorRetries": 0,
}


@dataclass(frozen=True)
class Behind:
    """One model as the proxy sees it: base URLs of its engines, `http://ADDRESS:PORT`, and those of nodes that serve
    alone for a cluster (files/litellm/standby.py). `loaded_by`: the URL at which its node is asked to load it, where it
    is on demand (files/litellm/loading.py).
    """

    recipe: Recipe
    engines: tuple[str, ...]
    standby: tuple[str, ...] = ()
    loaded_by: str = ""


def behind(model: ServedModel, knobs: Knobs) -> Behind:
    """What the proxy is to know of a model. `knobs`: those that are not one model's."""
    loaded_by = load_url(knobs, model.leader, model.unit) if model.is_on_demand else ""
    return Behind(model.recipe, tuple(model.endpoints.values()), tuple(standby_urls(model)), loaded_by)


def _callbacks(knobs: Knobs) -> list[str]:
    standby = ("standby",) if knobs.falls_back else ()
    return [f"application.{name}" for name in (*_CALLBACKS, *standby, *_ROUTING[knobs.routing][1])]


def fixed(config: Json) -> Json:
    """The part of a configuration that LiteLLM reads at its start alone (files/litellm/engines.py has the other)."""
    router = {name: value for name, value in config["router_settings"].items() if name not in _LIVE}
    return {**{name: value for name, value in config.items() if name != "model_list"}, "router_settings": router}


def _model_info(recipe: Recipe, is_standby: bool, loaded_by: str) -> Json:
    about: Json = {"standby": True} if is_standby else {}
    if loaded_by:
        about["loaded_by"] = loaded_by
    if context := ENGINES[recipe.engine].memory(recipe).context:
        # For files/litellm/models.py.
        about["context"] = context
    if recipe.answers != "chat":
        # LiteLLM's own word for what can be asked of it; nothing: chat.
        about["mode"] = recipe.answers
    elif words := ENGINES[recipe.engine].continues(recipe):
        # For files/litellm/resume.py.
        about["continues"] = dict(words)
    return {"model_info": about} if about else {}


def proxy_config(knobs: Knobs, models: Sequence[Behind]) -> Json:
    """The content of config.yaml."""
    is_tried_again = any(len(each.engines) + len(each.standby) > 1 for each in models)
    return {
        "model_list": [
            {
                "model_name": name,
                "litellm_params": {
                    "model": f"{ENGINES[each.recipe.engine].LITELLM_PREFIX}/{name}",
                    "api_base": f"{engine}/v1",
                    "api_key": "none",
                    "timeout": TIMEOUT_S,
                    "stream_timeout": TIMEOUT_S,
                },
                **_model_info(each.recipe, engine in each.standby, each.loaded_by),
            }
            for each in models
            for name in (each.recipe.served_name, *ENGINES[each.recipe.engine].adapters(each.recipe))
            for engine in (*each.engines, *each.standby)
        ],
        "router_settings": {
            "routing_strategy": _ROUTING[knobs.routing][0],
            # Measured with one of two engines gone: 2 retries alone lost 2 requests of 10; 3 lost none of 20. Two
            # more for an engine that is chosen as a last resort. A single one that is down is not up a moment later.
            "num_retries": RETRIES if is_tried_again else 1,
            **({"retry_policy": _RETRY_POLICY} if is_tried_again else {}),
            "allowed_fails": 0,
            "cooldown_time": COOLDOWN_S,
            "timeout": TIMEOUT_S,
        },
        "litellm_settings": {"telemetry": False, "callbacks": _callbacks(knobs)},
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
    }
