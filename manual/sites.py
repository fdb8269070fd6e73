"""Where Tandem says that something is wrong, found in its code, with the text and the remedy of each.

Five ways of saying it are known: what is made of a problem and a remedy (`Finding`, `Remark`, ..., and functions that
hand both on to these), what is raised, what fails a step, answers with `problem` or `error`, and functions that return
why something is not as it should be.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from manual.modules import Module, module
from manual.texts import Scope, has_words

#: What messages are made of, with the names of its arguments.
MAKERS = {
    "Finding": ("where", "problem", "remedy"),
    "Remark": ("error", "problem", "remedy"),
    "Absence": ("name", "why", "remedy"),
    "Symptom": ("severity", "where", "seen", "means", "remedy"),
    "Beyond": ("problem", "remedy"),
    "Fault": ("problem", "remedy"),
    "Notice": ("problem",),
    "Problem": ("name", "problem"),
    "Wrong": ("path", "problem", "remedy"),
    "Forbidden": ("pattern", "meaning"),
    "_lose": ("problem",),
}
#: Of what runs on nodes besides: what clients are told, and what a unit's log has.
ON_NODES = {
    "_error": ("problem", "kind", "code"),
    "Refused": ("what", "problem", "after_s"),
    "unknown": ("problem",),
    "too_large": ("problem",),
    "say": ("problem",),
    "print": ("problem",),
}
#: Functions that say why, and of nothing that is wrong.
_NO_FAILURES = ("is_due",)
#: Others, whose name says it.
_FAILURES = ("_failure", "failure")
RAISED = ("RuntimeError", "DeployError", "CliError", "OSError", "ValueError", "Refused", "HTTPException")


@dataclass(frozen=True)
class Message:
    """What is said, what it means where that is said as well, and what helps; each may have `<data>` in it."""

    path: str
    line: int
    text: str
    means: str = ""
    remedy: str = ""
    #: It is shown, and nothing is refused.
    is_remark: bool = False


def messages(path: str) -> Iterator[Message]:
    """Every message of a file, in its order, each once."""
    here = module(path)
    found: dict[tuple[str, str], Message] = {}
    scopes: dict[ast.FunctionDef | None, Scope] = {}
    for function, node in _nodes(here.tree, None):
        scope = scopes.setdefault(function, scopes.get(function) or Scope(here, function))
        for said, means, remedy in _said(here, node, function, scope):
            # All of it may be left out: then nothing is said.
            text = said[1:-1] if re.fullmatch(r"\[[^\[\]]*\]", said) else said
            if " " in text and has_words(text) and text != "tandem: <text>":
                made = Message(path, getattr(node, "lineno", 0), text, means, remedy, _is_remark(node))
                found.setdefault((text, remedy), made)
    yield from sorted(found.values(), key=lambda each: each.line)


Said = Iterator[tuple[str, str, str]]


def _nodes(node: ast.AST, function: ast.FunctionDef | None) -> Iterator[tuple[ast.FunctionDef | None, ast.AST]]:
    """Every node with the function that it is in."""
    for child in ast.iter_child_nodes(node):
        inner = child if isinstance(child, ast.FunctionDef) else function
        yield inner, child
        yield from _nodes(child, inner)


def _is_remark(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="Remark"), args=[ast.Constant(value=False), *_]):
            return True
        case ast.Call(func=ast.Name(id="Notice")):
            return True
        case ast.Call(func=ast.Attribute(attr="warning", value=ast.Name(id="logger"))):
            return True
    return False


def _said(here: Module, node: ast.AST, function: ast.FunctionDef | None, scope: Scope) -> Said:
    match node:
        case ast.Call():
            yield from _made(here, node, scope)
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name), args=[*args])) if name in RAISED and args:
            yield scope.text(args[-1]), "", ""
        case ast.Yield(value=ast.Tuple(elts=[problem, remedy])) if function and _finds(function):
            yield scope.text(problem), "", scope.text(remedy)
        case ast.Return(value=ast.expr() as value) if function and _says_why(function):
            yield scope.text(value), "", ""
        case ast.Assign(targets=[ast.Attribute(attr="_lost" | "problem")], value=value):
            yield scope.text(value), "", ""
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in ("problem", "error"):
                    yield scope.text(value), "", ""
        case ast.Assign(targets=[ast.Name()], value=ast.Dict() as table) if function is None:
            # A table of problems with their remedies.
            for value in table.values:
                if isinstance(value, ast.Tuple) and len(value.elts) == 2 and _are_texts(value):
                    yield scope.text(value.elts[0]), "", scope.text(value.elts[1])


def _made(here: Module, call: ast.Call, scope: Scope) -> Said:
    """What is made of a problem and a remedy, by a maker or by a function that hands both on to one."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    is_shown = name == "warning" and getattr(getattr(call.func, "value", None), "id", "") == "logger"
    if (name == "fail" or is_shown) and call.args:
        yield scope.text(call.args[0]), "", ""
        return
    fields = fields_of(here, name)
    if not fields:
        return
    given = dict(zip(fields, call.args, strict=False)) | {each.arg: each.value for each in call.keywords if each.arg}
    problem, remedy = (given.get(each) for each in roles(fields))
    if problem is None or isinstance(problem, ast.Starred):
        return
    means = scope.text(given["means"]) if "means" in given else ""
    if remedy is None:
        yield scope.text(problem), means, ""
        return
    for one, other in scope.pairs(problem, remedy):
        yield one, means, other


def roles(fields: tuple[str, ...]) -> tuple[str, str]:
    """Which of a maker's fields are the problem and the remedy."""
    return next(each for each in ("problem", "why", "seen", "meaning") if each in fields), "remedy"


def fields_of(here: Module, name: str) -> tuple[str, ...]:
    """The arguments of a maker, or of a function here or there that hands a problem on to one; empty: it is neither."""
    if name not in here.makers:
        # Of one that calls itself by a detour.
        here.makers[name] = ()
        here.makers[name] = _fields_of(here, name)
    return here.makers[name]


def _fields_of(here: Module, name: str) -> tuple[str, ...]:
    makers = MAKERS | ON_NODES if here.path.startswith("files/") else MAKERS
    if name in makers:
        return makers[name]
    there = here if name in here.functions or name not in here.imported else module(here.imported[name])
    function = there.functions.get(name)
    if function is None:
        return ()
    parameters = tuple(each.arg for each in function.args.args)
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != name:
            fields = fields_of(there, node.func.id)
            handed = {argument.id for argument in node.args if isinstance(argument, ast.Name)}
            if fields and "remedy" in parameters and {*roles(fields)} <= handed & {*parameters}:
                return parameters
    return ()


def _finds(function: ast.FunctionDef) -> bool:
    return ast.unparse(function.returns or ast.Constant("")) in ("Findings", "Iterator[tuple[str, str]]")


def _says_why(function: ast.FunctionDef) -> bool:
    """By its docstring: `Why it can't be; empty: it can`."""
    says = ast.get_docstring(function) or ""
    is_text = ast.unparse(function.returns or ast.Constant("")) == "str"
    of_why = re.search(r"(?i)\bwhy\b|^The problem\b", says)
    return is_text and (bool(of_why) or function.name in _FAILURES) and function.name not in _NO_FAILURES


def _are_texts(value: ast.Tuple) -> bool:
    return all(isinstance(each, ast.JoinedStr | ast.Constant | ast.Name) for each in value.elts)
