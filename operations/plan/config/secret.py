"""What must not be shown or kept: keys and tokens in a recipe, told by their names or by how they begin."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_WORDS = r"(?:TOKEN|SECRET|API[_-]?KEY|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)"
_NAME = re.compile(rf"(?:.*[_-])?(?:{_WORDS}|(?:ACCESS|SECRET|PRIVATE|AUTH)[_-]KEY(?:[_-]ID)?)", re.IGNORECASE)
#: How the keys of the services begin that owners of such machines use: Hugging Face, OpenAI and its like, NVIDIA,
#: GitHub, GitLab, AWS, Slack, and signed web tokens. `hf_overrides` is a flag's name.
_VALUE = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_(?![a-z]{8,12}(?![A-Za-z0-9]))[A-Za-z0-9]{8,}|sk-[\w-]{8,}|nvapi-[\w-]{8,}|gh[pousr]_[A-Za-z0-9]{8,}"
    r"|github_pat_\w{8,}|glpat-[\w-]{8,}|AKIA[A-Z0-9]{12,}|xox[abp]-[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
_QUOTED = r"""(?:"[^"]*"|'[^']*'|[^\s"'`]+)"""
_FLAG = re.compile(rf"((?<![\w-])--?(?:[\w-]*[_-])?{_WORDS})(=|\s+)(?!--){_QUOTED}", re.IGNORECASE)
_ASSIGNED = re.compile(rf"(\b(?:\w*_)?(?:{_WORDS}|\w+_KEY))(=|\s*:\s+)(?![\s;]){_QUOTED}", re.IGNORECASE)
_LONGEST = 1000
_LONG = re.compile(rf"[\w.-]{{{_LONGEST},}}")
#: Characters by which a message that has cut a secret is known.
_BEGINNING = 6
_BEARER = re.compile(r"(\bBearer\s+)[^\s\"'`]+", re.IGNORECASE)


def is_secret(name: str, value: str = "") -> bool:
    """Whether a variable or a flag of this name, or with this value, is somebody's key."""
    return bool(_NAME.fullmatch(name) or _VALUE.search(_short(value)))


def instead(name: str) -> str:
    """What an owner does in place of a secret in a recipe."""
    if re.match(r"HF_|HUGGING|HUB_", name, re.IGNORECASE):
        return "write the token into a file and name it with the knob `hub_token_file`"
    if re.search(r"API_?KEY$", name, re.IGNORECASE):
        return "remove it: the proxy has a key of its own (`tandem endpoint`), the engine needs none"
    return "remove it: a recipe is no place for secrets"


def _short(text: str) -> str:
    """The text with the beginning alone of words that no name and no token is as long as: patterns try each place."""
    return _LONG.sub(lambda word: word.group()[:_LONGEST], text)


def known(value: Any, name: str = "") -> set[str]:
    """The secrets within a value of YAML: told by the names that they are under, and by what stands before them."""
    if isinstance(value, dict):
        return {found for key, each in value.items() for found in known(each, str(key))}
    if isinstance(value, list):
        return {found for each in value for found in known(each, name)}
    if isinstance(value, bool) or value is None:
        return set()
    if is_secret(name):
        return {str(value)}
    text = _short(str(value))
    given = [found for pattern in (_FLAG, _ASSIGNED, _BEARER) for found in pattern.finditer(text)]
    return set(_VALUE.findall(text)) | {found.group()[len("".join(found.groups())) :].strip("'\"") for found in given}


def hidden(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets that it quotes, whole or cut behind their beginning."""
    for each in secrets:
        beginning = each[:_BEGINNING]
        if len(beginning) == _BEGINNING and beginning in text:
            text = re.sub(rf"{re.escape(beginning)}[^\s\"'`]*", "…", text.replace(each, "…"))
    text = _FLAG.sub(r"\1\2…", text)
    text = _ASSIGNED.sub(r"\1\2…", text)
    return _BEARER.sub(r"\1…", _VALUE.sub("…", text))
