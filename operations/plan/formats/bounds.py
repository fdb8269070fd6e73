"""How large a recipe may be. The largest public ones have a tenth of each; a reader must not choke on the others."""

from __future__ import annotations

#: KiB of a file.
FILE_KIB = 256
#: Values of a file, keys included, and what they are together in characters: each alias counts as what it stands for.
VALUES = 5_000
CHARACTERS = 1_048_576
#: Mappings and lists within each other.
DEPTH = 20
#: Digits of a number, and of the width that a placeholder asks for (`{port:>8}`).
DIGITS = 30
WIDTH = 1_000
#: Of a command, when its placeholders and variables are filled in.
COMMAND_CHARACTERS = 65_536
COMMAND_WORDS = 4_000


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
