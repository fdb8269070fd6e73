"""The parts of a request that an engine reads: its tokens, pictures, films and sounds."""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

#: Values of the fields that are read: messages, inputs, documents, and what stands in them.
VALUES = 200_000
#: What an engine reads, where pictures and sound may stand at any depth.
_READ = frozenset(
    (
        *("messages", "prompt", "input", "documents", "query", "system", "items", "queries"),
        *("text_1", "text_2", "data_1", "data_2", "previous_input_messages"),
    )
)
#: Fields of a part that say where something lies, or have it; and how the names of others end.
_PLACES, _PLACE = frozenset(("url", "source", "image", "video", "audio", "input_audio", "file")), "_url"
#: Those of them that are such a place as a text, whatever the part's type: embeddings have none.
_TEXTS = ("image", "video", "audio")
#: A request's own text that is such a place: a voice that is to be spoken with.
_VOICE = "ref_audio"
#: llama.cpp's list of pictures for a prompt.
_MANY = "multimodal_data"
#: Fields and types of a part that has its data itself: a file, or a picture as tools give it.
_OWN, _HAVE = ("file_data", "data"), ("input_file", "file", "image", "audio", "input_audio", "video")
#: How llama.cpp's sounds begin, in base64: MP3, FLAC; and WAV, which has RIFF as WebP has.
_SOUNDS, _RIFF, _WAVE = ("SUQz", "//", "ZkxhQ"), "UklGR", b"WAVE"
#: Fields within messages that are tools or a tool's schema.
_TOOLS = ("tools", "definition", "input_schema", "parameters")
#: Fields of a part by which a client says into how many pieces a picture is cut (SGLang).
_CUTS = ("max_dynamic_patch", "min_dynamic_patch")
#: Characters of a name in words for a client, and of a part's type.
_NAME = 64
#: Types of parts whose `url` is such a place. Elsewhere it is a text: of a citation, or a page that a tool has opened.
_LIES = ("image", "video", "audio", "input_image", "input_video", "input_audio")
#: The type of a film that is a list of pictures.
_FRAMES = "video/jpeg"
#: What a model has told a tool: Anthropic's calls, and OpenAI's.
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_NUMBERS = {int, float, bool}
#: Floats from here on may have been whole numbers.
_EXACT = 2.0**63


@dataclass(frozen=True)
class Medium:
    """A picture, a film or a sound. `name`: of the field that has it; `url`: where it lies, or `data`: base64, of a
    film's pictures one behind the other with commas; `kind`: what the data are said to be.
    """

    name: str
    url: str
    data: str
    kind: str
    is_picture: bool


@dataclass
class Found:
    """The parts of a request that an engine reads. `numbers`: tokens that are written as such; `is_too_much`: more than
    VALUES; `is_rounded`: a whole number has more than 64 bits, of which orjson makes a float; `tools`: those that stand
    within messages; `cuts`: a field that says how pictures are cut.
    """

    media: list[Medium] = field(default_factory=list)
    tools: list[Any] = field(default_factory=list)
    cuts: str = ""
    numbers: int = 0
    is_too_much: bool = False
    is_rounded: bool = False


def find(asked: dict[str, Any]) -> Found:
    """All that stands in the fields that an engine reads."""
    found, values = Found(), 0
    # With each whether it may be a part that has media: what a tool was told is none.
    # A document may have any fields; what an engine reads of it as parts is its content.
    left = [
        (said, name != "documents") for name, said in asked.items() if name in _READ and isinstance(said, list | dict)
    ]
    if "documents" in asked:
        left += [(each, True) for each in _contents(asked["documents"])]
    parts, names = list[dict[str, Any]](), set[str]()
    while left:
        value, may = left.pop()
        within: Any = value
        if isinstance(value, dict):
            if may:
                parts.append(value)
                names.update(value)
            within = value.values()
        # Types first: a list may be long, and most have nothing within.
        kinds = set(map(type, within))
        if isinstance(value, list) and kinds and kinds <= _NUMBERS:
            found.numbers += len(value)
            continue
        if float in kinds:
            found.is_rounded |= any(type(each) is float and abs(each) >= _EXACT for each in within)
        values += len(value)
        if values > VALUES:
            return Found(is_too_much=True)
        if kinds.isdisjoint((list, dict)):
            continue
        if isinstance(value, dict) and (told := _told(value)):
            left += [(each, may and name != told) for name, each in value.items() if isinstance(each, list | dict)]
        else:
            left += [(each, may) for each in within if isinstance(each, list | dict)]
    if isinstance(voice := asked.get(_VOICE), str):
        found.media.append(_medium(_VOICE, voice, "", False, is_url=True))
    if any(name in _PLACES or name in (_MANY, *_OWN) or name.endswith(_PLACE) for name in names):
        read = set[int]()
        found.media += [each for part in parts if id(part) not in read for each in _media(part, read)]
    if not names.isdisjoint(_TOOLS):
        found.tools = list(_tools(parts))
    if not names.isdisjoint(_CUTS):
        said = (name for part in parts for name in _CUTS if isinstance(part.get(name), int | float | str))
        found.cuts = next(said, "")
    return found


