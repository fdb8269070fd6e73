"""What must not be shown or kept: keys and tokens in a recipe, told by their names or by how they begin."""

from __future__ import annotations

import re

from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal, Remark

_WORDS = r"(?:TOKEN|SECRET|API[_-]?KEY|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)"
_NAME = re.compile(rf"(?:.*[_-])?(?:{_WORDS}|(?:ACCESS|SECRET|PRIVATE|AUTH)[_-]KEY(?:[_-]ID)?)", re.IGNORECASE)
#: How the keys of the services begin that owners of such machines use: Hugging Face, OpenAI and its like, NVIDIA,
#: GitHub, GitLab, AWS, Slack, and signed web tokens.
_VALUE = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{8,}|sk-[\w-]{8,}|nvapi-[\w-]{8,}|gh[pousr]_[A-Za-z0-9]{8,}"
    r"|github_pat_\w{8,}|glpat-[\w-]{8,}|AKIA[A-Z0-9]{12,}|xox[abp]-[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
_QUOTED = r"""(?:"[^"]*"|'[^']*'|[^\s"'`]+)"""
_FLAG = re.compile(rf"((?<![\w-])--?(?:[\w-]*[_-])?{_WORDS})(=|\s+)(?!--){_QUOTED}", re.IGNORECASE)
_ASSIGNED = re.compile(rf"(\b(?:\w*_)?(?:{_WORDS}|\w+_KEY))(=|\s*:\s+)(?![\s;]){_QUOTED}", re.IGNORECASE)
_BEARER = re.compile(r"(\bBearer\s+)[^\s\"'`]+", re.IGNORECASE)


def is_secret(name: str, value: str = "") -> bool:
    """Whether a variable or a flag of this name, or with this value, is somebody's key."""
    return bool(_NAME.fullmatch(name) or _VALUE.search(value))


def instead(name: str) -> str:
    """What an owner does in place of a secret in a recipe."""
    if re.match(r"HF_|HUGGING|HUB_", name, re.IGNORECASE):
        return "write the token into a file and name it with the knob `hub_token_file`"
    if re.search(r"API_?KEY$", name, re.IGNORECASE):
        return "remove it: the proxy has a key of its own (`make endpoint`), the engine needs none"
    return "remove it: a recipe is no place for secrets"


def hidden(text: str) -> str:
    """The text without the secrets that it quotes."""
    text = _FLAG.sub(r"\1\2…", text)
    text = _ASSIGNED.sub(r"\1\2…", text)
    return _BEARER.sub(r"\1…", _VALUE.sub("…", text))


def without(recipe: Recipe) -> Recipe:
    """The recipe with remarks that can be shown."""
    said = tuple(Remark(each.error, hidden(each.problem), hidden(each.remedy)) for each in recipe.remarks)
    return recipe.model_copy(update={"remarks": said})


def shown(refusal: Refusal) -> Refusal:
    """The refusal as it can be shown."""
    return Refusal(*(Finding(each.where, hidden(each.problem), hidden(each.remedy)) for each in refusal.findings))
