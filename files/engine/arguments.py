"""What each flag of `vllm serve` takes, out of vLLM's sources.

vLLM makes its parser from the annotations of its configuration classes (`_compute_kwargs` in engine/arg_utils.py): the
same rules stand here, for annotations that are read and not evaluated. What can't be read is left out, and then not
judged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: What a function that argparse calls on a value takes.
_TYPES = {
    "int": "int",
    "float": "float",
    "str": "text",
    "json.loads": "json",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size or auto",
    "union_dict_and_str": "object or text",
}
#: A value is read in any case, with either dash.
_LOOSE = "lambda s: s.lower().replace('-', '_')"
_BUILTIN = ("int", "float", "str", "bool", "dict", "list", "tuple", "set")
#: vLLM reads `--attention-backend` by the names of an enumeration, and from 0.18 on `auto`.
_BACKENDS = ("v1/attention/backends/registry.py", "AttentionBackendEnum")


def parse(path: Path) -> ast.Module | None:
    """A source file's tree; None: it is not there, or for another Python."""
    try:
        return ast.parse(path.read_text())
    except (OSError, SyntaxError, ValueError):
        return None


def flags(folder: Path) -> dict[str, dict[str, Any]] | None:
    """`name -> facts` of `vllm serve`: engine arguments and those of the server in front; None: they can't be read.

    Facts, each absent where it does not hold or is not known: `takes` (`switch`: nothing, and there is a `--no-` of it;
    `bare`: nothing; `maybe`: a value or nothing; else one of _TYPES, `object`, `word`), `choices`, `many` (how many
    values: "+" or a number), `none` (`None` stands for nothing), `bounds` (pydantic's gt, ge, lt, le), `loose` (any
    case, either dash), `short`.
    """
    paths = [folder / "engine/arg_utils.py", *sorted(folder.glob("entrypoints/**/cli_args.py"))]
    trees = [tree for tree in map(parse, paths) if tree]
    sources = Sources(folder)
    found: dict[str, dict[str, Any]] = {}
    for tree in trees:
        changes = list(_changes(tree))
        groups = _groups(tree)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                words = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
                facts = _of_call(call, groups, changes, sources)
                facts |= {"short": short} if (short := [w[1:] for w in words if re.match("-[^-]", w)]) else {}
                found |= {word[2:].replace("_", "-"): facts for word in words if word.startswith("--")}
        for name in (n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name.endswith("FrontendArgs")):
            for field in sources.fields(name):
                facts = _changed(sources.takes(name, field), "frontend_kwargs", field, changes)
                found.setdefault(field.replace("_", "-"), facts)
    if not found:
        return None
    if backends := _enumeration(folder / _BACKENDS[0], _BACKENDS[1]):
        auto = ["auto"] if '"auto"' in _text(folder / "config/attention.py") else []
        found.setdefault("attention-backend", {}).update(takes="word", choices=auto + backends, loose=True)
    if "class EnableDisableAction" in _text(folder / "utils/argparse_utils.py"):
        found |= _opposites(found)
    return dict(sorted(found.items()))


