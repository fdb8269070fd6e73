"""Which engines a run has started, and whether each has proven to be the one that was meant."""

from __future__ import annotations

from operations.plan.cluster.served_model import ServedModel


class Started:
    """Engines that one run has started, by their unit and the node that answers."""

    def __init__(self) -> None:
        self._proven: dict[tuple[str, str], bool] = {}
        #: Whether an engine was found to serve as this plan has it when another one of its model was about to stop.
        self.stands_in = False
        #: Whether what was found of a model on a node serves until its turn comes, by unit and node.
        self.waits: dict[tuple[str, str], bool] = {}

    def add(self, model: ServedModel, name: str) -> None:
        """The engine, or its rank on this node, has been started: whatever it was, it has to prove itself."""
        self._proven[model.unit, model.ranks(model.on(name))[0].name] = False

    def judged(self, model: ServedModel, name: str, *, is_meant: bool) -> None:
        """The engine that answers on this node has been judged."""
        self._proven[model.unit, name] = is_meant

    def has(self, model: ServedModel, name: str) -> bool:
        """Whether this run has started, or judged, the engine that answers on this node."""
        return (model.unit, name) in self._proven

    def is_proven(self, model: ServedModel, name: str) -> bool:
        """Whether it has, and found it to be the one that was meant."""
        return self._proven.get((model.unit, name), False)
