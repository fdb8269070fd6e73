"""Do adapters change what a model says? Some load without a word and do nothing (vLLM #41754, seen on a GB10)."""

from __future__ import annotations

import urllib.error
from collections.abc import Sequence
from http.client import HTTPException

from operations.node.engine.probe import ask
from operations.wire.unit import Compared

#: What is asked: an adapter may be about one of them alone, or about its form.
PROMPTS = (
    "In one sentence: why is the sky blue?",
    "Write a short note to a colleague about tomorrow's meeting.",
    "List three uses of a paper clip.",
)
#: Tokens of an answer.
TOKENS = 48


def main(url: str, model: str, adapters: Sequence[str], deadline_s: float) -> Compared:
    """`alike`: adapters whose answers are the model's own to every prompt, byte for byte, at temperature 0. `problem`:
    why they could not be compared; empty: they were. `deadline_s`: seconds that one answer may take.
    """
    try:
        own = [_answer(url, model, prompt, deadline_s) for prompt in PROMPTS]
        alike = [
            name
            for name in adapters
            # The first that differs is enough.
            if all(_answer(url, name, prompt, deadline_s) == said for prompt, said in zip(PROMPTS, own, strict=True))
        ]
    except urllib.error.HTTPError as error:
        return {"alike": [], "problem": f"HTTP {error.code}: {error.read().decode(errors='replace')[:200]}"}
    except (OSError, HTTPException) as error:
        return {"alike": [], "problem": str(getattr(error, "reason", error)) or type(error).__name__}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        return {"alike": [], "problem": f"an answer is none ({type(error).__name__}: {error})"}
    return {"alike": alike, "problem": ""}


def _answer(url: str, model: str, prompt: str, deadline_s: float) -> str:
    body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
    said = ask(
        f"{url}/v1/chat/completions", {**body, "max_tokens": TOKENS, "temperature": 0, "seed": 0}, "", deadline_s
    )
    message = said["choices"][0]["message"]
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    return f"{thought}{message.get('content') or ''}"
