"""How large a recipe may be. The largest public ones have a tenth of each; a reader must not choke on the others."""

from __future__ import annotations

from operations.plan.recipes.recipe import Recipe

#: KiB of a file.
FILE_KIB = 256
#: Values of a file, keys included, and what they are together in characters: each alias counts as what it stands for.
VALUES = 5_000
CHARACTERS = 1_048_576
#: Keys of one mapping.
KEYS = 200
#: Mappings and lists within each other, in YAML, and in a word of the command that may be JSON.
DEPTH = 20
JSON_DEPTH = 100
#: Digits of a number, and of the width that a placeholder asks for (`{port:>8}`).
DIGITS = 64
WIDTH = 1_000
#: Of a command, when its placeholders and variables are filled in.
COMMAND_CHARACTERS = 65_536
COMMAND_WORDS = 4_000
#: Flags of it, and characters of a flag's name.
FLAGS = 150
FLAG_CHARACTERS = 100
#: Placeholders without a value.
MISSING = 100


class Beyond(Exception):
    """A recipe is larger than a bound; the readers let it through, and `load_file` makes a Refusal of it."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(problem)


def too_long() -> Beyond:
    """For a command that grows beyond all bounds while it is filled in."""
    return Beyond(
        f"its command has more than {COMMAND_CHARACTERS:,} characters when it is filled in",
        "put what is no flag of the engine into a mod (files/mods)",
    )


def check_words(recipe: Recipe) -> None:
    """Raises Beyond for a recipe with more than FLAGS flags, a flag's name of more than FLAG_CHARACTERS characters, or
    more than JSON_DEPTH brackets in each other in a word or a variable: parsers recurse there.
    """
    if len(recipe.flags) > FLAGS or any(len(each.name) > FLAG_CHARACTERS for each in recipe.flags):
        raise Beyond(
            f"it has more than {FLAGS} flags, or one of more than {FLAG_CHARACTERS} characters", "give those it needs"
        )
    for word in (*recipe.flag_argv, *recipe.env.values()):
        depth = 0
        for each in word:
            depth += (each in "[{") - (each in "]}")
            if depth > JSON_DEPTH:
                problem = f"a word of its command or a variable has more than {JSON_DEPTH} brackets in each other"
                raise Beyond(problem, "close them")
