"""The three questions, on the terminal or answered by flags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from operations.init import answers as given
from operations.init.answers import Answers
from operations.init.ask import Asker, numbered
from operations.init.folder import KNOBS, Owned
from operations.init.login import Login, check_user, told
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.recipes.picks import PICKS, Pick
from operations.plan.recipes.recipe import Recipe

#: The answer that leaves a knob alone, where a folder has it already.
AS_IT_IS = "as it is"


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
        return told(words)

    def keep_nodes(self, logins: list[Login], before: Sequence[Login]) -> None:
        """The nodes as far as they are known; `before`: those of the folder, which nobody has to type again."""
        same = logins == [replace(each, user=self.user or each.user) for each in before]
        self.nodes = "" if same else ",".join(each.spelled(self.user) for each in logins)

    def left(self) -> str:
        """What became of the folder where nothing is written."""
        return f"{self.folder} is as it was" if self.folder.expanduser().exists() else "nothing was written"

    def check(self) -> None:
        """Raises Refusal for a word that is not understood, before a node is asked."""
        self._check_folder()
        if self.user:
            check_user(self.user)
        if self.model and self.purpose:
            raise Refusal(Finding("--model", "and --for both choose the model", "give one of them"))
        if self.model:
            given.recipe(self.model)
        if self.purpose:
            given.purpose(self.purpose)
        if self.reach:
            self.reach = given.reach(self.reach)
        if self.people is not None:
            given.people(str(self.people))

    def _check_folder(self) -> None:
        """Raises Refusal where a node was typed behind a blank: it would be the folder."""
        *_, last = ["", *self.nodes.replace(",", " ").split()]
        folder = str(self.folder)
        if folder != last and _without_digits(folder) == _without_digits(last) and not self.folder.exists():
            remedy = f"write the Sparks with a comma: --nodes {self.nodes.strip(', ')},{folder}"
            raise Refusal(Finding("folder", f"`{folder}` is written like a Spark", remedy))


def _without_digits(name: str) -> str:
    return re.sub(r"\d+", "0", name.rpartition("@")[2])


def answers(flags: Flags, asker: Asker, before: Owned, nodes: int) -> tuple[Answers, Recipe]:
    """From flags, else asked where there is a terminal, else what the folder says, else a default. Raises Refusal."""
    if "models" in before.knobs:
        problem = "declares several models, which are edited by hand"
        raise Refusal(Finding(str(before.path / KNOBS), problem, "docs/models.md in the clone says how"))
    name, pick = _model(flags, asker, str(before.knobs.get("recipe", "")), nodes)
    recipe = given.recipe(name)
    given.check_fits(recipe, nodes)
    _reach(flags, asker, before)
    _people(flags, asker, before)
    return Answers(name, pick, flags.reach, flags.people), recipe


def _model(flags: Flags, asker: Asker, declared: str, nodes: int) -> tuple[str, Pick | None]:
    """A recipe's name, and the purpose that it was chosen by."""
    if not (flags.model or flags.purpose) and asker.is_asking:
        asker.say("\n1. What for?")
        fitting = [pick for pick in PICKS if given.fits(given.recipe(pick.recipe), nodes)]
        for number, pick in enumerate(fitting, 1):
            asker.say(f"  {number}  {pick.title}: {pick.why} ({pick.recipe})")
        asker.say("  or a recipe's name (tandem recipes)")
        keys = [pick.key for pick in fitting]

        def read(said: str) -> tuple[str, str]:
            if said.isdigit() or said.lower() in keys:
                return "", numbered(keys)(said)
            given.check_fits(given.recipe(said), nodes)
            return said, ""

        flags.model, flags.purpose = asker.ask("1. Number or name", declared or given.pick_for(nodes).key, read)
    if flags.purpose:
        pick = given.purpose(flags.purpose)
        return pick.recipe, pick
    if flags.model or declared:
        return flags.model or declared, None
    pick = given.pick_for(nodes)
    return pick.recipe, pick


def _reach(flags: Flags, asker: Asker, before: Owned) -> None:
    default = "home" if before.is_new else given.reach_of(before.knobs) or AS_IT_IS
    if not flags.reach and asker.is_asking:
        asker.say("\n2. Who may reach it?")
        for number, (word, (_, meaning)) in enumerate(given.REACH.items(), 1):
            asker.say(f"  {number}  {word}: {meaning}")
        read = numbered(list(given.REACH))
        flags.reach = asker.ask("2. Number or word", default, lambda said: "" if said == AS_IT_IS else read(said))
    if not flags.reach and before.is_new:
        flags.reach = default


def _people(flags: Flags, asker: Asker, before: Owned) -> None:
    default = str(given.PEOPLE) if before.is_new else AS_IT_IS
    if flags.people is None and asker.is_asking:
        asker.say("")
        flags.people = asker.ask(
            "3. How many people will use it", default, lambda said: None if said == AS_IT_IS else given.people(said)
        )
    if flags.people is None and before.is_new:
        flags.people = given.PEOPLE
