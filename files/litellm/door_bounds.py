"""How much one request may ask for. Beyond these numbers an engine's own server computes for seconds over one body, and
answers nobody else meanwhile: the canary would take it for hung. What is below them costs it tenths of a second.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import door_repeats
import media
import pictures
from resume import LIMITS

#: Messages of a conversation. vLLM's server looks at each by itself: 500,000 took it nine seconds.
MESSAGES = 10_000
#: Parts (texts, pictures) of all its messages together: each is looked at as well.
PARTS = 20_000
#: Answers of one request (`n` for each prompt), texts of one for vectors (as OpenAI has it), documents of a ranking.
AT_ONCE = 2_048
#: Words at which an answer stops: each is looked for in each token. Words that it may not have: each is made tokens of.
STOPS = 64
#: Bytes of a body that are no picture, film or sound: two million tokens. A server makes tokens of it in one step, and
#: may make an answer of them (`/tokenize`).
TEXT = 8 << 20
#: Tokens with a bias, or that alone may come: a tensor is made of them for each request.
BIASES = 4_096
#: A schema's nesting and values. xgrammar took 16 s for one that was 400 deep, a minute for a choice of 200,000.
SCHEMA_DEPTH, SCHEMA_VALUES = 64, 5_000
#: Values of tools among which a model chooses itself: vLLM and SGLang make no grammar of them. Agents have hundreds.
TOOL_VALUES = 20_000
#: Characters of a grammar or a pattern that answers must fit; of all with counted repeats (`{0,30}`) together: the door
#: reads each, 0.04 s for so many.
GRAMMAR = 16_384
#: Characters of all names in schemas and tools, of all their texts but explanations, of all their patterns, and of all
#: schemas that are written as texts. Each is looked through: a tenth of a second for a million.
NAMES = 262_144
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
#: What makes answers fit a schema, a grammar or a pattern, by protocol, engine and age.
_FORMS = frozenset(
    (
        *("response_format", "structured_outputs", "json_schema", "regex", "ebnf", "output_config", "output_format"),
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_whitespace_pattern"),
        # llama.cpp's.
        "grammar",
    )
)
#: Pictures of a request, and their pixels: an engine unpacks all at once, three or four bytes for each.
PICTURES, PIXELS = 100, 100_000_000
#: Numbers that the door counts by, or an engine; and words of the vocabulary that it tells for each token.
_NUMBERS = ("n", "best_of", "n_cmpl", "min_tokens", "max_output_tokens", *LIMITS)
_TOLD, TOLD = ("logprobs", "top_logprobs", "n_probs"), 100
#: What data are said to be. Engines write it before them: anything else in it would be read as data.
_KIND = re.compile(r"(?:[\w.+-]+(?:/[\w.+-]+)?)?(?:; ?[\w-]+=[\w.+-]+)*(?:;base64)?", re.A | re.I)
#: Characters of it, and of a URL: urlsplit keeps those that it has seen last.
_KIND_MOST, _URL_MOST = 256, 4_096
#: Hosts from which an engine may fetch pictures and sound.
MEDIA_DOMAINS = frozenset(filter(None, os.environ.get("TANDEM_MEDIA_DOMAINS", "").split(",")))


def wrong(path: str, asked: dict[str, Any], found: media.Found) -> str:
    """What a body has too much of, or where a picture may not lie, in words for its client; empty: nothing. `path`:
    below /v1; `found`: what is to be read of it.
    """
    # A response's input is a conversation.
    most = _MOST | {"input": MESSAGES} if path == "responses" else _MOST
    return (
        _messages(asked.get("messages"))
        or next(filter(None, (_count(name, said, most[name]) for name, said in asked.items() if name in most)), "")
        or _stops(asked)
        or (f"what is to be read has more than {media.VALUES} values" if found.is_too_much else "")
        or _media(found.media)
        or _programs(asked, found.cuts)
        or _forms(asked, found.tools)
    )


def numbers(asked: dict[str, Any]) -> str:
    """Numbers become whole ones, as engines read "2" and 2.0 too: what the door counts is what an engine is told. What
    is wrong with one; empty: nothing.
    """
    for name in (*_NUMBERS, *_TOLD):
        said = asked.get(name)
        if said is None or (name == "logprobs" and isinstance(said, bool)):
            continue
        if isinstance(said, str) and said.isascii() and said.isdecimal() and len(said) < 10:
            said = int(said)
        if isinstance(said, float) and said.is_integer() and abs(said) < 10**9:
            said = int(said)
        if not isinstance(said, int) or isinstance(said, bool):
            return f"`{name}`: a whole number is wanted"
        if name in _TOLD and not 0 <= said <= TOLD:
            return f"`{name}`: 0 to {TOLD} is wanted"
        asked[name] = said
    return ""


#: How long these may be.
_MOST = {
    **dict.fromkeys(("prompt", "input", "documents", "text_1", "text_2", "items", "queries"), AT_ONCE),
    **dict.fromkeys(("stop", "stop_sequences", "stop_token_ids", "bad_words"), STOPS),
    **dict.fromkeys(("dry_sequence_breakers", "preserved_tokens"), STOPS),
    **dict.fromkeys(("logprob_token_ids", "label_token_ids"), TOLD),
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


_STOPS = frozenset(("stop", "stop_sequences", "bad_words"))


def _stops(asked: dict[str, Any]) -> str:
    """Texts at which an answer stops, or that it may not have: of each tokens are made, in one step."""
    if _STOPS.isdisjoint(asked):
        return ""
    said = [each for name in _STOPS for each in _several(asked.get(name))]
    is_long = sum(len(each) for each in said if isinstance(each, str)) > GRAMMAR
    return f"`stop` and `bad_words` have more than {GRAMMAR} characters together" if is_long else ""


def _several(said: Any) -> list[Any]:
    return said if isinstance(said, list) else [said]


def _media(found: Iterable[media.Medium]) -> str:
    """What is wrong with where pictures, films and sounds lie, or how large they are. An engine has its node's network:
    what a client may have it fetch is from hosts that the owner has named.
    """
    count = total = 0
    for each in found:
        if each.url and _host(each.url) not in MEDIA_DOMAINS:
            why = "send it as a data: URL; from this host it is not fetched (the owner's `media_domains`)"
            return f"`{each.name}`: {why}"
        if len(each.kind) > _KIND_MOST or not _KIND.fullmatch(each.kind):
            return f"`{each.name}`: of what kind it is, is said as in image/png"
        pieces = each.data.split(",") if each.is_picture and each.data else []
        count += len(pieces)
        if count > PICTURES:
            return f"`{each.name}`: more than {PICTURES} pictures"
        for piece in pieces:
            if (size := pictures.pixels(piece)) is None:
                return f"`{each.name}`: a picture is a PNG, JPEG, GIF or WebP in base64"
            total += size
        if total > PIXELS:
            return f"`{each.name}`: all pictures of a request together have more than {PIXELS // 10**6} million pixels"
    return ""


def _host(url: str) -> str:
    """Whose it is; empty where two readers would not agree on that, or it is nobody's."""
    if len(url) > _URL_MOST or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return ""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in ("http", "https") and "@" not in parts.netloc else ""
    except ValueError:
        return ""


