"""YAML as recipes need it: words, numbers, booleans, lists and mappings with words as keys, within bounds."""

from __future__ import annotations

import copy
import functools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from operations.plan.config.refusal import Finding, Refusal
from operations.plan.recipes.bounds import CHARACTERS, DEPTH, DIGITS, KEYS, VALUES
from operations.plan.recipes.source import read_text

_TAG = "tag:yaml.org,2002:"
#: Control characters, and halves of a surrogate pair, which no file can have.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_NAMES = {"int": "number", "float": "number", "bool": "boolean"}


def _fault(problem: str, mark: Any) -> ConstructorError:
    return ConstructorError(None, None, problem, mark)


class Loader(yaml.SafeLoader):
    """SafeLoader that counts, and notes in `twice` keys that are given twice: YAML keeps the last one in silence."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        #: Key with its line -> whether the values differ.
        self.twice: dict[str, bool] = {}
        self._depth = self._values = self._characters = 0
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._values, self._characters
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if node not in self._sizes:
                raise _fault("an anchor contains itself", event.start_mark)
            self._count(event, *self._sizes[node])
            return node
        self._depth += 1
        if self._depth > DEPTH:
            raise _fault(f"lists and mappings lie more than {DEPTH} deep in each other", event.start_mark)
        self._count(event, 1, len(event.value) if isinstance(event, yaml.ScalarEvent) else 0)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None:
            self._sizes[node] = self._values - before[0], self._characters - before[1]
        return node

    def _count(self, event: yaml.Event, values: int, characters: int) -> None:
        self._values += values
        self._characters += characters
        if self._values > VALUES or self._characters > CHARACTERS:
            problem = (
                f"up to here it has more than {VALUES:,} values or {CHARACTERS:,} characters, its aliases told out"
            )
            raise _fault(problem, event.start_mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            return super().construct_mapping(node, deep)
        seen: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == f"{_TAG}merge":
                continue
            if (first := seen.get(key_node.value)) is not None:
                where = f"{key_node.value}` in line {key_node.start_mark.line + 1}"
                differ = self.construct_object(first, deep=True) != self.construct_object(value_node, deep=True)
                self.twice[where] = self.twice.get(where, False) or differ
            seen[key_node.value] = value_node
        self.flatten_mapping(node)
        if len(node.value) > KEYS:
            raise _fault(f"a mapping has more than {KEYS} keys", node.start_mark)
        node.value = [(_as_word(key), value) for key, value in node.value]
        return super().construct_mapping(node, deep)


def _as_word(key: yaml.Node) -> yaml.ScalarNode:
    """`on`, `no` and `1` are keys as they are written."""
    if not isinstance(key, yaml.ScalarNode):
        raise _fault("a key is not a word", key.start_mark)
    return yaml.ScalarNode(f"{_TAG}str", key.value, key.start_mark, key.end_mark)


def _word(loader: Loader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if _CONTROL.search(text):
        raise _fault("a text has a control character in it", node.start_mark)
    return text


def _plain(of: str) -> Callable[[Loader, yaml.ScalarNode], Any]:
    construct = yaml.SafeLoader.yaml_constructors[_TAG + of]

    def made(loader: Loader, node: yaml.ScalarNode) -> Any:
        digits = sum(each.isalnum() for each in node.value) if isinstance(node, yaml.ScalarNode) else 0
        if digits > DIGITS and of != "bool":
            problem = f"a number has {digits:,} digits, more than {DIGITS}: quote it if it is a text"
            raise _fault(problem, node.start_mark)
        try:
            value = construct(loader, node)
        except (ValueError, KeyError, IndexError, OverflowError):
            raise _fault(f"what is said to be a {_NAMES[of]} is none", node.start_mark) from None
        if isinstance(value, float) and not math.isfinite(value):
            problem = "`.inf` and `.nan` are no numbers that a recipe can use: quote it if it is a text"
            raise _fault(problem, node.start_mark)
        return value

    return made


def _tagged(loader: Loader, node: yaml.Node) -> Any:
    problem = "a value has a tag, or begins with an exclamation mark: quote it, or remove the tag"
    raise _fault(problem, node.start_mark)


for _of in _NAMES:
    Loader.add_constructor(_TAG + _of, _plain(_of))
# A date is the text that it is written as. `=` and `<<` are words.
for _of in ("str", "timestamp", "value", "merge"):
    Loader.add_constructor(_TAG + _of, _word)
for _of in ("binary", "omap", "pairs", "set"):
    Loader.add_constructor(_TAG + _of, _tagged)
Loader.add_constructor(None, _tagged)


def content(path: Path) -> tuple[Any, dict[str, bool]]:
    """What a file's YAML says, and the keys that it gives twice, each with whether its values differ.

    Raises Refusal for a file that can't be read or is no YAML, or is beyond the bounds (NoRecipe for what is no file).
    """
    text = read_text(path)
    try:
        return copy.deepcopy(_parsed(text))
    except yaml.YAMLError as error:
        raise Refusal(Finding(path.name, f"is not YAML: {_reason(error, text)}", "correct that line")) from None


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[Any, dict[str, bool]]:
    """Kept, as a recipe is read anew for each question about it, and a parser in Python takes 10 ms for one."""
    loader = Loader(text)
    return loader.get_single_data(), loader.twice


def _reason(error: yaml.YAMLError, text: str) -> str:
    """Where and why, without the words of the line: they may be a secret."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return f"line {line} has the control character #x{int(error.character):02x} in it"
    if not isinstance(error, yaml.MarkedYAMLError) or not (mark := error.problem_mark or error.context_mark):
        return "it can't be read"
    if error.problem == "but found another document":
        return f"line {mark.line + 1} begins a second document: one file has one recipe"
    said = ", ".join(each for each in (error.context, error.problem) if each)
    return f"line {mark.line + 1}: " + re.sub(r"'(?!<)[^']{3,}'|\"[^\"]{3,}\"", "...", said)
