"""What is asked, by how many, how often. One entry each; the owner's knobs change single values of it."""

from __future__ import annotations

from dataclasses import dataclass

from operations.plan.config.refusal import Finding, Refusal, nearest

#: Share of prompt tokens in the prefix cache above which a profile of fresh prompts measures the cache.
WARM = 0.1


@dataclass(frozen=True)
class Profile:
    """Lengths are tokens, as the engine counts them with its template."""

    name: str
    about: str
    users: tuple[int, ...]
    repeats: int
    answer: int
    #: Lengths of prompts; below 1: shares of the model's context, less the answer. Empty: the owner's file has them.
    prompts: tuple[float, ...] = ()
    #: Whether answers have to have their whole length (the engine is told to ignore its end), or end where they end.
    exact: bool = True
    #: Requests that a user makes, one after the other, of a conversation each.
    rounds: int = 1
    #: Turns of a conversation; each sends all that was said before it, and a prompt's length more.
    turns: int = 1
    #: Tokens that all conversations begin with.
    shared: int = 0
    #: Users at once that each engine is asked by directly.
    direct: tuple[int, ...] = ()
    tool: str = "tandem"

    @property
    def is_fresh(self) -> bool:
        """Whether no prompt begins as another did: then what lies in a prefix cache is a fault of the measurement."""
        return self.turns == 1 and not self.shared and bool(self.prompts)


_TO_64 = (1, 2, 4, 8, 16, 32, 64)

PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "standard",
            "the articles' load from Tandem's own client: exact lengths, seeds, percentiles, share of each engine",
            users=_TO_64,
            repeats=5,
            prompts=(1024,),
            answer=128,
            direct=(1, 8, 64),
        ),
        Profile(
            "articles",
            "the real llama-benchy 0.3.5, as the published tables were measured",
            users=_TO_64,
            repeats=50,
            prompts=(1024,),
            answer=128,
            exact=False,
            tool="llama-benchy",
        ),
        Profile(
            "decode200",
            "200 tokens of a short prompt, temperature 0: decode and little else",
            users=(1, 2, 4, 8, 16),
            repeats=5,
            prompts=(64,),
            answer=200,
            direct=(1, 16),
        ),
        Profile(
            "agent",
            "conversations of six turns that grow, all with the same beginning: what a prefix cache is worth",
            users=(1, 2, 4, 8, 16, 32),
            repeats=3,
            prompts=(256,),
            answer=128,
            turns=6,
            shared=1024,
        ),
        Profile(
            "long",
            "prompts up to the model's context",
            users=(1, 2),
            repeats=2,
            prompts=(0.125, 0.25, 0.5, 1.0),
            answer=64,
            direct=(1,),
        ),
        Profile(
            "owner",
            "the prompts of a file of yours (PROMPTS=), answers as long as they are",
            users=(1, 4, 16),
            repeats=3,
            answer=512,
            exact=False,
        ),
        Profile(
            "quick",
            "a few minutes on two processor cores and a tiny model: for rehearsals",
            users=(1, 2, 8),
            repeats=3,
            prompts=(64,),
            answer=16,
            direct=(8,),
        ),
    )
}


def profile(name: str) -> Profile:
    """Raises Refusal for one that does not exist."""
    if name not in PROFILES:
        known = f"one of: {', '.join(PROFILES)}"
        raise Refusal(Finding("--profile", f"no profile is named `{name}`", nearest(name, PROFILES, known)))
    return PROFILES[name]
