"""`tandem init`: an owner's folder, from Sparks that are found and three answers."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from operations.init import answers as given
from operations.init import folder as folders
from operations.init import plan
from operations.init.answers import Answers
from operations.init.ask import Asker, Ended, numbered
from operations.init.folder import Owned
from operations.init.login import Login, told
from operations.init.nodes import Tried, tried, which, wiring
from operations.plan.picks import PICKS, Pick
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal

#: As operations/command/groups.py documents them.
DONE, FAILED, NOT_UNDERSTOOD, NOBODY, ENDED = 0, 1, 2, 3, 130


@dataclass
class Flags:
    """What was said on the command line, and is said so far: whoever breaks off gets the command that goes on."""

    folder: Path
    nodes: str = ""
    user: str = ""
    model: str = ""
    purpose: str = ""
    reach: str = ""
    people: int | None = None
    typed: list[str] = field(default_factory=list)

    def command(self) -> str:
        """What goes on from here."""
        words = ["tandem", "init", str(self.folder)]
        for flag, value in (
            ("--nodes", self.nodes),
            ("--user", self.user),
            ("--model", self.model),
            ("--for", self.purpose),
            ("--reach", self.reach),
            ("--people", str(self.people or "")),
        ):
            words += [flag, value] if value else []
        return shlex.join(words)


def init(
    folder: Path,
    *,
    nodes: str = "",
    user: str = "",
    model: str = "",
    purpose: str = "",
    reach: str = "",
    people: int | None = None,
    is_asking: bool = True,
) -> int:
    """Asks, shows, writes; the exit code. Without a terminal nothing is asked.

    Nothing is written before all is known, and nothing is changed on a node but what the owner says yes to.
    """
    flags = Flags(folder, nodes, user, model, purpose, reach, people)
    asker = Asker(Console(highlight=False), is_asking and sys.stdin.isatty())
    try:
        return _init(flags, asker)
    except Refusal as refusal:
        for finding in refusal.findings:
            print(f"{finding.where}: {finding.problem}; {finding.remedy}", file=sys.stderr)
        return NOT_UNDERSTOOD
    except Ended as ended:
        print(f"\nthe input ended at: {ended}. Nothing was written. Go on: {flags.command()}", file=sys.stderr)
        return NOT_UNDERSTOOD
    except KeyboardInterrupt:
        print(f"\nended; nothing was written. Go on: {flags.command()}", file=sys.stderr)
        return ENDED


def _init(flags: Flags, asker: Asker) -> int:
    before = folders.owned(flags.folder)
    # Whatever is wrong with the words is said before a node is asked.
    _check(flags)
    logins = which(asker, flags.nodes, flags.user, before.logins)

    def so_far(known: list[Login]) -> None:
        flags.nodes = ",".join(_spelled(each, flags.user) for each in known)

    so_far(logins)
    asker.say("Trying each ...")
    done = tried(asker, logins, bool(flags.user), so_far)
    away = [each for each in done if each.seen is None]
    if away and not asker.yes("  Write the folder all the same, for when they are ready"):
        names = given.named(each.login.name for each in away)
        print(f"not ready: {names}. Nothing was written. Then: {flags.command()}", file=sys.stderr)
        return NOBODY if all(each.knock.kind == "away" for each in done) else FAILED
    for line in wiring(done):
        asker.say(f"  {line}")
    answers, recipe = _answers(flags, asker, before, len(done))
    return _write(asker, before, done, answers, recipe, flags)


def _spelled(login: Login, user: str) -> str:
    at_port = "" if login.port == 22 else f":{login.port}"
    return f"{login.user}@{login.name}{at_port}" if login.user and login.user != user else f"{login.name}{at_port}"


def _check(flags: Flags) -> None:
    if flags.model and flags.purpose:
        raise Refusal(Finding("--model", "and --for both choose the model", "give one of them"))
    if flags.model:
        given.recipe(flags.model)
    if flags.purpose:
        given.purpose(flags.purpose)
    if flags.reach:
        given.reach(flags.reach)


def _answers(flags: Flags, asker: Asker, before: Owned, nodes: int) -> tuple[Answers, Recipe]:
    knobs = before.knobs or {}
    if "models" in knobs:
        problem = "declares several models, which are edited by hand"
        raise Refusal(Finding(str(before.path / folders.KNOBS), problem, "docs/models.md says how"))
    name, pick = _model(flags, asker, str(knobs.get("recipe", "")), nodes)
    recipe = given.recipe(name)
    given.check_fits(recipe, nodes)
    reach = flags.reach or _reach(asker, given.reach_of(knobs) or "home")
    flags.reach = reach
    people = flags.people or given.PEOPLE
    if not flags.people and asker.is_asking:
        people = asker.ask("3. How many people will use it", str(people), given.people)
    flags.people = people
    return Answers(name, pick, reach, people), recipe


def _model(flags: Flags, asker: Asker, declared: str, nodes: int) -> tuple[str, Pick | None]:
    """A recipe's name, and the purpose that it was chosen by."""
    default = declared or given.pick_for(nodes).key
    if not (flags.model or flags.purpose) and asker.is_asking:
        asker.say("\n1. What for?")
        fitting = [pick for pick in PICKS if given.fits(given.recipe(pick.recipe), nodes)]
        for number, pick in enumerate(fitting, 1):
            asker.say(f"  {number}  {pick.title}: {pick.recipe}; {pick.why}")
        asker.say("  or the name of a recipe (tandem recipes)")
        keys = [pick.key for pick in fitting]

        def read(said: str) -> tuple[str, str]:
            if said.isdigit() or said.lower() in keys:
                return "", numbered(keys)(said)
            given.check_fits(given.recipe(said), nodes)
            return said, ""

        flags.model, flags.purpose = asker.ask("1. Number or name", default, read)
    if flags.purpose:
        pick = given.purpose(flags.purpose)
        return pick.recipe, pick
    if flags.model or declared:
        return flags.model or declared, None
    pick = given.pick_for(nodes)
    return pick.recipe, pick