def _opposites(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Since 0.33 `--enable-x` has a `--disable-x`, and the other way round."""
    switches = [name for name, facts in found.items() if facts.get("takes") == "switch"]
    swapped = {"enable": "disable", "disable": "enable"}
    pairs = (name.partition("-") for name in switches)
    names = [f"{swapped[verb]}-{rest}" for verb, _, rest in pairs if verb in swapped]
    return {name: {"takes": "bare"} for name in names if name not in found}


class Sources:
    """Type aliases and classes of vLLM's configuration."""

    def __init__(self, folder: Path) -> None:
        self.aliases: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        more = [folder / "engine/arg_utils.py", *sorted(folder.glob("entrypoints/**/*.py"))]
        more += [folder / "renderers/chat_utils.py", folder / "tool_parsers/tool_strict_level.py"]
        for path in [*sorted(folder.glob("config/**/*.py")), *more]:
            for node in getattr(parse(path), "body", []):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.aliases.setdefault(node.targets[0].id, node.value)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                    self.aliases.setdefault(node.target.id, node.value)
                elif isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
        text = _text(folder / "engine/arg_utils.py")
        self.sizes = re.findall(r'"(\w+)"', "".join(re.findall(r"(?:name in \(|int_args = \{)([^)}]*)[)}]", text)))
        self.has_maybe = "{bool, str, type(None)}" in text

    def fields(self, name: str) -> dict[str, ast.AnnAssign]:
        """A class's annotated fields, those of its bases among them."""
        found: dict[str, ast.AnnAssign] = {}
        if node := self.classes.get(name):
            for base in (each for each in node.bases if isinstance(each, ast.Name) and each.id != name):
                found |= self.fields(base.id)
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    found[each.target.id] = each
        return found

    def takes(self, owner: str, field: str) -> dict[str, Any]:
        """What vLLM makes of a field of a configuration class."""
        node = self.fields(owner).get(field)
        if node is None:
            return {}
        parts = list(self._parts(node.annotation))
        names = {_name(part) for part in parts}
        facts = self._kind(field, parts, names)
        if "None" in names and "bool" not in names:
            facts["none"] = True
        if isinstance(node.value, ast.Call) and (limits := _bounds(node.value)):
            facts["bounds"] = limits
        return facts

    def _kind(self, field: str, parts: list[ast.expr], names: set[str]) -> dict[str, Any]:
        """The rules of _compute_kwargs, in their order."""
        if any(self._is_dataclass(name) for name in names):
            return {"takes": "object"}
        if names == {"bool", "str", "None"} and self.has_maybe:
            return {"takes": "maybe"}
        if "bool" in names:
            return {"takes": "switch"}
        if "Literal" in names:
            options = [each for part in parts if _name(part) == "Literal" for each in _inside(part)]
            return self._options(options, is_open="str" in names)
        for part in parts:
            if _name(part) in ("tuple", "list", "set"):
                return self._collection(part)
        if "int" in names:
            kind = "size or auto" if field == "max_model_len" else "size" if field in self.sizes else "int"
            return {"takes": kind}
        if "float" in names:
            return {"takes": "float"}
        if "dict" in names or any(self._is_dict(name) for name in names):
            others = [n for n in names if n not in _BUILTIN and n != "None" and not self._is_dict(n)]
            return {"takes": "object or text" if "str" in names or others else "object"}
        return {"takes": "text"}

    def _options(self, options: list[ast.expr], *, is_open: bool) -> dict[str, Any]:
        named = [each for each in options if isinstance(each, ast.Name)]
        options = [each for each in options if each not in named]
        options += [o for n in named for p in self._parts(n) for o in _inside(p)]
        values = [each.value for each in options if isinstance(each, ast.Constant)]
        takes = "int" if values and all(type(value) is int for value in values) else "word"
        if is_open or len(values) != len(options):
            return {"takes": takes if takes == "int" else "text"}
        return {"takes": takes, "choices": [str(value) for value in values]}

    def _collection(self, part: ast.expr) -> dict[str, Any]:
        inside = [each for each in _inside(part) if not (isinstance(each, ast.Constant) and each.value is ...)]
        has_end = _name(part) != "tuple" or len(inside) != len(_inside(part))
        many = "+" if has_end or not inside else str(len(inside))
        elements = list(self._parts(inside[0])) if inside else []
        names = {_name(each) for each in elements}
        if names == {"Literal"}:
            return self._options([o for e in elements for o in _inside(e)], is_open=False) | {"many": many}
        takes = _TYPES[next(iter(names))] if names in ({"int"}, {"float"}) else "text"
        return {"takes": takes, "many": many}

    def _parts(self, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """The members of a union, with aliases filled in."""
        if depth > 12:
            return
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                yield from self._parts(ast.parse(node.value, mode="eval").body, depth + 1)
            except SyntaxError:
                return
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield from self._parts(node.left, depth + 1)
            yield from self._parts(node.right, depth + 1)
        elif isinstance(node, ast.Subscript) and _name(node) in ("Annotated", "SkipValidation"):
            yield from self._parts(_inside(node)[0], depth + 1)
        elif isinstance(node, ast.Subscript) and _name(node) in ("Optional", "Union"):
            for each in _inside(node):
                yield from self._parts(each, depth + 1)
            if _name(node) == "Optional":
                yield ast.Constant(None)
        elif isinstance(node, ast.Name) and node.id in self.aliases and node.id not in _BUILTIN:
            yield from self._parts(self.aliases[node.id], depth + 1)
        else:
            yield node

    def _is_dataclass(self, name: str) -> bool:
        marks = [ast.unparse(each) for each in getattr(self.classes.get(name), "decorator_list", [])]
        return any(re.match(r"(config|dataclass|\w+\.dataclass)\b", mark) for mark in marks)

    def _is_dict(self, name: str) -> bool:
        return name == "dict" or any(_name(base) == "dict" for base in getattr(self.classes.get(name), "bases", []))


def _groups(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """`X = get_kwargs(Class)`: X -> (Class, ""); `Y = X["field"]`, or at once: Y -> (Class, field)."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value, field = node.value, ""
            if isinstance(value, ast.Subscript):
                value, field = value.value, _key(value)
            if isinstance(value, ast.Call) and _name(value.func) == "get_kwargs" and value.args:
                found[node.targets[0].id] = (_name(value.args[0]), field)
            elif isinstance(value, ast.Name) and field and found.get(value.id, ("", "-"))[1] == "":
                found[node.targets[0].id] = (found[value.id][0], field)
    return found


def _of_call(
    call: ast.Call, groups: dict[str, tuple[str, str]], changes: list[tuple[str, str, str, str]], sources: Sources
) -> dict[str, Any]:
    """One call of add_argument."""
    facts: dict[str, Any] = {}
    said = {each.arg: each.value for each in call.keywords if each.arg}
    for spread in (each.value for each in call.keywords if each.arg is None):
        inner = spread.values[0] if isinstance(spread, ast.Dict) and spread.keys[0] is None else spread
        group, field = (_name(inner.value), _key(inner)) if isinstance(inner, ast.Subscript) else (_name(inner), "")
        owner, own_field = groups.get(group, ("", ""))
        if not owner:
            return {}
        facts |= _changed(sources.takes(owner, field or own_field), group, field, changes)
    action = ast.unparse(said["action"]).strip("\"'") if "action" in said else ""
    if action in ("store_true", "store_false"):
        return {"takes": "bare"}
    if action.endswith("BooleanOptionalAction"):
        return {"takes": "switch"}
    if "type" in said or not any(each.arg is None for each in call.keywords):
        facts |= _function(ast.unparse(said["type"]) if "type" in said else "str")
    if "nargs" in said:
        many = _constant(said["nargs"])
        facts |= {"takes": "maybe"} if many == "?" else {"many": str(many)}
    if "choices" in said:
        listed = said["choices"].elts if isinstance(said["choices"], ast.List | ast.Tuple) else None
        if isinstance(said["choices"], ast.Call) and _name(said["choices"].func) == "get_args":
            listed = [o for p in sources._parts(said["choices"].args[0]) if _name(p) == "Literal" for o in _inside(p)]
        values = [str(each.value) for each in listed or [] if isinstance(each, ast.Constant)]
        facts.pop("choices", None)
        facts |= {"choices": values} if values and len(values) == len(listed or []) else {}
    return facts


def _changes(tree: ast.Module) -> Iterator[tuple[str, str, str, str]]:
    """What is changed of an argument before it is added: group, field, key, new value ("" when it is deleted)."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        value = ""
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = ast.unparse(node.value) if isinstance(node, ast.Assign) else "?"
        elif isinstance(node, ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr != "remove":
            targets, value = [node.func.value], "?"
        for target in (each for each in targets if isinstance(each, ast.Subscript)):
            if isinstance(target.value, ast.Subscript):
                yield _name(target.value.value), _key(target.value), _key(target), value
            else:
                yield _name(target.value), "", _key(target), value


def _changed(facts: dict[str, Any], group: str, field: str, changes: list[tuple[str, str, str, str]]) -> dict[str, Any]:
    facts = dict(facts)
    for key, value in ((each[2], each[3]) for each in changes if each[:2] == (group, field)):
        if key == "type" and value == _LOOSE:
            facts["loose"] = True
        elif key == "type":
            facts = {name: each for name, each in facts.items() if name not in ("takes", "none", "choices")}
            facts |= _function(value)
        elif key == "nargs" and not value:
            facts.pop("many", None)
        elif key in ("choices", "nargs"):
            facts.pop("choices", None)
    return facts


def _function(text: str) -> dict[str, Any]:
    """A `type=` of argparse; nothing for one of vLLM's own."""
    optional = re.fullmatch(r"optional_type\((.*)\)", text)
    kind = _TYPES.get(optional.group(1) if optional else text)
    return {} if kind is None else {"takes": kind} | ({"none": True} if optional else {})


def _bounds(call: ast.Call) -> dict[str, float]:
    """`Field(default=1, ge=1)`: {"ge": 1}."""
    found = {}
    for each in call.keywords if _name(call.func) == "Field" else []:
        if each.arg in ("gt", "ge", "lt", "le"):
            value = _constant(each.value)
            found |= {each.arg: value} if isinstance(value, int | float) else {}
    return found


def _constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _key(node: ast.Subscript) -> str:
    return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""


def _name(node: ast.AST) -> str:
    """`int`, `list[int]` and `x.list[int]` by their last name; `None` for None."""
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    if isinstance(node, ast.Constant) and node.value is None:
        return "None"
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _inside(node: ast.expr) -> list[ast.expr]:
    """What stands in brackets."""
    if not isinstance(node, ast.Subscript):
        return []
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _enumeration(path: Path, name: str) -> list[str]:
    """The members of an enumeration."""
    for node in ast.walk(parse(path) or ast.Module([], [])):
        if isinstance(node, ast.ClassDef) and node.name == name:
            targets = [each.targets[0] for each in node.body if isinstance(each, ast.Assign)]
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
