"""Checks of Anthropic's protocol."""

from __future__ import annotations

from collections.abc import Callable

from operations.plan.answers import texts
from operations.plan.answers.calls import apart, called, well_made
from operations.plan.answers.reading import Undecided, need, quoted, whole
from operations.plan.answers.shapes import Check, Seen

_ENDS = ("end_turn", "max_tokens", "stop_sequence", "tool_use")


def _answer(name: str) -> Callable[[Seen], None]:
    def judge(seen: Seen) -> None:
        said = seen.message(name)
        need(said.text, "the answer is empty")
        need(said.finish in _ENDS, f"it says `{said.finish}` as why it ended, expected one of {', '.join(_ENDS)}")
        need(said.prompt_tokens and said.answer_tokens, "it does not say what it cost (`usage`)")

    return judge


def _stopped(seen: Seen) -> None:
    word, said = texts.stop_word(seen.chat("count").text), seen.message("message-stop")
    need(word not in said.text, f"the answer goes on behind the word at which it should stop ({quoted(word)})")
    if said.is_cut:
        raise Undecided("asked again the answer went another way, and never came to the word")


def _tool(name: str) -> Callable[[Seen], None]:
    def judge(seen: Seen) -> None:
        said = seen.message(name)
        apart(said)
        well_made(said, "tool_use")

    return judge


def _counted(seen: Seen) -> None:
    answered = seen.answered("counted")
    if answered.get("status") in (404, 405, 501):
        raise Undecided("the engine has no such path")
    tokens = whole(answered).get("input_tokens")
    need(isinstance(tokens, int) and tokens > 0, f"it counts {tokens!r} tokens")


CHECKS: tuple[Check, ...] = (
    Check("message", "form", "/v1/messages: text, why it ended, what it cost", _answer("message")),
    Check("message-stream", "form", "Its stream has all events, in their order", _answer("message-stream")),
    Check("message-stop", "form", "It ends before a stop sequence", _stopped),
    Check(
        "message-tool",
        "form",
        "A call is a block of its own, and its input is an object",
        _tool("message-tool"),
        ("tools",),
    ),
    Check(*("message-tool-stream", "form", "So is one in a stream"), _tool("message-tool-stream"), ("tools",)),
    Check("message-count", "form", "/v1/messages/count_tokens counts", _counted),
    Check(
        *("message-calls", "sense", "It calls the tool that was meant"),
        lambda seen: called(seen.message("message-tool"), ["Paris"]),
        ("tools",),
    ),
)
