"""`tandem init`: an owner's folder, from Sparks that are found and three answers."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from operations.init import folder as folders
from operations.init import plan
from operations.init.answers import Answers, named
from operations.init.ask import Asker, Ended
from operations.init.folder import Owned
from operations.init.login import Login, told
from operations.init.nodes import Tried, tried, which, wiring
from operations.init.questions import Flags, answers
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.recipe import Recipe

#: As operations/command/groups.py documents them.
DONE, FAILED, NOT_UNDERSTOOD, NOBODY, ENDED = 0, 1, 2, 3, 130


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
            _tell(f"{finding.where}: {finding.problem}; {finding.remedy}")
        return NOT_UNDERSTOOD
    except Ended as ended:
        _tell(f"\nthe input ended at: {ended}; {flags.left()}. Go on: {flags.command()}")
        return NOT_UNDERSTOOD
    except KeyboardInterrupt:
        _tell(f"\nended; {flags.left()}. Go on: {flags.command()}")
        return ENDED


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


def _init(flags: Flags, asker: Asker) -> int:
    before = folders.owned(flags.folder)
    flags.check()

    def keep_nodes(logins: list[Login]) -> None:
        flags.keep_nodes(logins, before.logins)

    logins = which(asker, flags.nodes, flags.user, before.logins)
    keep_nodes(logins)
    asker.say("Trying each ...")
    done = tried(asker, logins, bool(flags.user), keep_nodes)
    away = [each for each in done if each.seen is None]
    if away and not asker.yes("  Write the folder all the same, for when they are ready"):
        names = named(each.login.name for each in away)
        _tell(f"not ready: {names}; {flags.left()}. Then: {flags.command()}")
        return NOBODY if all(each.knock.kind == "away" for each in done) else FAILED
    for line in wiring(done):
        asker.say(f"  {line}")
    said, recipe = answers(flags, asker, before, len(done))
    return _write(asker, before, done, said, recipe, flags)


def _write(asker: Asker, before: Owned, done: list[Tried], said: Answers, recipe: Recipe, flags: Flags) -> int:
    wanted = plan.knobs(before, recipe, said, len(done))
    asker.say("\nThe plan")
    for line in plan.lines(recipe, {**before.knobs, **{name: value for name, (value, _) in wanted.items()}}, len(done)):
        asker.say(f"  {line}")
    for line in plan.short_of_disk(recipe, [(each.login.name, each.seen) for each in done]):
        asker.say(f"  {line}")
    texts = {
        folders.INVENTORY: folders.inventory(before, [each.login for each in done]),
        folders.KNOBS: folders.knobs(before, wanted),
        folders.IGNORE: folders.ignored(before),
    }
    where = before.path
    if all(before.texts.get(name) == text for name, text in texts.items()):
        asker.say(f"{where} says so already: nothing was changed.")
        return DONE
    if asker.is_asking and not asker.yes(f"Write {where}", default=True):
        _tell(f"{flags.left()}. Again: {flags.command()}")
        return FAILED
    for name in folders.write(before, texts):
        asker.say(f"wrote {where / name}")
    again = "" if where == Path.cwd() else f"cd {told([str(where)])} && "
    asker.say(f"Next: {again}tandem apply    (tandem plan shows first what it would do)")
    if before.is_new:
        asker.say("It is ready for git: git init && git add -A && git commit -m 'Our Sparks'")
    return DONE
