"""How much one request may ask for. Beyond these numbers an engine's own server computes for seconds over one body, and
answers nobody else meanwhile: the canary would take it for hung. What is below them costs it tenths of a second.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import urlsplit

import door_repeats

#: Messages of a conversation. vLLM's server looks at each by itself: 500,000 took it nine seconds.
MESSAGES = 10_000
#: Parts (texts, pictures) of all its messages together: each is looked at as well.
PARTS = 20_000
#: Answers of one request (`n` for each prompt), texts of one for vectors (as OpenAI has it), documents of a ranking.
AT_ONCE = 2_048
#: Words at which an answer stops: each is looked for in each token. Words that it may not have: each is made tokens of.
STOPS = 64
#: Tokens with a bias, or that alone may come: a tensor is made of them for each request.
BIASES = 4_096
#: A schema's nesting and values. xgrammar took 16 s for one that was 400 deep, a minute for a choice of 200,000.
SCHEMA_DEPTH, SCHEMA_VALUES = 64, 5_000
#: Characters of a grammar or a pattern that answers must fit; of all with counted repeats (`{0,30}`) together: the door
#: reads each, 0.04 s for so many.
GRAMMAR = 16_384
#: Counts of which one stands in another, multiplied: a host's name has 504, an IPv6 address 28. And what patterns of a
#: request are when their counts are written out. xgrammar 0.2.3 took 0.7 s of CPU for `(.{0,30}x){30}` and a vocabulary
#: of 60,000, 1.5 s for twice both, 3 s for 100 times 100. A count alone cost it no more at 5,000 than at 1,000.
NESTED, WRITTEN_OUT = 800, 20_000
#: Under which names a pattern or a grammar stands, in schemas, tools and the fields of protocols and engines.
_PATTERNS = frozenset(
    (
        *("pattern", "regex", "guided_regex", "grammar", "guided_grammar", "ebnf", "definition"),
        *("whitespace_pattern", "guided_whitespace_pattern"),
    )
)
#: In a schema or a tool: words for the model, of which no grammar is made. Agents explain their tools on many pages.
_EXPLAINED = ("description", "title", "$comment")
#: Values of the fields that are read: messages, inputs, documents, and what stands in them.
VALUES = 200_000
#: What makes answers fit a schema, a grammar or a pattern, by protocol, engine and age.
_FORMS = frozenset(
    (
        *("response_format", "structured_outputs", "json_schema", "regex", "ebnf", "output_config", "output_format"),
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_whitespace_pattern"),
        # llama.cpp's.
        "grammar",
    )
)
#: What an engine reads, where pictures and sound may stand at any depth.
_READ = frozenset(("messages", "input", "documents", "query", "text_1", "text_2", "system", "items", "queries"))
#: Hosts from which an engine may fetch pictures and sound.
MEDIA_DOMAINS = frozenset(filter(None, os.environ.get("TANDEM_MEDIA_DOMAINS", "").split(",")))


def wrong(asked: dict[str, Any]) -> str:
    """What a body has too much of, or where a picture may not lie, in words for its client; empty: nothing."""
    return (
        _messages(asked.get("messages"))
        or next(filter(None, (_count(name, said, _MOST[name]) for name, said in asked.items() if name in _MOST)), "")
        or _read(asked)
        or _programs(asked)
        or _forms(asked)
    )


#: How long these may be.
_MOST = {
    **dict.fromkeys(("prompt", "input", "documents", "text_1", "text_2", "items", "queries"), AT_ONCE),
    **dict.fromkeys(("stop", "stop_sequences", "stop_token_ids", "bad_words"), STOPS),
    **dict.fromkeys(("logit_bias", "allowed_token_ids"), BIASES),
}


def _messages(messages: Any) -> str:
    if messages is None:
        return ""
    if not isinstance(messages, list):
        return "`messages`: a list is wanted"
    if len(messages) > MESSAGES:
        return f"`messages`: {len(messages)} are too many, {MESSAGES} are the most"
    if not all(isinstance(each, dict) for each in messages):
        return "`messages`: each is an object with a role and content"
    parts = sum(len(each["content"]) for each in messages if isinstance(each.get("content"), list))
    return f"`messages`: they have more than {PARTS} parts" if parts > PARTS else ""


def _count(name: str, said: Any, most: int) -> str:
    """A list of numbers is one prompt, of tokens."""
    is_one = name in ("prompt", "input") and isinstance(said, list) and bool(said) and isinstance(said[0], int)
    if not isinstance(said, list | dict) or is_one or len(said) <= most:
        return ""
    return f"`{name}`: {len(said)} are too many, {most} are the most"


def _read(asked: dict[str, Any]) -> str:
    """Each object of what an engine reads, at any depth: none of them names a place that the owner has not named."""
    left = [said for name, said in asked.items() if name in _READ and isinstance(said, list | dict)]
    values = 0
    while left:
        value = left.pop()
        values += len(value)
        if values > VALUES:
            return f"what is to be read has more than {VALUES} values"
        if isinstance(value, dict):
            if why := _media(value):
                return why
            value = list(value.values())
        elif value and isinstance(value[0], int):
            # Tokens, of which there may be many.
            values -= len(value)
        left += [each for each in value if isinstance(each, list | dict)]
    return ""


def _media(part: dict[str, Any]) -> str:
    """What is wrong with where a part of a message lies. An engine has its node's network: what a client may have it
    fetch is from hosts that the owner has named.
    """
    for name, said in part.items():
        # Anthropic's pictures have a source, which says its type.
        is_place = name.endswith("_url") or name == "url" or (name == "source" and isinstance(said, dict))
        url = said.get("url") if isinstance(said, dict) else said
        if not is_place or not isinstance(url, str) or url[:5].lower() == "data:":
            continue
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            host = ""
        if host not in MEDIA_DOMAINS:
            return f"`{name}`: send it as a data: URL; from this host it is not fetched (the owner's `media_domains`)"
    return ""


#: How large pictures are made and how much of a film is read: of any size, on a client's word. vLLM has refused them
#: itself since 0.31.0 (`validate_request_mm_kwargs`).
_READERS = ("mm_processor_kwargs", "media_io_kwargs")


def _programs(asked: dict[str, Any]) -> str:
    """What an engine would run for a client, or ask: a template is a program, and a tool may lie at a server."""
    for name, said in (("", asked), ("chat_template_kwargs.", asked.get("chat_template_kwargs"))):
        if isinstance(said, dict) and said.get("chat_template"):
            return f"`{name}chat_template`: a request brings no template; the model has its own"
    for name in _READERS:
        if asked.get(name):
            return f"`{name}`: how pictures, films and sounds are read is the owner's to say; leave it out"
    tools = asked.get("tools")
    found = [each for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
    return next(filter(None, (_media({"server_url": each.get("server_url")}) for each in found)), "")


def _forms(asked: dict[str, Any]) -> str:
    tools = asked.get("tools")
    found: list[tuple[str, Any]] = [(name, said) for name, said in asked.items() if name in _FORMS]
    # A tool's parameters are a schema; so is the form of a response's text.
    found += [("", each) for each in tools] if isinstance(tools, list) else []
    found += [("", asked["text"])] if isinstance(asked.get("text"), dict) else []
    values, counted = 0, list[str]()
    left = [(name, each, 1) for name, each in found]
    while left:
        name, value, depth = left.pop()
        values += 1
        if depth > SCHEMA_DEPTH:
            return f"a schema is more than {SCHEMA_DEPTH} deep"
        if values > SCHEMA_VALUES:
            return f"schemas of a request have more than {SCHEMA_VALUES} values"
        if isinstance(value, str) and len(value) > GRAMMAR:
            return f"a text of more than {GRAMMAR} characters stands in a schema, a grammar or a tool"
        if name in _PATTERNS and isinstance(value, str) and door_repeats.counts(value):
            counted.append(value)
        if isinstance(value, str) and value.lstrip()[:1] == "{":
            value = _written(value)
        if isinstance(value, dict):
            if name == "patternProperties":
                counted += [each for each in value if door_repeats.counts(each)]
            within = value.items()
            left += [
                (key, each, depth + 1) for key, each in within if key not in _EXPLAINED or not isinstance(each, str)
            ]
        elif isinstance(value, list):
            left += [(name, each, depth + 1) for each in value]
    return _repeats(counted)


def _written(text: str) -> Any:
    """A schema that is written as a text; None where it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None
    except RecursionError:
        return _TOO_DEEP


#: What is refused for its depth.
_TOO_DEEP: list[Any] = []
for _ in range(SCHEMA_DEPTH):
    _TOO_DEEP = [_TOO_DEEP]


def _repeats(texts: list[str]) -> str:
    if sum(map(len, texts)) > GRAMMAR:
        return (
            f"patterns with counted repeats have more than {GRAMMAR} characters together: write fewer or shorter ones"
        )
    found = [door_repeats.written_out(each) for each in texts]
    if (nested := max((most for _, most in found), default=0)) > NESTED:
        times = f"counted repeats within others multiply to {nested}, {NESTED} are the most"
        return f"a pattern, as in `(.{{0,9}}x){{9}}`: {times}: use `*` or `+` for one of both, or count in one place"
    if (much := sum(each for each, _ in found)) > WRITTEN_OUT:
        return f"patterns are {much} characters with their counts written out, {WRITTEN_OUT} are the most: count lower"
    return ""
