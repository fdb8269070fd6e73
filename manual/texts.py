"""What an expression says when it is evaluated, as far as the code alone tells: `port <port> is held by <holder>`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from manual.given import Given
from manual.modules import Module

#: Between texts of which one is said.
OR = " | "
#: Names that tell less than what they are taken from.
_BARE = ("name", "text", "problem", "args", "msg")
#: Names that are the code's alone, and what a reader calls what they stand for.
_READ_AS = {"absence": "node", "argv": "command", "each": "word", "self": "text", "str": "text"}
#: Calls that are named by what they are given, and those that say it.
_OF = ("len", "sorted", "abs", "str", "max", "min", "repr", "map", "dict", "tuple")
_PASS = ("str", "as_table", "tuple", "list", "dict", "set", "plain", "hidden")
#: How deep names that stand for other names are followed.
_DEPTH = 4


class Scope:
    """Names that stand for something: constants of the module, and what a function gives its own names."""

    def __init__(self, here: Module, function: ast.FunctionDef | None = None) -> None:
        self._here = here
        self._local = Given(function) if function else Given(ast.Module([], []))

    def text(self, node: ast.expr, depth: int = _DEPTH) -> str:
        """The text, with what only a run knows as `<name>`."""
        match node:
            case ast.Constant():
                return "" if node.value is None else str(node.value)
            case ast.JoinedStr():
                return "".join(self.text(part, depth) for part in node.values)
            case ast.FormattedValue(
                value=ast.Name(id=name), format_spec=ast.JoinedStr(values=[ast.Constant() as spec])
            ):
                known = self._here.constant(name)
                is_number = isinstance(known, int | float)
                return format(known, str(spec.value)) if is_number else self.text(node.value, depth)
            case ast.FormattedValue():
                return self.text(node.value, depth)
            case ast.BinOp(op=ast.Add(), right=ast.Constant(value=int())):
                return self.text(node.left, depth)
            case ast.BinOp(op=ast.Add()):
                return self._part(node.left, depth) + self._part(node.right, depth)
            case ast.IfExp():
                return either(self.text(node.body, depth), self.text(node.orelse, depth))
            case ast.BoolOp(op=ast.Or()):
                return OR.join(dict.fromkeys(filter(None, (self.text(each, depth) for each in node.values))))
            case ast.Name():
                return self._named(node, depth)
            case ast.Subscript(value=ast.Name(id=table)) if table in self._here.tables:
                return self._one_of(table, depth) or f"<{_name(node)}>"
            case ast.Call():
                return self._called(node, depth)
        return f"<{_name(node)}>"

    def pairs(self, one: ast.expr, other: ast.expr) -> Iterator[tuple[str, str]]:
        """Two texts; where both are names that are given several values, one after the other, each with its own."""
        if isinstance(one, ast.Name) and isinstance(other, ast.Name):
            ones, others = self._local.values(one), self._local.values(other)
            if len(ones) == len(others) > 1:
                yield from ((self.text(each), self.text(its)) for each, its in zip(ones, others, strict=True))
                return
        yield self.text(one), self.text(other)

    def _one_of(self, table: str, depth: int) -> str:
        """What a dictionary of texts may say; empty: it is none."""
        values = self._here.tables[table]
        texts = all(isinstance(each, ast.Constant | ast.JoinedStr) for each in values)
        return OR.join(dict.fromkeys(self.text(each, depth) for each in values)) if texts else ""

    def _part(self, node: ast.expr, depth: int) -> str:
        """One of several that follow each other: where there is a choice it is in brackets."""
        text = self.text(node, depth)
        return f"({text})" if OR in text and not text.startswith("[") else text

    def _named(self, node: ast.Name, depth: int) -> str:
        values = self._local.values(node) if depth else []
        if not values and (known := self._here.constant(node.id)) is not None:
            return str(known)
        said = [self.text(each, depth - 1) for each in values]
        # A name that is made of itself, or of data alone, says no more than itself.
        name = f"<{readable(node.id)}>"
        told = [each for each in dict.fromkeys(said) if has_words(each) and name not in each]
        return OR.join(told) if told else name

    def _called(self, node: ast.Call, depth: int) -> str:
        """Calls that say what they return: `nearest`, a choice of `dict.get`, what is only cut or joined."""
        function, arguments = node.func, node.args
        if isinstance(function, ast.Name) and function.id == "nearest":
            return OR.join(filter(None, ("did you mean `<word>`?", self.text(arguments[2], depth))))
        if isinstance(function, ast.Attribute) and function.attr == "join" and isinstance(function.value, ast.Constant):
            return f"{self.text(arguments[0], depth)}{str(function.value.value).rstrip()} ..."
        if isinstance(function, ast.Attribute) and function.attr.startswith(("remove", "strip", "rstrip", "format")):
            return self.text(function.value, depth)
        if isinstance(function, ast.Name) and function.id in _PASS and arguments:
            return self.text(arguments[0], depth)
        return f"<{_name(node)}>"


def has_words(text: str) -> bool:
    """Whether more than data is said."""
    return bool(re.search(r"[a-z]{2}", re.sub(r"<[^<>]*>", "", text)))


def either(one: str, other: str) -> str:
    """Of two texts the one or the other; what may be left out is in brackets."""
    if not (one and other):
        return f"[{one or other}]"
    return one if one == other else f"{one}{OR}{other}"


def _name(node: ast.AST) -> str:
    """A word for what only a run knows."""
    match node:
        case ast.Name():
            return readable(node.id)
        case ast.Attribute():
            return _name(node.value) if node.attr in _BARE else readable(node.attr)
        case ast.Subscript(slice=ast.Constant(value=str() as key)):
            return _name(node.value) if key in _BARE else readable(key)
        case ast.Subscript() | ast.Starred() | ast.FormattedValue() | ast.Await():
            return _name(node.value)
        case ast.BinOp():
            return _name(node.left)
        case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(value=str() as key), *_]):
            return readable(key)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="os" | "shlex" | "time" | "json")), args=[of, *_]):
            return _name(of)
        case ast.Call(func=ast.Attribute() as method):
            return _name(method.value)
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str() as key), *_]):
            return readable(key)
        case ast.Call(func=ast.Name(id="getattr")):
            return "value"
        case ast.Call(func=ast.Name(id=name), args=[of, *_]) if name in _OF:
            return _name(of)
        case ast.Call(func=ast.Name() as function):
            return readable(function.id)
        case ast.GeneratorExp() | ast.ListComp() | ast.SetComp():
            return _name(node.elt)
        case ast.JoinedStr():
            return next((_name(part) for part in node.values if isinstance(part, ast.FormattedValue)), "...")
        case ast.BoolOp():
            return _name(node.values[0])
        case ast.IfExp():
            return _name(node.body)
    return "..."


def readable(name: str) -> str:
    """A name of the code's as words."""
    words = name.strip("_").replace("_", " ").lower()
    return _READ_AS.get(words, words)


def escaped(text: str) -> str:
    """As Markdown that shows the same, and that reads well as it is; what is in backticks stays code, and what only a
    run knows becomes it.
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts = [text.replace("`", "'")]
    shown = "`".join(part if number % 2 else _plain(part) for number, part in enumerate(parts))
    # Code beside code is one piece: two backticks would begin another kind.
    return shown.replace("``", "")


def _plain(text: str) -> str:
    pieces = re.split(r"((?:<[^<>\n]+>)+)", text.replace("\n", " "))
    return "".join(f"`{piece}`" if number % 2 else _signs(piece) for number, piece in enumerate(pieces))


def _signs(text: str) -> str:
    """What is no sign of Markdown's where it stands is left as it is."""
    for sign in "\\*":
        text = text.replace(sign, f"\\{sign}")
    # A link, a heading, attributes of the code before it.
    return re.sub(r"\](?=\()|^[#{]", r"\\\g<0>", text)
