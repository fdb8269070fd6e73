"""A run: its folder, its setups one after the other, and at the end what was declared."""

from __future__ import annotations

import secrets
import time

from bench import folder as folders
from bench import limit, resuming
from bench.advise import how_long, page
from bench.benchy import Benchy
from bench.deployed import ENGINE, Deployed, deployed, setup_name
from bench.deploying import deploy
from bench.environment import environment
from bench.measuring import Measurement
from bench.records import Folder, Run, Setup
from bench.request import SETUPS, BenchRequest
from bench.session import Session
from bench.show import Show
from bench.way import way
from operations.plan.config.refusal import Finding, Refusal
from operations.wire.bench import Declared

#: Seconds for what a run that was killed has held to be let go.
LOCK_S = 20
_AGAIN = "run the same again: it goes on where it was"


class Runner:
    """One run; `run` is what its run.json has."""

    def __init__(self, asked: BenchRequest, folder: Folder, show: Show) -> None:
        self.asked, self.folder, self.show = asked, folder, show
        self.has_deployed = False
        self.run: Run

    def go(self) -> None:
        """Measure each setup of the run that is not measured yet, deploying it first where several were asked for.
        Each result is written at once, so a run that is broken off goes on here.

        Raises Refusal where the lock, a deploy or the service is not to be had.
        """
        with self._session() as session:
            declared = session.declared
            self._begin(session)
            if not self.asked.topologies:
                self._measure(session)
        for name in self.asked.topologies:
            self._one_of_several(name, declared)
        self._keep(resuming.marked(self.run, **{resuming.ENDED: time.strftime("%Y-%m-%d %H:%M:%S")}))

    def put_back(self) -> str:
        """Deploy what is declared, where this run has deployed anything; why that failed, or nothing."""
        self.show.over()
        if not self.has_deployed:
            return ""
        log = self.folder.path / "deploy-back.log"
        self.show.say(f"putting back what is declared (its words: {log})")
        why, took = deploy(self.asked.inventory, self.asked.data, {}, log)
        self.has_deployed = bool(why)
        if why:
            self.show.warn(f"what is declared is not back: {why}; `tandem apply` tries again")
        else:
            self.show.say(f"  it is back, after {took:.0f} s")
        return why

    def tell_pages(self) -> None:
        """What was measured, to the pages of what serves now. Where that can't be, nothing else is lost by it."""
        try:
            with self._session() as session:
                nodes = session.deployment()
                found = deployed(nodes, session.head)
                spec = nodes[session.head].units[ENGINE]["spec"]
                told = page.told(page.of_record({"knobs": found.knobs, "recipe": found.recipe}, spec, len(nodes)))
                if shown := session.tell_page(told):
                    self.show.say(f"the page at /tandem/ of {', '.join(shown)} has it")
        except (Refusal, ValueError) as error:
            self.show.say(f"the page at /tandem/ does not have it: {' '.join(str(error).split())}")

    def _begin(self, session: Session) -> None:
        is_new = not self.folder.run.exists()
        found = None if self.asked.topologies else deployed(session.deployment(), session.head)
        recipe = _recipe(session.declared) if found is None else _recipe_of(found)
        if is_new:
            self.show.say("the client's own limit, against a server that costs nothing")
            rates = limit.measure() if self.asked.client_from == "controller" else (None, None)
            self.run = Run(
                profile=self.asked.profile.name,
                seed=secrets.randbelow(2**31) if self.asked.seed is None else self.asked.seed,
                repeats=self.asked.profile.repeats,
                users=list(self.asked.profile.users),
                slo=self.asked.slo,
                **recipe,
                environment={
                    **environment(),
                    "client on": self.asked.client_from,
                    resuming.ASKED: self.asked.identity,
                    resuming.ATTEMPTS: "1",
                },
                began=time.time(),
                client_requests_s=rates[0],
                client_pieces_s=rates[1],
            )
            if rates[0] and rates[1]:
                self.show.say(f"  {rates[0]:,.0f} requests and {rates[1]:,.0f} pieces of streams a second")
        else:
            done = folders.mend(self.folder)
            self.run = folders.read(self.folder.path)[0]
            _is_of(self.run, recipe, self.folder)
            self.run = resuming.marked(self.run, **{resuming.ATTEMPTS: str(resuming.attempts(self.run) + 1)})
            self.show.say(f"going on: {len(done)} steps are there")
        self._keep(self.run)
        self.show.say(f"everything goes to {self.folder.path}")
        self.show.say(how_long.told(self.asked, recipe["recipe"], session.declared["topology"]))

    def _one_of_several(self, name: str, declared: Declared) -> None:
        knobs = SETUPS[name]
        full = setup_name(knobs["topology"], knobs.get("executor", declared["executor"]), declared["pipeline_parallel"])
        self.show.setup(full)
        known = next((setup.why_not for setup in self.run.setups if setup.name == full), "")
        if known or full in resuming.whole(self.run):
            self.show.say(f"  {known or 'is measured'}")
            return
        log = self.folder.path / f"deploy-{full.replace('/', '-')}.log"
        self.show.say(f"  deploying (its words: {log})")
        self.has_deployed = True
        why, took = deploy(self.asked.inventory, self.asked.data, knobs, log)
        if " is at work: " in why:
            raise Refusal(Finding("deploy", why, _AGAIN))
        if why:
            self.show.say(f"  did not come up: {why}")
            self._keep_setup(_not_there(full, declared, why, took))
            return
        with self._session() as session:
            self._measure(session, took, full)

    def _measure(self, session: Session, deploy_s: float | None = None, expected: str = "") -> None:
        found = deployed(session.deployment(), session.head, deploy_s)
        name = found.setup.name
        if expected not in ("", name):
            problem = f"{name} is deployed, and {expected} was a moment ago: somebody else has deployed"
            raise Refusal(Finding("deployment", problem, _AGAIN))
        if not expected:
            self.show.setup(name)
        _is_of(self.run, _recipe_of(found), self.folder)
        self._keep_setup(found.setup)
        with way(found, session.ssh, self.asked.client_from) as how:
            _, steps, requests = folders.read(self.folder.path)
            share = self.asked.time_s and self.asked.time_s / max(len(self.asked.topologies), 1)
            until = time.monotonic() + share if share else None
            measurement = Measurement(
                self.asked, self.run, self.folder, session, found, how, self.show, steps, requests, until
            )
            if self.asked.profile.tool == "tandem":
                measurement.go()
            else:
                Benchy(measurement).go()
        self.show.over()
        names = dict.fromkeys([*resuming.whole(self.run), name])
        self._keep(resuming.marked(self.run, **{resuming.WHOLE: " ".join(names)}))

    def _session(self) -> Session:
        """Opens the session. A run that goes on waits a moment for the lock of the one that was killed."""
        deadline = time.monotonic() + (LOCK_S if self.folder.run.exists() else 0)
        while True:
            try:
                return Session(self.asked.inventory, self.asked.data)
            except Refusal as refusal:
                if " is at work: " not in str(refusal) or time.monotonic() > deadline:
                    raise
                time.sleep(2)

    def _keep_setup(self, setup: Setup) -> None:
        """The time of the first deploy stays: that of a run that goes on may have found everything there."""
        before = next((each for each in self.run.setups if each.name == setup.name), None)
        if before and before.deploy_s is not None:
            setup = setup.model_copy(update={"deploy_s": before.deploy_s})
        others = [each for each in self.run.setups if each.name != setup.name]
        self._keep(self.run.model_copy(update={"setups": [*others, setup]}))

    def _keep(self, run: Run) -> None:
        self.run = run
        folders.write_run(self.folder, run)


