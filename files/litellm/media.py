"""What an engine reads of a request: its texts, its tokens, and where its pictures, films and sounds lie."""

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
#: Types of parts whose `url` is such a place. Elsewhere it is a text: of a citation, or a page that a tool has opened.
_LIES = ("url", "image", "video", "audio", "input_image", "input_video", "input_audio")
#: The type of a film that is a list of pictures.
_FRAMES = "video/jpeg"
#: A model's call of a tool: its `input` is what the tool was told.
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_NUMBERS = {int, float, bool}
#: Floats from here on may have been whole numbers.
_EXACT = 2.0**63


@dataclass(frozen=True)
class Medium:
    """A picture, a film or a sound. `name`: of the field that has it; `url`: where it lies, or `data`: base64, of a
    film's pictures one behind the other with commas.
    """

    name: str
    url: str
    data: str
    is_picture: bool


@dataclass
class Found:
    """What a request has to be read. `numbers`: tokens that are written as such; `is_too_much`: more than VALUES;
    `is_rounded`: a whole number has more than 64 bits, of which orjson makes a float.
    """

    media: list[Medium] = field(default_factory=list)
    numbers: int = 0
    is_too_much: bool = False
    is_rounded: bool = False


def find(asked: dict[str, Any]) -> Found:
    """All that stands in the fields that an engine reads."""
    found, values = Found(), 0
    left = [said for name, said in asked.items() if name in _READ and isinstance(said, list | dict)]
    parts, names = list[dict[str, Any]](), set[str]()
    while left:
        value = left.pop()
        within: Any = value
        if isinstance(value, dict):
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
        if isinstance(value, dict) and value.get("type") in _CALLS:
            within = [said for name, said in value.items() if name != "input"]
        if not kinds.isdisjoint((list, dict)):
            left += [each for each in within if isinstance(each, list | dict)]
    places = [name for name in names if name in _PLACES or name.endswith("_url")]
    if places:
        found.media = [each for part in parts for each in _media(part, places)]
    return found


def _media(part: dict[str, Any], places: list[str]) -> Iterator[Medium]:
    kind = part.get("type")
    for name in places:
        said = part.get(name)
        if said is None or (name == "url" and kind not in _LIES):
            continue
        is_picture = "image" in name or (name in ("source", "url") and "image" in str(kind))
        within = [said.get(each) for each in ("url", "data", "file_data")] if isinstance(said, dict) else [said]
        for place, each in enumerate(within):
            if not isinstance(each, str):
                continue
            if each[:5].lower() == "data:":
                head, _, data = each.partition(",")
                yield Medium(name, "", data, is_picture or head[5:].partition(";")[0].lower() == _FRAMES)
            elif place:
                yield Medium(name, "", each, is_picture)
            else:
                yield Medium(name, each, "", is_picture)
