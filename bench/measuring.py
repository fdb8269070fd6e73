"""One setup, measured: warm-up, its steps, and the answers that are known."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from bench import known, limit
from bench.budget import ENOUGH, is_enough
from bench.client.shapes import Message, Told, Turn
from bench.conversations import conversations
from bench.deployed import Deployed, counted, state
from bench.figures import figures
from bench.profiles import WARM
from bench.records import Folder, Request, Run, Step
from bench.request import BenchRequest
from bench.resuming import attempts
from bench.session import Node, Session
from bench.show import Show
from bench.slo import Slo
from bench.steps import Wanted, steps
from bench.way import Way
from operations.plan.config.refusal import Finding, Refusal

#: Seconds for which engines may still count what they have answered.
SETTLE_S = 0.3
#: Seconds for a setup to come back on its own after a step in which nothing was answered.
BACK_S = 900


@dataclass
class Measurement:
    """`steps` and `requests`: what is there already."""

    asked: BenchRequest
    run: Run
    folder: Folder
    session: Session
    deployed: Deployed
    way: Way
    show: Show
    steps: list[Step]
    requests: dict[str, list[Request]]
    #: When this setup's share of the time is spent (time.monotonic); None: the rounds decide.
    until: float | None = None

    def __post_init__(self) -> None:
        self.done = {step.name for step in self.steps}
        #: The round that was looked at, and whether all was known at its beginning.
        self.round, self.is_known, self.was_over = 0, False, False
        #: Cells (as Wanted.cell) that had no answer at all in one repeat: an engine that dies of it would die of each.
        self.hopeless = {
            (step.target, step.users, step.which)
            for step in self.steps
            if step.setup == self.deployed.setup.name and all(request.error for request in self.requests[step.name])
        }

    def all_steps(self) -> list[Wanted]:
        """Also those that are there. Raises Refusal for a prompt that is longer than the context."""
        engines, context = list(self.deployed.engines), self.way.context()
        if self.asked.prompts and context:
            self._fit(context - self.asked.profile.answer)
        return steps(self.asked.profile, self.deployed.setup.name, engines, self.asked.targets, context)

    def _fit(self, room: int) -> None:
        """Whether the owner's prompts fit beside their answers."""
        asked: list[list[Message]] = [[{"role": "user", "content": text}] for text in self.asked.prompts]
        for number, tokens in enumerate(self._count(asked), 1):
            if tokens > room:
                problem = (
                    f"prompt {number} has {tokens:,} tokens, and the context has room for {room:,} before the answer"
                )
                raise Refusal(Finding("--prompts", problem, "shorten it, or give a smaller --answer"))

    def go(self) -> None:
        """What is not there yet."""
        wanted = [step for step in self.all_steps() if step.name not in self.done]
        self.show.steps(self.deployed.setup.name, wanted)
        if not wanted:
            return
        self._warm_up(wanted)
        answers = self._learn() if any(step.is_known for step in wanted) else {}
        for step in wanted:
            if step.cell in self.hopeless:
                self.show.skipped(step)
            elif self._is_over(step):
                self.show.unneeded(step)
            elif not step.is_known:
                self._measure(
                    step, conversations(self.asked.profile, step, self._seed(), self.asked.prompts, self._count)
                )
            elif answers:
                self._measure(step, known.conversations(answers, step.users))
            else:
                self.show.warn(
                    "the model answers nothing alike twice when it is asked alone: no answer can be held right"
                )

    def _is_over(self, step: Wanted) -> bool:
        """Whether nothing more has to be measured: the time is spent, or at a round's beginning all is known."""
        if self.until is None or step.is_known or step.repeat == 0:
            return False
        if step.repeat > self.round:
            self.round = step.repeat
            mine = [each for each in self.steps if each.setup == self.deployed.setup.name]
            self.is_known = is_enough(mine, self.requests)
        is_over = self.is_known or time.monotonic() > self.until
        if is_over and not self.was_over:
            why = f"each whole answer is known to {ENOUGH:.0%}" if self.is_known else "its time is spent"
            self.show.say(f"  {why}, after {step.repeat} rounds")
        self.was_over = is_over
        return is_over

    def _count(self, prompts: list[list[Message]]) -> list[int]:
        """An engine that has died of the step before is waited for."""
        try:
            return self.way.count(prompts)
        except Refusal:
            self._wait_until_back(self.way.engine)
            return self.way.count(prompts)

    def _seed(self) -> str:
        """A step that was broken off lies in prefix caches: it is asked otherwise."""
        attempt = attempts(self.run)
        return f"{self.run.seed}" if attempt == 1 else f"{self.run.seed}+{attempt}"

    def _warm_up(self, wanted: list[Wanted]) -> None:
        """Every target by its most users, with short answers: graphs, compilers, connections, the template's cache."""
        self.show.say("warm-up")
        short = replace(self.asked.profile, answer=min(self.asked.profile.answer, 16), turns=1, shared=0)
        for target in dict.fromkeys(step.target for step in wanted):
            most = max(
                (step for step in wanted if step.target == target and not step.is_known), key=_breadth, default=None
            )
            if most:
                asked = conversations(short, most, f"{self.run.seed}/{time.time()}", self.asked.prompts, self._count)
                place = self.way.place(target, exact=short.exact)
                told: list[Told] = []
                self.way.client.order("load", told.append, users=most.users, conversations=asked[: most.users], **place)
                if any(request["error"] for request in told):
                    self.show.warn(f"{target}, warm-up: {next(each['error'] for each in told if each['error'])}")
                    self._wait_until_back(target)

    def _learn(self) -> dict[str, str]:
        self.show.say("answers that are known, asked alone")
        return known.learn(self.way.client, **self.way.place("proxy", exact=False))

    def _measure(self, step: Wanted, asked: list[list[Turn]]) -> None:
        self.show.begin(step)
        requests: list[Request] = []
        place = self.way.place(step.target, exact=self.asked.profile.exact and not step.is_known)
        before = self.states()
        began = time.time()
        with self.folder.requests.open("a") as file:

            def keep(told: Told) -> None:
                request = Request(step=step.name, **{name: value for name, value in told.items() if name != "text"})
                requests.append(request)
                file.write(request.model_dump_json() + "\n")

            done = self.way.client.order("load", keep, users=step.users, conversations=asked, **place)
        time.sleep(SETTLE_S)
        after = self.states()
        record = self.record(step, began, float(done["took_s"]), len(requests), before, after)
        append(self.folder, record)
        self.steps.append(record)
        self.requests[step.name] = requests
        self._judge(step, record, requests, float(done["cpu_share"]))

    def states(self) -> dict[str, Node]:
        """How all nodes are now, and what their engines have counted."""
        return self.session.states(self.deployed.nodes, self.deployed.engines)

    def record(
        self,
        step: Wanted,
        began: float,
        took_s: float,
        requests: int,
        before: Mapping[str, Node],
        after: Mapping[str, Node],
    ) -> Step:
        """The line of a step."""
        both = [name for name in self.deployed.engines if name in before and name in after]
        counts = {name: count for name in both if (count := counted(before[name], after[name]))}
        profile = self.asked.profile
        is_fixed = not step.is_known and profile.turns == 1
        return Step(
            name=step.name,
            setup=step.setup,
            target=step.target,
            users=step.users,
            repeat=step.repeat,
            prompt_tokens=step.prompt if is_fixed else None,
            answer_tokens=step.answer if is_fixed and profile.exact else None,
            began=began,
            took_s=took_s,
            requests=requests,
            engines=counts,
            before={name: state(node) for name, node in before.items()},
            after={name: state(node) for name, node in after.items()},
        )

    def _judge(self, step: Wanted, record: Step, requests: list[Request], cpu_share: float) -> None:
        found = figures(record, requests, Slo.of(self.run.slo))
        self.show.end(step, found)
        pieces = sum(len(each.pieces_s) for each in requests)
        most = (self.run.client_requests_s, self.run.client_pieces_s)
        if (near := max(limit.near(pieces, len(requests), record.took_s, most), cpu_share)) > limit.NEAR:
            self.show.warn(
                f"{step.name}: the client itself was at {near:.0%} of what it can do: figures may be its own"
            )
        if self.asked.profile.is_fresh and not step.is_known and (found.prefix_share or 0) > WARM:
            self.show.warn(
                f"{step.name}: {found.prefix_share:.0%} of the prompts lay in a prefix cache: prefill looks faster"
            )
        if found.errors:
            self.show.warn(f"{step.name}: {next(each.error for each in requests if each.error)}")
            self._wait_until_back(step.target)
        if found.errors == found.requests:
            self.hopeless.add(step.cell)

    def _wait_until_back(self, target: str) -> None:
        """Raises Refusal where it does not come back."""
        self.show.say(f"  waiting until {target} serves again")
        deadline = time.monotonic() + BACK_S
        turn: list[list[Turn]] = [[{**known.turn("Hi"), "max_tokens": 1}]]
        while time.monotonic() < deadline:
            told: list[Told] = []
            self.way.client.order(
                "load", told.append, users=1, conversations=turn, **self.way.place(target, exact=False)
            )
            if not told[0]["error"]:
                return
            time.sleep(5)
        problem = f"{target} does not answer any more: {told[0]['error']}"
        raise Refusal(
            Finding(self.deployed.setup.name, problem, "`tandem status` says how it is; run the same again: it goes on")
        )


def _breadth(step: Wanted) -> tuple[int, int]:
    """By which the step for a warm-up is chosen: most users, and of their prompts the shortest."""
    return step.users, -(step.prompt or 0)


def append(folder: Folder, step: Step) -> None:
    """The line that makes a step's requests count."""
    with folder.steps.open("a") as file:
        file.write(json.dumps(step.model_dump(mode="json")) + "\n")