def _tools(parts: list[dict[str, Any]]) -> Iterator[Any]:
    """Tools that stand in parts, each once: those that it has within are a part of it."""
    inside = set[int]()
    for part in parts:
        for name in () if id(part) in inside else _TOOLS:
            if name in part:
                yield part[name]
                left = [part[name]]
                while left:
                    value = left.pop()
                    if isinstance(value, dict):
                        inside.add(id(value))
                    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
                    left += [each for each in within if isinstance(each, list | dict)]


def _contents(documents: Any) -> list[Any]:
    """Contents of documents, which are one object or several."""
    several = documents if isinstance(documents, list) else [documents]
    found = (each["content"] for each in several if isinstance(each, dict) and "content" in each)
    return [each for each in found if isinstance(each, list | dict)]


def _told(part: dict[str, Any]) -> str:
    """The field in which a part says what a tool was told; empty: it is no call."""
    for name in ("arguments", "tool_calls"):
        if name in part:
            return name
    return "input" if part.get("type") in _CALLS else ""


def _media(part: dict[str, Any], read: set[int]) -> Iterator[Medium]:
    """Those of a part. What is read with it is no part of its own: it is noted in `read`."""
    kind = said if isinstance(said := part.get("type"), str) and len(said) <= _NAME else ""
    for name, said in part.items():
        if name == _MANY and isinstance(said, list):
            texts = (each for each in said if isinstance(each, str))
            yield from (_medium(name, each, "", not _is_sound(each), is_url=False) for each in texts)
        if name in _OWN and kind in _HAVE and isinstance(said, str):
            yield _medium(name, said, "", "image" in kind, is_url=False)
        if name not in _PLACES and not name.endswith(_PLACE):
            continue
        is_picture = "image" in name or (name in ("source", "url") and "image" in kind)
        if isinstance(said, dict):
            read.add(id(said))
            # A document's own text; a picture's data are read as such, whatever else they are called.
            is_text = name == "source" and said.get("type") == "text" and not is_picture
            declared = said.get("media_type") or said.get("format") or ""
            for place in ("url", "data", "file_data"):
                if isinstance(text := said.get(place), str) and not (is_text and place == "data"):
                    of_kind = declared if isinstance(declared, str) else "?"
                    yield _medium(name, text, of_kind, is_picture, is_url=place == "url")
        elif isinstance(said, str) and (name in _TEXTS or name.endswith(_PLACE) or (name == "url" and kind in _LIES)):
            yield _medium(name, said, "", is_picture, is_url=True)


def _is_sound(data: str) -> bool:
    if not data.startswith(_RIFF):
        return data.startswith(_SOUNDS)
    try:
        return binascii.a2b_base64(data[:16])[8:] == _WAVE
    except (binascii.Error, ValueError):
        return False


def _medium(name: str, text: str, kind: str, is_picture: bool, *, is_url: bool) -> Medium:
    name = name[:_NAME]
    if text[:5].lower() == "data:":
        kind, _, data = text[5:].partition(",")
        return Medium(name, "", data, kind, is_picture or kind.partition(";")[0].lower() == _FRAMES)
    return Medium(name, text, "", kind, is_picture) if is_url else Medium(name, "", text, kind, is_picture)
