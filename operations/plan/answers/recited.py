"""A model whose words are noise recites: the engine is told each word of its answer.

How the model's own template writes a call, or a thought, is asked of the engine: the history of a conversation is made
tokens of, with it and without it, and what is more is made text of. An engine that is told to say that, and to call
tools or think as it likes, has to find it in the text. In vLLM an answer's words are told by `structured_outputs`,
whose `choice` has one text; with `tool_choice: auto` it goes beside tools (protocol.py and abstract_parser.py of 0.32).
"""

from __future__ import annotations

from collections.abc import Callable

from operations.plan.answers import texts
from operations.plan.answers.reading import Undecided, Wrong, whole
from operations.plan.answers.shapes import Question, Seen
from operations.wire import Json

_NEEDS = ("chat", "recited")
_ASK: Json = {"role": "user", "content": texts.ASK_WEATHER}
_PLAIN: Json = {"role": "assistant", "content": "PLUM"}
_THOUGHT: Json = {
    "role": "assistant",
    "content": "PLUM",
    "reasoning_content": "It is a fruit.",
    "reasoning": "It is a fruit.",
}
_TOOLS = texts.tools("get_weather")


def _tokens(name: str, messages: list[Json], needs: tuple[str, ...], opens: bool = False) -> Question:
    """How the template writes a conversation; `opens`: with the beginning of an answer behind it."""
    tools = {"tools": _TOOLS} if "tools" in needs else {}
    body = {"messages": messages, "add_generation_prompt": opens, **tools}
    return Question(name, "tokenize", lambda _: body, (*_NEEDS, *needs))


def _behind(seen: Seen, name: str, of: str) -> list[int]:
    """The tokens of an answer in a history: those behind the beginning of an answer (`of`)."""
    mine, begun = (list[int](whole(seen.answered(each))["tokens"]) for each in (name, of))
    if mine[: len(begun)] != begun or len(mine) == len(begun):
        raise Undecided("the template writes an answer in a history in another way than one that begins")
    return mine[len(begun) :]


def _text(name: str, of: str, begun: str, needs: tuple[str, ...]) -> Question:
    def body(seen: Seen) -> Json:
        return {"tokens": _behind(seen, of, begun)}

    return Question(name, "detokenize", body, (*_NEEDS, *needs), (of, begun))


def spoken(seen: Seen, name: str, plain: str) -> str:
    """What is recited: the text of an answer without the end that each answer has."""
    said, other = (str(whole(seen.answered(each))["prompt"]) for each in (name, plain))
    end = other.rpartition(_PLAIN["content"])[2]
    return said.removesuffix(end).strip() if end else said.strip()


def call(seen: Seen) -> str:
    """How the template writes the call. Raises Wrong where it leaves out what is called."""
    text = spoken(seen, "call-text", "plain-text")
    if "get_weather" not in text or "Vienna" not in text:
        raise Wrong("the template leaves the calls of a conversation out: it is not one for tools")
    return text


def thought(seen: Seen) -> str:
    """How the template writes a thought. Raises Undecided where it writes none."""
    text = spoken(seen, "thought-text", "plain-text-bare")
    if _THOUGHT["reasoning"] not in text:
        raise Undecided("the template writes no thoughts into a history")
    return text


def _recite(what: Callable[[Seen], str], tools: bool, stream: bool = False) -> Callable[[Seen], Json]:
    def body(seen: Seen) -> Json:
        told = {"structured_outputs": {"choice": [what(seen)]}, "max_tokens": 512, "temperature": 0, "stream": stream}
        return {"messages": [_ASK], **told, **({"tools": _TOOLS, "tool_choice": "auto"} if tools else {})}

    return body


_CALLED = ("call-text", "plain-text")
QUESTIONS: tuple[Question, ...] = (
    _tokens("call-begun", [_ASK], ("tools",), opens=True),
    _tokens("call-tokens", [_ASK, texts.call(texts.CALLED)], ("tools",)),
    _tokens("plain-tokens", [_ASK, _PLAIN], ("tools",)),
    _text("call-text", "call-tokens", "call-begun", ("tools",)),
    _text("plain-text", "plain-tokens", "call-begun", ("tools",)),
    _tokens("begun", [_ASK], (), opens=True),
    _tokens("thought-tokens", [_ASK, _THOUGHT], ()),
    _tokens("plain-tokens-bare", [_ASK, _PLAIN], ()),
    _text("thought-text", "thought-tokens", "begun", ()),
    _text("plain-text-bare", "plain-tokens-bare", "begun", ()),
    Question("recited-call", "chat/completions", _recite(call, True), (*_NEEDS, "tools"), _CALLED),
    Question("recited-call-stream", "chat/completions", _recite(call, True, True), (*_NEEDS, "tools"), _CALLED),
    Question(
        "recited-thought", "chat/completions", _recite(thought, False), _NEEDS, ("thought-text", "plain-text-bare")
    ),
)
