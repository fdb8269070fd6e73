"""The parts of a request that an engine reads: its tokens, pictures, films and sounds."""

from __future__ import annotations

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
#: Fields of a part that say where something lies, or have it.
_PLACES = ("url", "source", "image", "video", "audio", "input_audio", "file")
#: Of these, those that are such a place as a text; in a part of another kind they are something else.
_TEXTS = ("image", "video", "audio")
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
    VALUES; `is_rounded`: a whole number has more than 64 bits, of which orjson makes a float.
    """

    media: list[Medium] = field(default_factory=list)
    numbers: int = 0
    is_too_much: bool = False
    is_rounded: bool = False


def find(asked: dict[str, Any]) -> Found:
    """All that stands in the fields that an engine reads."""
    found, values = Found(), 0
    # With each whether it may be a part that has media: what a tool was told is none.
    left = [(said, True) for name, said in asked.items() if name in _READ and isinstance(said, list | dict)]
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
    places = [name for name in names if name in _PLACES or name.endswith("_url")]
    if places:
        read = set[int]()
        found.media = [each for part in parts if id(part) not in read for each in _media(part, places, read)]
    return found


def _told(part: dict[str, Any]) -> str:
    """The field in which a part says what a tool was told; empty: it is no call."""
    if "arguments" in part:
        return "arguments"
    return "input" if part.get("type") in _CALLS else ""


def _media(part: dict[str, Any], places: list[str], read: set[int]) -> Iterator[Medium]:
    """Those of a part. What is read with it is no part of its own: it is noted in `read`."""
    kind = part.get("type")
    for name in places:
        said = part.get(name)
        is_picture = "image" in name or (name in ("source", "url") and "image" in str(kind))
        if isinstance(said, dict):
            read.add(id(said))
            # Of a document; a picture's data are read as such, whatever else they are called.
            if said.get("type") == "text" and not is_picture:
                continue
            declared = str(said.get("media_type") or said.get("format") or "")
            for place in ("url", "data", "file_data"):
                if isinstance(text := said.get(place), str):
                    yield _medium(name, text, declared, is_picture, is_url=place == "url")
        elif isinstance(said, str) and _is_place(name, kind):
            yield _medium(name, said, "", is_picture, is_url=True)


def _is_place(name: str, kind: Any) -> bool:
    """Whether a text under this name says where something lies, in a part of this kind."""
    if name == "url":
        return kind in _LIES
    if name in _TEXTS:
        return kind is None or name in str(kind)
    return name.endswith("_url")


def _medium(name: str, text: str, kind: str, is_picture: bool, *, is_url: bool) -> Medium:
    if text[:5].lower() == "data:":
        kind, _, data = text[5:].partition(",")
        return Medium(name, "", data, kind, is_picture or kind.partition(";")[0].lower() == _FRAMES)
    return Medium(name, text, "", kind, is_picture) if is_url else Medium(name, "", text, kind, is_picture)