def _recipe(declared: Declared) -> dict[str, str]:
    return {
        "recipe": declared["recipe"],
        "served_name": declared["served_name"],
        "model": declared["model"],
        "revision": declared["revision"],
    }


def _recipe_of(found: Deployed) -> dict[str, str]:
    model = found.recipe.get("model") or {}
    return {
        "recipe": str(found.recipe.get("name", "")),
        "served_name": found.model,
        "model": str(model.get("repo", "")),
        "revision": str(model.get("revision") or ""),
    }


def _is_of(run: Run, recipe: dict[str, str], folder: Folder) -> None:
    """Raises Refusal where a folder is one of another recipe."""
    for name, value in recipe.items():
        if getattr(run, name) != value:
            problem = f"is a run of another recipe: its {name} is {getattr(run, name)!r}, here it is {value!r}"
            raise Refusal(Finding(str(folder.path), problem, "leave RUN out, or deploy what it was begun with"))


def _not_there(name: str, declared: Declared, why: str, took: float) -> Setup:
    topology, executor, *_ = [*name.split("/"), ""]
    return Setup(
        name=name,
        topology=topology,
        executor=executor or declared["executor"],
        routing=declared["routing"],
        stages=declared["pipeline_parallel"] if topology == "cluster" else 1,
        nodes=0,
        plan="",
        why_not=why,
        deploy_s=round(took, 1),
    )
