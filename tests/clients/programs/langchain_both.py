"""The packages `langchain-openai` and `langchain-anthropic`: `langchain_both.py openai|anthropic`."""

from __future__ import annotations

import sys

import trying
from langchain_core.messages import HumanMessage
from trying import ANSWER, CALL, DATA_URL, MODEL, SEEN, SILENT, VECTOR, attempt, unless


def model(**more: object) -> object:
    if sys.argv[1] == "openai":
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(model=MODEL, base_url=f"{trying.URL}/v1", api_key=trying.KEY, max_retries=0, **more)
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model=MODEL, base_url=trying.URL, api_key=trying.KEY, max_retries=0, **more)


def write_file(path: str, text: str) -> str:
    """Write a file."""
    return trying.write({"path": path, "text": text})


def said(message: object) -> str:
    content = message.content
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def tool() -> str:
    whole = None
    for chunk in model().bind_tools([write_file]).stream(CALL):
        whole = chunk if whole is None else whole + chunk
    return write_file(**whole.tool_calls[0]["args"])


def picture() -> str:
    part = {"type": "image_url", "image_url": {"url": DATA_URL}}
    return unless(said(model().invoke([HumanMessage([part, {"type": "text", "text": "What is it?"}])])), SEEN)


def interrupt() -> str:
    stream = model().stream("PIECES 400")
    for _, _ in zip(range(3), stream, strict=False):
        pass
    stream.close()
    return trying.left()


def vector(**more: object) -> str:
    from langchain_openai import OpenAIEmbeddings

    # Without this it sends lists of tokens of OpenAI's own models.
    embeddings = OpenAIEmbeddings(
        model=MODEL, base_url=f"{trying.URL}/v1", api_key=trying.KEY, check_embedding_ctx_length=False, **more
    )
    return unless(embeddings.embed_query("a"), VECTOR)


attempt("answer", lambda: unless(said(model().invoke("Hi")), ANSWER))
attempt("stream", lambda: unless("".join(map(said, model().stream("Hi"))), ANSWER))
attempt("tool", tool)
if sys.argv[1] == "openai":
    attempt("vector", lambda: vector(model_kwargs={"encoding_format": "float"}))
    attempt("vector, base64", vector)
attempt("picture", picture)
attempt("interrupt", interrupt)
attempt("silence", lambda: unless("".join(map(said, model(timeout=trying.PATIENCE_S).stream(SILENT))), ANSWER))
