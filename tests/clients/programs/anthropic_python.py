"""The package `anthropic`."""

from __future__ import annotations

import base64

import anthropic
import trying
from trying import ANSWER, CALL, MODEL, PNG, SCHEMA, SEEN, SILENT, attempt, unless

client = anthropic.Anthropic(base_url=trying.URL, api_key=trying.KEY, max_retries=0)


def ask(content: object, **more: object) -> dict[str, object]:
    return {"model": MODEL, "max_tokens": 99, "messages": [{"role": "user", "content": content}], **more}


def stream() -> str:
    with client.messages.stream(**ask("Hi")) as events:
        return unless("".join(events.text_stream), ANSWER)


def tool() -> str:
    tools, deltas = [{"name": "write_file", "input_schema": SCHEMA}], 0
    with client.messages.stream(**ask(CALL, tools=tools)) as events:
        for event in events:
            deltas += event.type == "input_json"
        call = events.get_final_message().content[0]
    return f"the call came in {deltas} pieces" if deltas < 3 else trying.write(call.input)


def picture() -> str:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    got = client.messages.create(**ask([{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]))
    return unless(got.content[0].text, SEEN)


def interrupt() -> str:
    with client.messages.stream(**ask("PIECES 400")) as events:
        for _, _ in zip(range(3), events.text_stream, strict=False):
            pass
    return trying.left()


def silence() -> str:
    with client.with_options(timeout=trying.PATIENCE_S).messages.stream(**ask(SILENT)) as events:
        return unless("".join(events.text_stream), ANSWER)


def counted() -> str:
    asked = ask("Hi")
    del asked["max_tokens"]
    return unless(client.messages.count_tokens(**asked).input_tokens, 1000)


attempt("answer", lambda: unless(client.messages.create(**ask("Hi")).content[0].text, ANSWER))
attempt("stream", stream)
attempt("tool", tool)
attempt("picture", picture)
attempt("interrupt", interrupt)
attempt("silence", silence)
attempt("count_tokens", counted)
attempt("models", lambda: unless([each.id for each in client.models.list().data], [MODEL]))