#: How large pictures are made and how much of a film is read: of any size, on a client's word. vLLM has refused them
#: itself since 0.31.0 (`validate_request_mm_kwargs`).
_READERS = ("mm_processor_kwargs", "media_io_kwargs", "max_dynamic_patch", "min_dynamic_patch")
#: Patterns that an engine looks for itself while it answers, with a reader that may take for ever (SGLang, llama.cpp).
_LOOKED_FOR = ("stop_regex", "grammar_triggers", "grammar_lazy")
#: By which engines fetch a prompt's cache from others, at hosts that a request names.
_FETCHED = ("kv_transfer_params", "ec_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room")


_LOOKED_AT = frozenset(
    (*_READERS, *_LOOKED_FOR, *_FETCHED, "padding", "chat_template", "chat_template_kwargs", "tools")
)


def _programs(asked: dict[str, Any], cuts: str) -> str:
    """What an engine would run for a client, or ask: a template is a program, and a tool may lie at a server."""
    if not cuts and _LOOKED_AT.isdisjoint(asked):
        return ""
    for name, said in (("", asked), ("chat_template_kwargs.", asked.get("chat_template_kwargs"))):
        if isinstance(said, dict) and said.get("chat_template"):
            return f"`{name}chat_template`: a request brings no template; the model has its own"
    if name := cuts or next((name for name in _READERS if asked.get(name)), ""):
        return f"`{name}`: how pictures, films and sounds are read is the owner's to say; leave it out"
    for name in _LOOKED_FOR:
        if asked.get(name):
            return f"`{name}`: an engine may look for a pattern for ever; name words in `stop`"
    if asked.get("padding") == "max_length":
        return "`padding`: an engine would read each text as one of its longest; leave it out"
    for name in _FETCHED:
        if asked.get(name) is not None:
            return f"`{name}`: from where an engine fetches a cache is the owner's to say; leave it out"
    tools = asked.get("tools")
    found = [each for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
    if any(_host(url) not in MEDIA_DOMAINS for each in found if isinstance(url := each.get("server_url"), str)):
        return "`server_url`: from this host nothing is fetched (the owner's `media_domains`)"
    return ""


def _forms(asked: dict[str, Any], more: list[Any]) -> str:
    """What is wrong with schemas, grammars and tools. `more`: tools that stand within messages."""
    found: list[tuple[str, Any]] = [(name, said) for name, said in asked.items() if name in _FORMS]
    # The form of a response's text is a schema, and so are a tool's parameters.
    found += [("", asked["text"])] if isinstance(asked.get("text"), dict) else []
    if not found and not more and not asked.get("tools"):
        return ""
    left = [(name, each, 1, False) for name, each in found]
    left += [("", each, 1, True) for each in (*_several(asked.get("tools") or []), *more)]
    values = {False: 0, True: 0}
    most = {False: SCHEMA_VALUES, True: TOOL_VALUES if _is_free(asked.get("tool_choice")) else SCHEMA_VALUES}
    names = texts = written = 0
    patterns = list[str]()
    while left:
        name, value, depth, is_tool = left.pop()
        values[is_tool] += 1
        if depth > SCHEMA_DEPTH:
            return f"a schema is more than {SCHEMA_DEPTH} deep"
        if values[is_tool] > most[is_tool]:
            return f"{'tools' if is_tool else 'schemas'} of a request have more than {most[is_tool]} values"
        if name in _PATTERNS and isinstance(value, str):
            patterns.append(value)
        if isinstance(value, str) and value.lstrip()[:1] == "{":
            written += len(value)
            if written > NAMES:
                return f"schemas that are written as texts have more than {NAMES} characters together"
            value = _written(value)
        elif isinstance(value, str):
            texts += len(value)
            if len(value) > GRAMMAR:
                return f"a text of more than {GRAMMAR} characters stands in a schema, a grammar or a tool"
            if texts > NAMES:
                return f"texts in schemas and tools have more than {NAMES} characters together"
        if isinstance(value, dict):
            names += sum(map(len, value))
            if names > NAMES:
                return f"names in schemas and tools have more than {NAMES} characters together"
            if name == "patternProperties":
                patterns += value
            # A strict tool's calls are held to its schema.
            is_tool = is_tool and value.get("strict") is not True
            left += [
                (key, each, depth + 1, is_tool)
                for key, each in value.items()
                if key not in _EXPLAINED or not isinstance(each, str)
            ]
        elif isinstance(value, list):
            left += [(name, each, depth + 1, is_tool) for each in value]
    if sum(map(len, patterns)) > NAMES:
        return f"patterns of a request have more than {NAMES} characters together"
    return _repeats([each for each in patterns if door_repeats.counts(each)])


def _is_free(choice: Any) -> bool:
    """Whether a model may answer without a tool. A call that it has to write is held to a grammar."""
    return choice.get("type") in ("auto", "none") if isinstance(choice, dict) else choice in (None, "auto", "none")


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