def _reach(asker: Asker, default: str) -> str:
    if not asker.is_asking:
        return default
    asker.say("\n2. Who may reach it?")
    for number, (word, (_, meaning)) in enumerate(given.REACH.items(), 1):
        asker.say(f"  {number}  {word}: {meaning}")
    return asker.ask("2. Number or word", default, numbered(list(given.REACH)))


def _write(asker: Asker, before: Owned, done: list[Tried], answers: Answers, recipe: Recipe, flags: Flags) -> int:
    count = len(done)
    wanted = plan.knobs(recipe, answers, count)
    group = wanted["nodes_per_replica"][0] if "nodes_per_replica" in wanted else 1
    asker.say("\nThe plan")
    for line in plan.lines(recipe, wanted["topology"][0], count, group):
        asker.say(line)
    for line in plan.short_of_disk(recipe, [(each.login.name, each.seen) for each in done]):
        asker.say(f"  {line}")
    texts = {
        folders.INVENTORY: folders.inventory(before, [each.login for each in done]),
        folders.KNOBS: folders.knobs(before, wanted),
        folders.IGNORE: folders.ignored(before),
    }
    where = before.path
    if asker.is_asking and not asker.yes(f"Write {where}", default=True):
        print(f"nothing was written. Again: {flags.command()}", file=sys.stderr)
        return FAILED
    changed = folders.write(before, texts)
    if not changed:
        asker.say(f"{where} says so already: nothing was changed.")
    for name in changed:
        asker.say(f"wrote {where / name}")
    again = "" if where == Path.cwd() else f"cd {told([str(where)])} && "
    asker.say(f"Next: {again}tandem apply    (first what it would do: tandem plan)")
    if before.is_new:
        asker.say("It is ready for git: git init && git add -A && git commit -m 'Our Sparks'")
    return DONE
