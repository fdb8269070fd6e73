"""The package `openai`."""

from __future__ import annotations

import openai
import trying
from trying import ANSWER, CALL, DATA_URL, LATE, MODEL, SCHEMA, SEEN, SILENT, VECTOR, attempt, unless

client = openai.OpenAI(base_url=f"{trying.URL}/v1", api_key=trying.KEY, max_retries=0)
hi = [{"role": "user", "content": "Hi"}]


def tool() -> str:
    tools = [{"type": "function", "function": {"name": "write_file", "parameters": SCHEMA}}]
    asked = [{"role": "user", "content": CALL}]
    parts = []
    with client.chat.completions.create(model=MODEL, messages=asked, tools=tools, stream=True) as stream:
        for chunk in stream:
            for call in chunk.choices[0].delta.tool_calls or []:
                parts.append(call.function.arguments or "")
    if len(parts) < 3:
        return f"the call came in {len(parts)} pieces"
    return trying.write("".join(parts))


def interrupt() -> str:
    with client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "PIECES 400"}], stream=True
    ) as stream:
        for _, _ in zip(range(3), stream, strict=False):
            pass
    return trying.left()


def stream() -> str:
    pieces = client.chat.completions.create(model=MODEL, messages=hi, stream=True)
    return unless("".join(chunk.choices[0].delta.content or "" for chunk in pieces), ANSWER)


def silence() -> str:
    patient = client.with_options(timeout=trying.PATIENCE_S)
    messages = [{"role": "user", "content": SILENT}]
    pieces = patient.chat.completions.create(model=MODEL, messages=messages, stream=True)
    said = unless("".join(chunk.choices[0].delta.content or "" for chunk in pieces), ANSWER)
    if said:
        return said
    for asked in (SILENT, LATE):
        with patient.responses.stream(model=MODEL, input=asked) as events:
            for _ in events:
                pass
            said = said or unless(events.get_final_response().output_text, ANSWER)
    return said


def picture() -> str:
    content = [{"type": "image_url", "image_url": {"url": DATA_URL}}, {"type": "text", "text": "What is it?"}]
    got = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": content}])
    return unless(got.choices[0].message.content, SEEN)


def response() -> str:
    said = unless(client.responses.create(model=MODEL, input="Hi").output_text, ANSWER)
    with client.responses.stream(model=MODEL, input="Hi") as events:
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    return said or unless(text, ANSWER)


def speech() -> str:
    heard = client.audio.transcriptions.create(model=MODEL, file=("a.wav", b"RIFF" * 1000), language="de")
    spoken = client.audio.speech.create(model=MODEL, voice="a", input="Hi").read()
    return unless((heard.text.endswith(" bytes"), spoken), (True, b"RIFF\x00\xff sound"))


attempt(
    "answer",
    lambda: unless(client.chat.completions.create(model=MODEL, messages=hi).choices[0].message.content, ANSWER),
)
attempt("stream", stream)
attempt("tool", tool)
attempt(
    "vector",
    lambda: unless(client.embeddings.create(model=MODEL, input="a", encoding_format="float").data[0].embedding, VECTOR),
)
# The package asks for base64 by itself.
attempt("vector, base64", lambda: unless(client.embeddings.create(model=MODEL, input="a").data[0].embedding, VECTOR))
attempt("picture", picture)
attempt("interrupt", interrupt)
attempt("silence", silence)
attempt("responses", response)
attempt("models", lambda: unless(client.models.retrieve(MODEL).max_model_len, 131072))
attempt("sound", speech)
