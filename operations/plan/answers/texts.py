"""What the questions say: prompts, schemas, tools, and the long text with one fact in its midst."""

from __future__ import annotations

import json
import re

from operations.plan.answers.reading import Undecided
from operations.wire import Json

COUNT = "Count from 1 to 60 in words, one number on each line: one, two, three and so on. Write nothing else."
#: What is asked in three languages, and what a right answer has.
CAPITALS = {
    "english": "What is the capital of France? Answer with its name alone.",
    "german": "Wie heißt die Hauptstadt von Österreich? Antworte nur mit dem Namen.",
    "chinese": "日本的首都是哪里? 只回答城市名.",
}
CAPITALS_ARE = {"english": "Paris", "german": "Wien", "chinese": "东京"}
RULE = "Whatever you are asked, answer with the one word PLUM and nothing else."
NAME = "Katharina"
CODE = "48-17-93"

#: No schema leaves a text or a number open: a model whose words are noise would not come to its end.
CITIES = ["Paris", "Rome", "Vienna"]
PERSON: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "enum": ["Anna", "Bruno", "Clara"]},
        "age": {"type": "integer", "enum": [27, 34, 51]},
        "city": {"type": "string", "enum": CITIES},
        "is_married": {"type": "boolean"},
    },
    "required": ["name", "age", "city", "is_married"],
    "additionalProperties": False,
}
SENTENCE = "Anna is 34 years old, lives in Rome, and is not married."
PERSON_IS: Json = {"name": "Anna", "age": 34, "city": "Rome", "is_married": False}

WEATHER: Json = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": CITIES}, "unit": {"type": "string", "enum": ["C", "F"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
TABLE: Json = {
    "type": "object",
    "properties": {
        "guests": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": ["Anna", "Bruno", "Clara"]},
                    "is_child": {"type": "boolean"},
                },
                "required": ["name", "is_child"],
                "additionalProperties": False,
            },
        },
        "hour": {"type": "integer", "enum": [18, 19, 20]},
    },
    "required": ["guests", "hour"],
    "additionalProperties": False,
}
#: Names of the tools, and what they take.
TOOLS: dict[str, Json] = {"get_weather": WEATHER, "book_table": TABLE}
_ABOUT = {"get_weather": "The weather in a city now.", "book_table": "Books a table in the restaurant."}
ASK_WEATHER = "What is the weather in Paris now, in degrees Celsius? Use the tool."
ASK_TWO = "What is the weather in Paris and in Rome now, in degrees Celsius? Use the tool for both cities at once."
ASK_TABLE = "Book a table at 19 for Anna, an adult, and Bruno, a child. Use the tool."
#: What a tool has found: an answer that uses it has the number.
RESULT = '{"temperature": 23, "sky": "clear"}'
#: Arguments of a call that is recited: none of them is the first that a schema has.
CALLED: Json = {"city": "Vienna", "unit": "F"}


def call(arguments: Json) -> Json:
    """A call for the weather, as the history of a conversation has it."""
    function = {"name": "get_weather", "arguments": json.dumps(arguments)}
    made = {"id": "call00001", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [made]}


def tools(*names: str, strict: bool = False) -> list[Json]:
    """These tools as `tools` of a request in OpenAI's chat API. `strict`: the engine is told to hold arguments to their
    schema. Raises KeyError for a name that TOOLS lacks.
    """
    more = {"strict": True} if strict else {}
    return [
        {
            "type": "function",
            "function": {"name": each, "description": _ABOUT[each], "parameters": TOOLS[each], **more},
        }
        for each in names
    ]


def tools_of_messages(*names: str) -> list[Json]:
    """The same in Anthropic's form."""
    return [{"name": each, "description": _ABOUT[each], "input_schema": TOOLS[each]} for each in names]


def haystack(characters: int) -> str:
    """A text of about so many characters, with the code in its midst."""
    lines, length, number = list[str](), 0, 0
    while length < characters:
        number += 1
        kind = ("good", "poor", "late", "early")[number % 4]
        lines.append(f"In the year {1000 + number} the harvest of the valley was {kind}, and the river was calm.")
        length += len(lines[-1]) + 1
    lines.insert(len(lines) // 2, f"The code of the north gate is {CODE}.")
    return "\n".join(lines)


def stop_word(text: str) -> str:
    """A word, or a part of one, behind the beginning of a text: an answer that stops there has it not. Raises Undecided
    for a text that is too short.
    """
    found = [each for each in re.finditer(r"\S{2,12}", text) if each.start() >= len(text) // 3]
    if len(text) < 12 or not found:
        raise Undecided("the answer that was to be stopped is too short")
    return found[0][0]
