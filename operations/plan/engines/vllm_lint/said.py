"""What a recipe's words come to, in whichever spelling: a flag, its `no-` form, a key of a configuration in JSON."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from operations.plan.engines import vllm_flags
from operations.plan.engines.base import size
from operations.plan.recipes.lint.subject import Subject
from operations.wire import Json

#: Short names of flags that are configurations.
_SHORT = {"compilation-config": "cc", "attention-config": "ac", "speculative-config": "sc"}
_FALSE = ("false", "0", "no", "off", "none", "null")
#: By the name alone: no more is known of a model before it is there.
_MAMBA = r"nemotron-?h|nemotron-?3|nemotron-nano-(?:9|12)b-v2|jamba|bamba|zamba|falcon-h1|granite-?4|codestral-mamba"
_GDN = r"qwen-?3\.(?:5|6|8)|qwen3-next|qwen3-coder-next|qwen4|kimi-linear|ling-3|ring-3|olmo-hybrid|glm-5\.3-flash"
_MOE = (
    r"(?:^|[-_/])a\d+(?:\.\d+)?b(?:$|[-_])|moe|mixtral|\d+x\d+b|gpt-oss|deepseek-(?:v[234]|r1)|kimi-k|minimax-m|llama-4"
    r"|glm-(?:4\.[5-9]|5)|qwen3-coder-next|qwen3\.8-flash"
)


class Said:
    """A recipe with the knobs, as the rules about pairs of words ask for it."""

    def __init__(self, of: Subject) -> None:
        self.of = of
        self.repo = of.recipe.model.repo.lower()

    def value(self, name: str) -> str:
        """What a flag is set to, in lower case; empty: absent, or bare."""
        found = self.of.recipe.flag(name)
        return found.lower() if isinstance(found, str) else ""

    def number(self, name: str) -> float | None:
        """The number that a flag is set to; None: absent, or no number."""
        found = self.of.recipe.flag(name)
        return size(found) if isinstance(found, str) else None

    def less(self, one: str, other: str) -> bool:
        """Whether a flag's number is less than another's, where both are said."""
        mine, theirs = self.number(one), self.number(other)
        return mine is not None and theirs is not None and mine < theirs

    def drafted(self, key: str) -> int | None:
        """A whole number of the speculative configuration; None: it has none there."""
        return whole(self.drafts.get(key))

    def switch(self, name: str) -> bool | None:
        """Whether the last word about a switch turns it on; None: there is none."""
        found: bool | None = None
        for each in self.of.recipe.flags:
            if each.name == name:
                found = str(each.value).lower() not in _FALSE
            elif each.name == f"no-{name}":
                found = False
        return found

    def part(self, config: str, key: str) -> Any:
        """What a configuration has under a key; None: nothing."""
        found: Any = vllm_flags.configured(self.of.recipe, config, _SHORT.get(config, config))
        if isinstance(found, dict) and key in found:
            return found[key]
        for each in key.split("."):
            found = found.get(each) if isinstance(found, dict) else None
        return found

    def is_off(self, config: str, key: str) -> bool:
        """Whether a configuration says no."""
        return str(self.part(config, key)).lower() == "false"

    def env(self, name: str) -> str:
        """A variable of the recipe's; empty: it sets none."""
        return self.of.recipe.env.get(name, self.of.recipe.exports.get(name, ""))

    @cached_property
    def drafts(self) -> Json:
        """The speculative configuration; empty: there is none."""
        return vllm_flags.speculative(self.of.recipe) or {}

    @property
    def method(self) -> str:
        """By what tokens are drafted; vLLM infers it from a draft's name where it is not said."""
        said = str(self.drafts.get("method", "")).lower()
        draft = str(self.drafts.get("model", "")).lower()
        return said or next((name for name in ("dspark", "dflash", "eagle3", "eagle", "mtp") if name in draft), "")

    @property
    def ranks(self) -> int:
        """Nodes that share the model."""
        return self.of.nodes if self.of.knobs.topology == "cluster" else 1

    @property
    def stages(self) -> int:
        """Stages that they are cut into."""
        return self.of.knobs.stages if self.ranks > 1 else 1

    @property
    def tensors(self) -> int:
        """Ranks of a stage."""
        return self.ranks // self.stages

    @property
    def has_mamba(self) -> bool:
        """A hybrid with Mamba layers."""
        return bool(re.search(_MAMBA, self.repo))

    @property
    def is_hybrid(self) -> bool:
        """One with layers that have a state in place of a KV cache."""
        return self.has_mamba or bool(re.search(_GDN, self.repo)) or self.of.recipe.model.block_size is not None

    @property
    def is_moe(self) -> bool:
        """A mixture of experts."""
        return bool(re.search(_MOE, self.repo))

    @property
    def caches_prefixes(self) -> bool:
        """Whether prefixes are cached: unless a word says no, in a hybrid since 0.26 alone (config/model.py)."""
        word = self.switch("enable-prefix-caching")
        return word if word is not None else not self.is_hybrid or self.of.since("0.26")

    @property
    def adapters(self) -> bool:
        """Whether LoRA is on."""
        modules = self.of.recipe.flag("lora-modules") is not None or self.of.recipe.flag("default-mm-loras") is not None
        return bool(self.switch("enable-lora")) or modules

    @property
    def tunes(self) -> bool:
        """Whether FlashInfer's autotuner runs: it does, unless it is told not to."""
        level = [word for each in self.of.recipe.flags if each.name == "optimization-level" for word in each.words]
        off = self.switch("enable-flashinfer-autotune") is False or self.switch("disable-flashinfer-autotune") is True
        off |= bool(level) and bool(re.search(r"(?:^|[O=.])0$", level[-1]))
        return not off and not self.is_off("kernel-config", "enable_flashinfer_autotune")


def whole(value: Any) -> int | None:
    """A whole number as JSON or a dotted flag has it; None: it is none."""
    return int(value) if re.fullmatch(r"-?\d{1,9}", str(value)) else None
