"""The list `nodes = [...]` of an inventory as text: nodes change, and every comment of the owner's stays."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field

from operations.init.login import Login

_INDENT = "    "


@dataclass
class _Node:
    """A node as it stands there: `above` are lines of comments, `behind` is the comment on its last line."""

    text: str
    value: object
    above: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    behind: str = ""


def listed(before: Sequence[Login], logins: Sequence[Login], entries: Sequence[str], text: str) -> str:
    """The value of `nodes` with these logins.

    `before`: those that it has, in its order; `entries`: the line of each of `logins`, as it is written anew; `text`:
    the file as it is. A node that is as it was keeps its line. A comment behind one that goes stays as a line that
    names the node.
    """
    first, known, last = _read(text)
    stays = {each.name: node for each, node in zip(before, known, strict=False)}
    wanted = {each.name for each in logins}
    carried: list[str] = []
    for name, node in stays.items():
        if name in wanted:
            node.above[:0] = carried
            carried = []
        else:
            said = [f"# {name}: {comment.lstrip('# ')}" for comment in (*node.inside, node.behind) if comment]
            carried += [*node.above, *said]
    lines = [f"[{first and f'  {first}'}"]
    for login, anew in zip(logins, entries, strict=True):
        node = stays.get(login.name, _Node("", None))
        is_same = node.value == login.entry()
        lines += [f"{_INDENT}{comment}" for comment in [*node.above, *([] if is_same else node.inside)]]
        entry = node.text if is_same else anew
        lines.append(f"{_INDENT}{entry},{node.behind and f'  {node.behind}'}")
    return "\n".join([*lines, *(f"{_INDENT}{comment}" for comment in [*carried, *last]), "]"])


def _read(text: str) -> tuple[str, list[_Node], list[str]]:
    """The comment behind the bracket, the nodes, and comments behind the last one."""
    values = [
        each.value
        for each in ast.parse(text).body
        if isinstance(each, ast.Assign) and [getattr(name, "id", "") for name in each.targets] == ["nodes"]
    ]
    if not values or not isinstance(values[-1], ast.List):
        return "", [], []
    whole = values[-1]
    nodes = [_Node(ast.get_source_segment(text, each) or "", ast.literal_eval(each)) for each in whole.elts]
    first, last = "", list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row = token.start[0]
        # The one behind the closing bracket is not within.
        if token.type != tokenize.COMMENT or not whole.lineno <= row < (whole.end_lineno or 0):
            continue
        ends = [node for node, each in zip(nodes, whole.elts, strict=True) if each.end_lineno == row]
        inner = [n for n, each in zip(nodes, whole.elts, strict=True) if each.lineno <= row < (each.end_lineno or 0)]
        later = [node for node, each in zip(nodes, whole.elts, strict=True) if each.lineno > row]
        if inner:
            inner[-1].inside.append(token.string)
        elif ends:
            ends[-1].behind = token.string
        elif row == whole.lineno:
            first = token.string
        else:
            (later[0].above if later else last).append(token.string)
    return first, nodes, last
