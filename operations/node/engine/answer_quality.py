"""Is what an engine says worth anything? Kernels that are not meant for a GPU answer too, with `!!!!!!`.

A model that says nothing in words is judged by its numbers: two texts that mean nothing alike can't have one vector.
"""

from __future__ import annotations

import math
import urllib.error
from http.client import HTTPException

from operations.node.engine.probe import ask
from operations.wire import Json
from operations.wire.unit import Judged

PROMPT = "In one sentence: why is the sky blue?"
#: Tokens that are asked for; a reasoning model says something of its reasoning within them.
TOKENS = 96
#: What a model that gives numbers is asked for: nothing is alike in them.
TEXTS = ("The sky is blue because air scatters short waves more.", "Twelve eggs, a pound of flour, no sugar.")
#: By what a model is there for: where it is asked, and what.
ASKED: dict[str, tuple[str, Json]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": TOKENS, "temperature": 0},
    ),
    "embedding": ("/v1/embeddings", {"input": list(TEXTS)}),
    "rerank": ("/v1/rerank", {"query": PROMPT, "documents": list(TEXTS)}),
}
#: Shorter than this, one word again and again says nothing.
_ENOUGH = 8
#: Request timeout, too many requests: asked again later it may be another.
_LATER = (408, 429)


def main(url: str, model: str, reasoning: bool | None, text: bool, deadline_s: float, answers: str = "chat") -> Judged:
    """`problem`: what is wrong with the answer; empty: nothing. `judged`: whether it is the answer that is wrong: one
    that is late, or breaks off, or that the server is not able to give now, says nothing about the engine's words.

    `reasoning`: True: it has to come, in its own field; None: it must not stand in the answer. `text`: judge the words,
    or the numbers. `answers`: what it is there for.
    """
    path, body = ASKED[answers]
    try:
        said = ask(f"{url}{path}", {"model": model, **body}, "", deadline_s)
        if answers != "chat":
            return {"problem": unlike(numbers(said), judged=text), "judged": True}
        message = said["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        why = f"HTTP {error.code}: {error.read().decode(errors='replace')[:200]}"
        return {"problem": why, "judged": error.code < 500 and error.code not in _LATER}
    except (OSError, HTTPException) as error:
        return {"problem": str(getattr(error, "reason", error)) or type(error).__name__, "judged": False}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        return {"problem": f"its answer is none ({type(error).__name__}: {error})", "judged": True}
    content = message.get("content") or ""
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    problem = misplaced(content, thought, reasoning) or (degenerate(thought + content) if text else "")
    return {"problem": problem, "judged": True}


def numbers(said: Json) -> list[list[float]]:
    """The vectors of both texts, or a score of each; raises ValueError, KeyError or TypeError when there are none."""
    if "data" in said:
        return [[float(value) for value in each["embedding"]] for each in said["data"]]
    return [[float(each["relevance_score"])] for each in said["results"]]


def unlike(found: list[list[float]], judged: bool) -> str:
    """Why two texts' numbers are worth nothing; empty: they may be."""
    if len(found) != len(TEXTS) or not all(found) or len({len(each) for each in found}) != 1:
        return f"its answer has {len(found)} results for {len(TEXTS)} texts"
    if not all(math.isfinite(value) for each in found for value in each):
        return "its answer has numbers that are none (NaN or infinite): a kernel computes nonsense on this GPU"
    if judged and found[0] == found[1]:
        return "two texts that have nothing in common get the same numbers: a kernel computes nonsense on this GPU"
    return ""


def misplaced(content: str, thought: str, reasoning: bool | None) -> str:
    """Why the reasoning is not where clients look for it; empty: it is."""
    if "<think>" in content or "</think>" in content:
        return f"the reasoning stands in the answer itself ({content[:60]!r}): the reasoning parser is not the model's"
    if reasoning and not thought:
        return f"the answer has no reasoning of its own ({content[:60]!r}): the reasoning parser is not the model's"
    return ""


def degenerate(text: str) -> str:
    """Why a text is no language; empty: it may be."""
    solid = "".join(text.split())
    words = text.split()
    if len(solid) >= _ENOUGH and len(set(solid)) == 1:
        return f"it says nothing but `{solid[0]}` ({solid[:24]}): a kernel computes nonsense on this GPU"
    if len(words) >= _ENOUGH and len(set(words)) == 1:
        return f"it says `{words[0]}` and nothing else: a kernel computes nonsense on this GPU"
    return ""
