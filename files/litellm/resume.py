"""A stream whose engine dies goes on from another engine, and the client does not notice.

The same request goes to another engine with what the client has already as the beginning of the answer, and with the
words by which an engine of its kind continues that (operations/plan/engines; they stand in the router's entry). What
can't be continued that way ends where it broke: several choices at once, an answer that must fit a grammar, and half a
tool call; a tool call is therefore held back until it is whole.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

#: What a request may call the number of tokens that it wants at most.
LIMITS = ("max_tokens", "max_completion_tokens")
#: Names under which an engine sends thoughts, by its age.
THOUGHTS = ("reasoning", "reasoning_content")


class Answer:
    """What the client has of an answer. Chunks are OpenAI's, as objects of JSON."""

    def __init__(self) -> None:
        self.id = ""
        self.text = ""
        #: Chunks with text. A chunk has a token or more: with this number a client is never taken for one who has all.
        self.pieces = 0
        #: Chunks of thoughts: as many tokens, or a few more where the engine put some together.
        self.thoughts = 0
        self.finished = False
        #: Whether a chunk has said why it ends: of a choice, or of all by an error that is the client's. An engine that
        #: is stopped may end its stream before that.
        self.has_end = False
        #: Chunks with a tool call that is not whole yet.
        self.held: list[dict[str, Any]] = []
        #: The last chunk with a choice.
        self.last: dict[str, Any] | None = None
        #: Tokens that came from engines that are gone.
        self.tokens_before = 0

    def pass_on(self, chunk: dict[str, Any], continued: bool) -> list[dict[str, Any]]:
        """The chunks that the client gets now; the chunk itself, unchanged, unless a part is held or `continued`."""
        if continued:
            self._fit(chunk)
        self.id = self.id or chunk.get("id") or ""
        choices = chunk.get("choices") or [{}]
        self.has_end |= bool(chunk.get("error")) or any(each.get("finish_reason") for each in choices)
        choice = choices[0]
        delta = choice.get("delta")
        if delta is None:
            # What it cost, or a piece of /v1/completions, which nobody continues.
            return [chunk]
        self.thoughts += any(delta.get(name) for name in THOUGHTS)
        self.text += delta.get("content") or ""
        self.pieces += bool(delta.get("content"))
        self.last = chunk
        self.finished = self.finished or bool(choice.get("finish_reason"))
        if delta.get("tool_calls") and not self.finished:
            self.held.append(chunk)
            return []
        released, self.held = [*self.held, chunk], []
        return released

    def _fit(self, chunk: dict[str, Any]) -> None:
        """A chunk of another engine's, as a part of this answer."""
        chunk["id"] = self.id or chunk.get("id")
        if usage := chunk.get("usage"):
            # Of a continued answer the engine counts the beginning as a part of the question.
            usage["completion_tokens"] += self.tokens_before
            usage["prompt_tokens"] -= self.tokens_before
        for choice in chunk.get("choices") or []:
            delta = choice.get("delta")
            if delta is None or not self.text:
                continue
            # A parser of reasoning may take the middle of an answer for thoughts.
            thoughts = [delta.pop(name, None) or "" for name in THOUGHTS]
            delta["content"] = max(thoughts, key=len) + (delta.get("content") or "")
            delta.pop("role", None)

    def ended(self) -> dict[str, Any]:
        """A last chunk for an answer that has all its tokens."""
        assert self.last
        chunk = copy.deepcopy(self.last)
        chunk["choices"][0] |= {"delta": {"content": ""}, "finish_reason": "length"}
        return chunk

    def broke_off(self, tokens: int | None) -> None:
        """The engine is gone; what was held back is not the client's. `tokens` of the text; None: nobody counted."""
        self.held = []
        self.tokens_before = (self.pieces if tokens is None else tokens) + self.thoughts

    def rest(self, asked: dict[str, Any], words: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The request for what the client has not; None where an answer can't be continued. `words`: by which the
        engine continues the last message; None: it can't.
        """
        body = dict(asked)
        if self.finished or "messages" not in body or (body.get("n") or 1) > 1:
            return None
        if not self.text:
            # Thoughts alone: they begin anew, and the answer behind them is whole.
            return body
        if (
            words is None
            or (body.get("response_format") or {}).get("type", "text") != "text"
            or "structured_outputs" in body
        ):
            return None
        messages = [dict(message) for message in body["messages"]]
        if body.get("continue_final_message"):
            messages[-1]["content"] += self.text
        else:
            messages.append({"role": "assistant", "content": self.text})
        body |= {"messages": messages, **words}
        for limit in LIMITS:
            if body.get(limit):
                body[limit] = int(body[limit]) - self.tokens_before
        return body


def used_up(body: dict[str, Any]) -> bool:
    """Whether the client has all the tokens that it wanted: only the word that it is the end has not come."""
    return any(isinstance(body.get(limit), int) and body[limit] <= 0 for limit in LIMITS)
