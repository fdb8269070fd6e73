"""What is asked in a step: conversations of turns, as the client takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench import prompts
from bench.client.shapes import Message, Turn
from bench.profiles import Profile
from bench.steps import Wanted

#: Messages of several prompts -> tokens of each, the template's included.
Count = Callable[[list[list[Message]]], list[int]]


def conversations(profile: Profile, step: Wanted, seed: str, given: Sequence[str], count: Count) -> list[list[Turn]]:
    """For all users of a step. `seed`: the same gives the same; `given`: the owner's prompts."""
    if not profile.prompts:
        return [[_turn(profile, text)] for text in _dealt(given, step.users, step.repeat)]
    assert step.prompt is not None
    number = step.users * profile.rounds
    # Not the setup: all are asked the same.
    own = f"{seed}/{step.target}/{step.users}/{step.repeat}/{step.which}"
    lengths = [step.prompt] * (number * profile.turns)
    texts = prompts.make(own, lengths, lambda drafts: count([_message(each) for each in drafts]))
    turns_of = [texts[at : at + profile.turns] for at in range(0, len(texts), profile.turns)]
    whole = [[_turn(profile, text) for text in turns] for turns in turns_of]
    if profile.shared:
        [beginning] = prompts.make(
            f"{seed}/shared", [profile.shared], lambda some: count([_message(each) for each in some])
        )
        for turns in whole:
            turns[0]["messages"].insert(0, {"role": "system", "content": beginning})
    return whole


def _turn(profile: Profile, text: str) -> Turn:
    return {"messages": _message(text), "max_tokens": profile.answer, "exact": profile.exact}


def _message(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def _dealt(given: Sequence[str], users: int, repeat: int) -> list[str]:
    """All prompts once, or as many as there are users; each repeat begins with another one."""
    number = max(users, len(given))
    return [given[(at + repeat) % len(given)] for at in range(number)]
