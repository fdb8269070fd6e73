"""A stream whose engine dies goes on from another engine, and the client does not notice.

The same request goes to another engine with what the client has already as the beginning of the answer, and with the
words by which an engine of its kind continues that (operations/plan/engines; they stand in the router's entry). What
can't be continued that way ends where it broke: several choices at once, an answer of /v1/completions, one that must
fit a grammar, and one with a tool call, which comes as its engine makes it: agents give up a stream that is silent for
as long as a file takes to write. An answer of which the client has no text yet begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What a request may call the number of tokens that it wants at most.
LIMITS = ("max_tokens", "max_completion_tokens")
#: What makes an answer fit a grammar, by an engine's kind and age.
GRAMMARS = ("structured_outputs", "regex", "ebnf", "guided_json", "guided_regex", "guided_choice", "guided_grammar")
#: Names under which an engine sends thoughts, by its age.
THOUGHTS = ("reasoning", "reasoning_content")


def choices(path: str, asked: Mapping[str, Any], each: str = "n") -> int:
    """How many choices an answer to this request has, by its path below /v1: `n` for each of its prompts. By `best_of`:
    how many an engine makes for them.
    """
    prompts = asked.get("prompt") if path == "completions" else None
    # A list of numbers is one prompt, of tokens.
    if not isinstance(prompts, list) or not prompts or isinstance(prompts[0], int | float):
        prompts = [prompts]
    wanted = asked.get(each)
    return len(prompts) * max(wanted if isinstance(wanted, int) else 1, 1)


class Answer:
    """An answer, and what the client has of it. Chunks are OpenAI's, as objects of JSON. `choices`: how many it is to
    have.
    """

    def __init__(self, choices: int = 1) -> None:
        self.id = ""
        self.choices = choices
        #: Of all choices: only an answer with one of them is continued.
        self.text = ""
        #: Chunks with text. A chunk has a token or more: with this number a client is never taken for one who has all.
        self.pieces = 0
        #: Chunks of thoughts, each of a token or more; and those that were for nothing, as the answer began anew.
        self.thoughts = self.thoughts_lost = 0
        #: Numbers of the choices of which the client has a role.
        self.roles = set[int]()
        #: Of those that have said why they end. An engine that is stopped may end its stream before that.
        self.done = set[int]()
        #: Whether the client was told of an error that is its own.
        self.is_refused = False
        #: Whether the client has a tool call.
        self.has_calls = False
        #: What the client gets when the answer is whole: what it cost, and what comes behind that.
        self.held: list[dict[str, Any]] = []
        #: The last chunk with a choice.
        self.last: dict[str, Any] | None = None
        #: Tokens that came from engines that are gone; and those of the text alone, with which the next one was asked.
        self.tokens_before = self.text_before = 0

    @property
    def is_whole(self) -> bool:
        """Whether each choice has said why it ends, or the client has made a mistake."""
        return self.is_refused or len(self.done) >= self.choices

    def pass_on(self, chunk: dict[str, Any], continued: bool) -> list[dict[str, Any]]:
        """The chunks that the client gets now; the chunk itself, unchanged, unless a part is held or `continued`."""
        if continued:
            self._fit(chunk)
        self.id = self.id or chunk.get("id") or ""
        self.is_refused |= bool(chunk.get("error"))
        self.done |= _ends(chunk)
        self.held.append(chunk)
        if not self.is_whole and any(map(_waits, self.held)):
            return []
        released, self.held = self.held, []
        for each in released:
            self._count(each)
        return released

    def _count(self, chunk: dict[str, Any]) -> None:
        """The client gets this one."""
        for choice in _choices(chunk):
            delta = _delta(choice)
            if delta.get("role"):
                self.roles.add(_number(choice))
            # A piece of /v1/completions has no delta.
            text = delta.get("content") or choice.get("text") or ""
            self.text += text
            self.pieces += bool(text)
            self.thoughts += bool(_thoughts(delta))
            self.has_calls |= bool(delta.get("tool_calls"))
            self.last = chunk

    def _fit(self, chunk: dict[str, Any]) -> None:
        """A chunk of another engine's, as a part of this answer."""
        chunk["id"] = self.id or chunk.get("id")
        if usage := chunk.get("usage"):
            # Of a continued answer the engine counts the text that the client had as a part of the question.
            usage["prompt_tokens"] -= self.text_before
            usage["completion_tokens"] += self.tokens_before
            usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        for choice in _choices(chunk):
            delta = _delta(choice)
            if _number(choice) in self.roles:
                delta.pop("role", None)
            if self.text_before and delta:
                # A parser of reasoning may take the middle of an answer for thoughts.
                delta["content"] = _thoughts(delta) + (delta.get("content") or "")
                for name in THOUGHTS:
                    delta.pop(name, None)

    def ended(self) -> dict[str, Any]:
        """A last chunk for an answer that has all its tokens."""
        assert self.last
        end = {"index": _number(self.last["choices"][0]), "delta": {"content": ""}, "finish_reason": "length"}
        return {**self.last, "choices": [end]}

    def broke_off(self, tokens: int | None) -> None:
        """The engine is gone; what was held back is not the client's. `tokens` of the text; None: nobody counted."""
        for each in self.held:
            self.done -= _ends(each)
        self.held = []
        self.text_before = self.pieces if tokens is None else tokens
        self.tokens_before = self.text_before + self.thoughts
        if not self.text:
            self.thoughts_lost = self.thoughts

    def rest(self, asked: dict[str, Any], words: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The request for what the client has not; None where an answer can't be continued. `words`: by which the
        engine continues the last message; None: it can't.
        """
        body = dict(asked)
        if self.is_refused or self.done or self.has_calls:
            return None
        if not self.text:
            # Nothing, or thoughts alone: they begin anew, and the answer behind them is whole.
            return body
        if (
            words is None
            or self.choices > 1
            or "messages" not in body
            or (body.get("response_format") or {}).get("type", "text") != "text"
            or any(body.get(name) for name in GRAMMARS)
        ):
            return None
        *messages, last = body["messages"]
        if not body.get("continue_final_message"):
            messages, last = body["messages"], {"role": "assistant", "content": ""}
        if not isinstance(last["content"], str):
            return None
        body |= {"messages": [*messages, {**last, "content": last["content"] + self.text}], **words}
        # The client has had the echo of its question.
        body.pop("echo", None)
        had = self.text_before + self.thoughts - self.thoughts_lost
        for limit in LIMITS:
            # Below 0 it is none to llama.cpp.
            if (body.get(limit) or 0) > 0:
                body[limit] = max(body[limit] - had, 0)
        if body.get("min_tokens"):
            body["min_tokens"] = max(body["min_tokens"] - had, 0)
        return body


def _choices(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    return chunk.get("choices") or []


def _delta(choice: dict[str, Any]) -> dict[str, Any]:
    return choice.get("delta") or {}


def _number(choice: dict[str, Any]) -> int:
    return choice.get("index") or 0


def _ends(chunk: dict[str, Any]) -> set[int]:
    """Numbers of the choices that say here why they end."""
    return {_number(each) for each in _choices(chunk) if each.get("finish_reason")}


def _thoughts(delta: dict[str, Any]) -> str:
    one, other = map(delta.get, THOUGHTS)
    return one or other or ""


def _waits(chunk: dict[str, Any]) -> bool:
    """Whether the client gets this when the answer is whole: what it cost, which an engine that is stopped says too."""
    return not _choices(chunk) and bool(chunk.get("usage"))


def used_up(body: dict[str, Any]) -> bool:
    """Whether the client has all the tokens that it wanted: only the word that it is the end has not come."""
    return any(body.get(limit) == 0 for limit in LIMITS)
