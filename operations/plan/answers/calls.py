"""Checks of tool calls: chosen, forced, named, streamed, and of what a tool has returned."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from operations.plan.answers import recited, texts
from operations.plan.answers.chats import grows, has
from operations.plan.answers.fits import misfit
from operations.plan.answers.reading import TAGS, Call, Said, Undecided, Wrong, need, quoted
from operations.plan.answers.shapes import Check, Seen
from operations.wire import Json

#: A call that stands in the answer itself.
_IN_TEXT = re.compile(r'"name"\s*:\s*"(?:get_weather|book_table)"|(?:get_weather|book_table)\s*[({]')
_NOT_ITS = "the tool parser is not the model's"


def well_made(said: Said, finish: str) -> None:
    """Each call has an id, and an object as arguments; the answer says that it ended so. What stands in a call that is
    not forced is the model's choice.
    """
    for call in said.calls:
        _arguments(call, said)
    need(all(said.ids), "a call has no id")
    need(len(set(said.ids)) == len(said.ids), "two calls have one id")
    if said.calls:
        if said.is_cut:
            raise Undecided("the answer had no room to end")
        # A call that was forced ends with `stop` in OpenAI's own service.
        need(said.finish in (finish, "stop"), f"it says `{said.finish}` as why it ended, expected {finish}")


def _fitting(said: Said) -> None:
    """Each call is of a tool that there is, and its arguments fit."""
    for call in said.calls:
        need(call.name in texts.TOOLS, f"it calls `{call.name}`, which is no tool of the request")
        why = misfit(texts.TOOLS[call.name], _arguments(call, said), f"{call.name}'s arguments")
        need(not why, why)


def _arguments(call: Call, said: Said) -> Json:
    found, what = cast("object", None), "JSON"
    with suppress(ValueError):
        found, what = json.loads(call.arguments), "JSON object"
    if isinstance(found, dict):
        return found
    if said.is_cut:
        # The beginning of a number is JSON as well.
        raise Undecided("the call had no room to end")
    raise Wrong(f"a call's arguments are no {what}: {quoted(call.arguments)}")


def apart(said: Said) -> None:
    """No call, and no part of one, stands in the answer's text. Raises Wrong."""
    found = TAGS.search(said.content) or (not said.calls and _IN_TEXT.search(said.content))
    need(not found, f"a call stands in the answer's text ({quoted(said.content)}): {_NOT_ITS}")


def _chosen(name: str) -> Callable[[Seen], None]:
    def judge(seen: Seen) -> None:
        said = seen.chat(name)
        apart(said)
        well_made(said, "tool_calls")

    return judge


def _forced(name: str, tool: str) -> Callable[[Seen], None]:
    def judge(seen: Seen) -> None:
        said = seen.chat(name)
        if not said.calls and said.is_cut:
            raise Undecided("the call had no room to end")
        apart(said)
        need(said.calls, f"a call was demanded, and none came: {quoted(said.content)}")
        well_made(said, "tool_calls")
        _fitting(said)
        need(all(each.name == tool for each in said.calls), f"`{tool}` was demanded, it calls `{said.calls[0].name}`")

    return judge


def _recited(name: str) -> Callable[[Seen], None]:
    def judge(seen: Seen) -> None:
        text, said = recited.call(seen), seen.chat(name)
        need(said.calls, f"a call as the template writes it ({quoted(text)}) is taken for text: {_NOT_ITS}")
        well_made(said, "tool_calls")
        made = [_arguments(each, said) for each in said.calls]
        need(made == [texts.CALLED], f"the call that it was told is read as another one ({made}): {_NOT_ITS}")

    return judge


def _none(seen: Seen) -> None:
    calls = seen.chat("tool-none").calls
    need(not calls, f"calls were forbidden (`tool_choice: none`), and it calls {calls and calls[0].name}")


def called(said: Said, cities: list[str]) -> None:
    """The weather is asked for in these cities, as its schema has it. Raises Wrong."""
    if not said.calls and said.is_cut:
        raise Undecided("the answer had no room to end")
    need(said.calls, f"it calls no tool: {quoted(said.content)}")
    _fitting(said)
    found = sorted(str(_arguments(each, said).get("city")) for each in said.calls)
    need(found == cities, f"it asks for the weather in {', '.join(found)}, expected {', '.join(cities)}")


def _calls(name: str, cities: list[str]) -> Callable[[Seen], None]:
    return lambda seen: called(seen.chat(name), cities)


_T, _N, _R = ("tools",), ("named",), ("tools", "recited")
CHECKS: tuple[Check, ...] = (
    Check("tools", "form", "The template shows the tools", grows("tool", "no-tools", "tools"), _T),
    Check("tool", "form", "A call is apart from the text, and its arguments are JSON", _chosen("tool"), _T),
    Check("tool-stream", "form", "So is one in a stream", _chosen("tool-stream"), _T),
    Check("tool-none", "form", "No call comes where calls are forbidden", _none, _T),
    Check("forced", "form", "A call that is demanded comes", _forced("forced", "get_weather"), ("forced",)),
    Check("forced-stream", "form", "So it does in a stream", _forced("forced-stream", "get_weather"), ("forced",)),
    Check("named", "form", "A tool that is named is called, with nested arguments", _forced("named", "book_table"), _N),
    Check(
        "returned",
        "form",
        "The template shows what a tool has returned",
        grows("returned", "returned-less", "a tool's result"),
        _T,
    ),
    Check("recited", "form", "A call as the template writes it is taken for one", _recited("recited-call"), _R),
    Check("recited-stream", "form", "So it is in a stream", _recited("recited-call-stream"), _R),
    Check("calls", "sense", "It calls the tool that was meant", _calls("tool", ["Paris"]), _T),
    Check("calls-stream", "sense", "So it does in a stream", _calls("tool-stream", ["Paris"]), _T),
    Check("calls-two", "sense", "It calls a tool twice at once", _calls("tool-two", ["Paris", "Rome"]), _T),
    Check("uses", "sense", "It uses what a tool has returned", has("returned", "23", "the temperature"), _T),
)
