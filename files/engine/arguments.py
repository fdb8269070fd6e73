"""The values that each flag of `vllm serve` takes, read in vLLM's sources.

vLLM makes its parser from the annotations of its configuration classes (`_compute_kwargs` in engine/arg_utils.py). Here
are the same rules for annotations that are read and not evaluated. A flag that can't be read is left out, and not
judged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from annotations import Sources, constant, inside, name_of, parse, text_of

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
#: vLLM reads `--attention-backend` by the names of an enumeration, and from 0.18 on `auto`.
_BACKENDS = ("v1/attention/backends/registry.py", "AttentionBackendEnum")


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
        auto = ["auto"] if '"auto"' in text_of(folder / "config/attention.py") else []
        found.setdefault("attention-backend", {}).update(takes="word", choices=auto + backends, loose=True)
    if "class EnableDisableAction" in text_of(folder / "utils/argparse_utils.py"):
        found |= _opposites(found)
    return dict(sorted(found.items()))


def _opposites(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Since 0.33 `--enable-x` has a `--disable-x`, and the other way round."""
    switches = [name for name, facts in found.items() if facts.get("takes") == "switch"]
    swapped = {"enable": "disable", "disable": "enable"}
    pairs = (name.partition("-") for name in switches)
    names = [f"{swapped[verb]}-{rest}" for verb, _, rest in pairs if verb in swapped]
    return {name: {"takes": "bare"} for name in names if name not in found}


def _groups(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """`X = get_kwargs(Class)`: X -> (Class, ""); `Y = X["field"]`, or at once: Y -> (Class, field)."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value, field = node.value, ""
            if isinstance(value, ast.Subscript):
                field, value = _key(value), value.value
            if isinstance(value, ast.Call) and name_of(value.func) == "get_kwargs" and value.args:
                found[node.targets[0].id] = (name_of(value.args[0]), field)
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
        group, field = (name_of(inner.value), _key(inner)) if isinstance(inner, ast.Subscript) else (name_of(inner), "")
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
        many = constant(said["nargs"])
        facts |= {"takes": "maybe"} if many == "?" else {"many": str(many)}
    if "choices" in said:
        listed = said["choices"].elts if isinstance(said["choices"], ast.List | ast.Tuple) else None
        if isinstance(said["choices"], ast.Call) and name_of(said["choices"].func) == "get_args":
            listed = [o for p in sources.parts(said["choices"].args[0]) if name_of(p) == "Literal" for o in inside(p)]
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
                yield name_of(target.value.value), _key(target.value), _key(target), value
            else:
                yield name_of(target.value), "", _key(target), value


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


def _key(node: ast.Subscript) -> str:
    return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""


def _enumeration(path: Path, name: str) -> list[str]:
    """The members of an enumeration."""
    for node in ast.walk(parse(path) or ast.Module([], [])):
        if isinstance(node, ast.ClassDef) and node.name == name:
            targets = [each.targets[0] for each in node.body if isinstance(each, ast.Assign)]
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []
