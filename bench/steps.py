"""The steps of a setup, in the order in which they are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench import known
from bench.profiles import Profile
from bench.records import KNOWN
from operations.plan.config.refusal import Finding, Refusal


@dataclass(frozen=True)
class Wanted:
    """A step that is to be measured; `prompt` None: a file's, or known questions."""

    setup: str
    target: str
    users: int
    repeat: int
    prompt: int | None
    answer: int
    #: The last part of its name, where the profile has several prompts.
    which: str = ""

    @property
    def name(self) -> str:
        """As in records.Step."""
        name = f"{self.setup}/{self.target}/{self.users}/{self.repeat}"
        return f"{name}/{self.which}" if self.which else name

    @property
    def is_known(self) -> bool:
        """As in records.Step."""
        return self.which == KNOWN

    @property
    def cell(self) -> tuple[str, int, str]:
        """What is repeated."""
        return self.target, self.users, self.which


def steps(profile: Profile, setup: str, engines: Sequence[str], targets: Sequence[str], context: int) -> list[Wanted]:
    """All steps of a setup. Each round of repeats goes through all of them: a node that warms up shows in the spread.

    Raises Refusal for a prompt that does not fit into the context.
    """
    found = []
    for repeat in range(profile.repeats):
        for target in (*(["proxy"] if "proxy" in targets else []), *(engines if "engines" in targets else [])):
            for users in profile.users if target == "proxy" or "proxy" not in targets else profile.direct:
                for prompt, which in lengths(profile, context):
                    found.append(Wanted(setup, target, users, repeat, prompt, profile.answer, which))
    if profile.tool == "tandem" and "proxy" in targets:
        found.append(Wanted(setup, "proxy", max(profile.users), 0, None, known.TOKENS, KNOWN))
    return found


def lengths(profile: Profile, context: int) -> Iterator[tuple[int | None, str]]:
    """Tokens of each prompt, and its name among several. `context` 0: it is not known."""
    if not profile.prompts:
        yield None, ""
        return
    room = context - profile.answer
    for wanted in profile.prompts:
        if wanted <= 1 and not context:
            problem = "the engine does not say how long its context is"
            raise Refusal(Finding("--prompt", problem, 'name lengths: --prompt "4096 32768"'))
        prompt = int(room * wanted) if wanted <= 1 else int(wanted)
        longest = profile.shared + (prompt + profile.answer) * profile.turns - profile.answer
        if context and longest > room:
            whole = f"a prompt of {longest:,} tokens and an answer of {profile.answer:,}"
            problem = f"{whole} are longer than the context of {context:,}"
            raise Refusal(Finding("--prompt", problem, f"--prompt and --answer of together at most {context:,}"))
        yield prompt, f"p{prompt}" if len(profile.prompts) > 1 else ""
