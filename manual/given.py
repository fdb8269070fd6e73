"""What a function gives its own names, as far as it can have come to where one is used."""

from __future__ import annotations

import ast

#: A list of statements: the node that has it, and which of that node's lists it is.
Block = tuple[int, str]


class Given:
    """The values of a function's names."""

    def __init__(self, function: ast.AST) -> None:
        #: Of each node, the lists of statements that it lies in.
        self._blocks: dict[int, frozenset[Block]] = {}
        self._values: dict[str, list[tuple[int, Block, ast.expr]]] = {}
        self._look(function, frozenset(), (0, ""))

    def values(self, name: ast.Name) -> list[ast.expr]:
        """What a name may have here: the last that it was given in any case, and what choices before here gave it."""
        around, found = self._blocks.get(id(name), frozenset()), list[ast.expr]()
        for line, block, value in self._values.get(name.id, []):
            if line > name.lineno:
                continue
            found = [value] if block in around else [*found, value]
        return found

    def _look(self, node: ast.AST, around: frozenset[Block], block: Block) -> None:
        self._blocks[id(node)] = around
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                self._give(target, value, block)
            case ast.NamedExpr(target=target, value=value):
                self._give(target, value, block)
        for name, child in ast.iter_fields(node):
            if isinstance(child, list):
                own = (id(node), name) if child and isinstance(child[0], ast.stmt) else block
                for each in child:
                    if isinstance(each, ast.AST):
                        self._look(each, around | {own}, own)
            elif isinstance(child, ast.AST):
                self._look(child, around, block)

    def _give(self, target: ast.expr, value: ast.expr, block: Block) -> None:
        if isinstance(target, ast.Name):
            self._values.setdefault(target.id, []).append((value.lineno, block, value))
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, part in zip(target.elts, value.elts, strict=False):
                self._give(each, part, block)
