"""What a command line serves, as far as it has been read."""

from __future__ import annotations

from dataclasses import dataclass, field

from operations.plan.config.refusal import Remark
from operations.plan.engines import ENGINES
from operations.plan.recipes.bounds import COMMAND_CHARACTERS
from operations.plan.recipes.formats import parallel
from operations.plan.recipes.recipe import Flag


@dataclass
class Served:
    """What a command serves. `engine` is empty when it is none of Tandem's."""

    engine: str = ""
    #: How it is called, when that is not by its own name.
    program_words: list[str] = field(default_factory=list)
    model: str = ""
    flags: list[Flag] = field(default_factory=list)
    #: Values of flags that the plan owns, by canonical name.
    owned: dict[str, str] = field(default_factory=dict)
    #: Those flags as they were written.
    spelt: dict[str, str] = field(default_factory=dict)
    #: Words of flags with variables that the container's shell fills in.
    shell: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    #: Variables that name others, as they are written.
    exports: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    #: Scripts that are run before it, at each start.
    hooks: list[str] = field(default_factory=list)
    #: Commands beside the engine's that are not harmless.
    others: list[str] = field(default_factory=list)
    #: Characters that are left to a command that grows while its variables are filled in.
    room: int = COMMAND_CHARACTERS
    remarks: list[Remark] = field(default_factory=list)

    def flag(self, name: str) -> str:
        """What a flag is set to; empty: absent or bare."""
        values = [each.value for each in self.flags if each.name == name]
        return values[-1] if values and isinstance(values[-1], str) else ""

    @property
    def stages(self) -> int:
        """Stages that the model's layers are put into."""
        return parallel.stages(ENGINES[self.engine], self.owned) if self.engine else 1

    @property
    def gpus(self) -> int:
        """GPUs that it takes, in all stages."""
        return parallel.split(ENGINES[self.engine], self.owned) * self.stages if self.engine else 1
