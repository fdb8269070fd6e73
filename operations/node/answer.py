"""Is what an engine says worth anything? Kernels that are not meant for a GPU answer too, with `!!!!!!`."""

from __future__ import annotations

import urllib.error
from http.client import HTTPException
from typing import Any

from operations.node.probe import ask

PROMPT = "In one sentence: why is the sky blue?"
#: Tokens that are asked for; a reasoning model says something of its reasoning within them.
TOKENS = 96
#: Shorter than this, one word again and again says nothing.
_ENOUGH = 8
#: Request timeout, too many requests: asked again later it may be another.
_LATER = (408, 429)


def main(url: str, model: str, reasoning: bool | None, text: bool, deadline_s: float) -> dict[str, Any]:
    """`problem`: what is wrong with the answer; empty: nothing. `judged`: whether it is the answer that is wrong: one
    that is late, or breaks off, or that the server is not able to give now, says nothing about the engine's words.

    `reasoning`: True: it has to come, in its own field; None: it must not stand in the answer. `text`: judge the words.
    """
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": TOKENS, "temperature": 0}
    try:
        message = ask(f"{url}/v1/chat/completions", body, "", deadline_s)["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        said = f"HTTP {error.code}: {error.read().decode(errors='replace')[:200]}"
        return {"problem": said, "judged": error.code < 500 and error.code not in _LATER}
    except (OSError, HTTPException) as error:
        return {"problem": str(getattr(error, "reason", error)) or type(error).__name__, "judged": False}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        return {"problem": f"its answer is none ({type(error).__name__}: {error})", "judged": True}
    content = message.get("content") or ""
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    problem = misplaced(content, thought, reasoning) or (degenerate(thought + content) if text else "")
    return {"problem": problem, "judged": True}


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
