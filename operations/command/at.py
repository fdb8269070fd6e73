"""Where an owner's things are: the folder with `inventory.py` and `group_data`, and knobs for one run."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from operations.plan.config.refusal import Finding, Refusal

#: Tandem's own files: those of the package, or the clone.
ROOT = Path(__file__).parents[2]
#: The owner's folder where none is named, and what it has.
HERE, INVENTORY = Path("."), Path("inventory.py")


@dataclass(frozen=True)
class At:
    """`inventory`: a file, from the current directory; `data`: knobs for one run, as they were typed."""

    inventory: Path
    data: tuple[str, ...] = ()

    @property
    def data_words(self) -> list[str]:
        """As pyinfra takes them. What is no `knob=value` is refused there, as it is for `make`."""
        return [word for pair in self.data for word in ("--data", pair)]

    @property
    def as_given(self) -> str:
        """The knobs as they are typed once more."""
        return "".join(f" {shlex.quote(pair)}" for pair in self.data)


def enter(folder: Path, inventory: Path | None, data: tuple[str, ...]) -> At:
    """Makes the owner's folder the current directory. Raises Refusal where there is none, or no inventory in it."""
    try:
        place = folder.expanduser()
        if not place.is_dir():
            raise Refusal(Finding("folder", f"{place} is no folder", "name yours; `tandem init FOLDER` makes one"))
        # Relative to where it was typed.
        file = inventory.expanduser().absolute() if inventory else INVENTORY
        os.chdir(place)
        if inventory and not file.is_file():
            raise Refusal(Finding("inventory", f"{file} is no file", "name one that says `nodes = [...]`"))
        if not file.is_file():
            remedy = "name yours with --folder; `tandem init FOLDER` makes one"
            raise Refusal(Finding("folder", f"no {file.name} is in {file.absolute().parent}", remedy))
    # A home that nobody has is a RuntimeError.
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise Refusal(
            Finding("folder", f"{folder} can't be entered: {why}", "name one of yours with --folder")
        ) from None
    return At(file, data)
