"""The engine's log while it starts: what must not be in it ends the wait at once, what must be in it is looked for."""

from __future__ import annotations

from pyinfra import logger, state
from pyinfra.api.host import Host

from operations.node.unit import journal
from operations.plan.cluster import nccl
from operations.plan.cluster.served_model import ServedModel
from operations.plan.engines import ENGINES, loaders, starts
from operations.runner.remote import ask
from operations.wire.unit import Journal


def parts(model: ServedModel, where: Host) -> list[Host]:
    """The nodes that have a part in the engine of a model that answers on this one."""
    return [state.inventory.get_host(each.name) for each in model.ranks(model.on(where.name))]


class Watch:
    """The log of one engine on all nodes that have a part in it, read on and on."""

    def __init__(self, model: ServedModel, where: Host) -> None:
        engine = model.engine_on(where.name)
        self.hosts, self.unit = parts(model, where), model.unit
        recipe, knobs, proof = engine.recipe, engine.knobs, engine.recipe.proof
        self.expected = (*proof.expect, *nccl.expected(recipe, knobs))
        self.of_each = nccl.expected_of_each(recipe, knobs, engine.nodes)
        # The recipe need not say these.
        always = ENGINES[recipe.engine].FORBIDDEN if recipe.needs.gpu else ()
        by_rdma = (nccl.LACKING, nccl.BY_SOCKETS) if self.of_each else ()
        self.forbidden = {each.pattern: each for each in (*proof.forbid, *always, *by_rdma)}
        #: By which a start says that the loader that was chosen has failed; empty: none is chosen here.
        self.falls_back = starts.FALLS_BACK if knobs.loader == loaders.AUTO else ""
        self._told = set[str]()
        #: Patterns that each node's log has matched since its engine's last start.
        self._seen: dict[str, set[str]] = {}
        self._places: dict[str, Journal] = {}

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.forbidden or self.expected or self.falls_back)

    def look(self) -> str:
        """Reads on; why the engine must not go on, or nothing."""
        for host in self.hosts if self.is_needed else []:
            for pattern, line in self._read(host).items():
                if pattern == self.falls_back:
                    self._tell(host, line)
                elif each := self.forbidden.get(pattern):
                    return f'{host.name}: its log says "{line[:200]}": {each.meaning}'
                self._seen[host.name].add(pattern)
            if slow := self._places[host.name].get("slow"):
                return f"{host.name}: the pattern `{slow[0]}` of the recipe's proof takes too long: write it simpler"
        return ""

    def _tell(self, host: Host, line: str) -> None:
        """Once: the engine starts all the same, by its own way to load."""
        if host.name not in self._told:
            self._told.add(host.name)
            said = line.partition("its own way: ")[2][:200]
            logger.warning(f'{host.name}: {said}. The engine loads by its own way now; `loader = "engine"` keeps it so')

    def missing(self) -> str:
        """Why it is not the engine that was meant, by what no line has said so far; or nothing."""
        seen = set().union(*self._seen.values())
        for pattern in self.expected:
            if pattern not in seen:
                return f"its log never said: {pattern}"
        for rank, (log, pattern) in self.of_each.items():
            if pattern not in self._seen.get(log, ()):
                return f"NCCL of {rank} never said in the log of {log} that it speaks by RDMA: {pattern}"
        return ""

    def stop(self) -> None:
        """Stop the engine on all its nodes, and keep it down over a reboot: it would do the same again."""
        for host in self.hosts:
            host.run_shell_command(f"systemctl disable --now --no-block {self.unit}.service", _sudo=True)

    def _read(self, host: Host) -> dict[str, str]:
        place = self._places.get(host.name)
        answer = ask(
            host,
            journal.main,
            unit=self.unit,
            patterns=[
                *(*self.forbidden, *self.expected, *{pattern for _, pattern in self.of_each.values()}),
                *([self.falls_back] if self.falls_back else []),
            ],
            invocation=place["invocation"] if place else "",
            cursor=place["cursor"] if place else "",
        )
        if place is None or answer["invocation"] != place["invocation"]:
            self._seen[host.name] = set()
        self._places[host.name] = answer
        return dict(answer["seen"])
