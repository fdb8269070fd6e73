"""What a request for vectors or a ranking has in any case, before an engine is asked: one that fails over it would be
left alone for a while. Everything else is the engine's to refuse.
"""

from __future__ import annotations

from typing import Any


def wrong(path: str, asked: dict[str, Any]) -> str:
    """What is wrong with a body for this path below /v1; empty: nothing."""
    if path == "embeddings":
        return _vectors(asked)
    return _ranking(asked) if path == "rerank" else ""


def _vectors(asked: dict[str, Any]) -> str:
    said, length = asked.get("input"), asked.get("dimensions")
    # vLLM takes a conversation too.
    if not (isinstance(asked.get("messages"), list) if said is None else _is_input(said)):
        return "`input`: a text, or a list of texts, of tokens or of lists of tokens is wanted, none of them empty"
    if not isinstance(asked.get("encoding_format", ""), str | None):
        return "`encoding_format`: a word is wanted"
    return "" if length is None or _is_count(length, 1) else "`dimensions`: a number above 0 is wanted"


def _ranking(asked: dict[str, Any]) -> str:
    documents, most = asked.get("documents"), asked.get("top_n")
    if not isinstance(asked.get("query"), str | dict):
        return "`query`: a text is wanted"
    # Pictures are one object for all of them.
    if not (_is_list(documents, str | dict) or (isinstance(documents, dict) and "content" in documents)):
        return "`documents`: a list of texts is wanted, and not an empty one"
    return "" if most is None or _is_count(most, 0) else "`top_n`: how many documents, 0 for all of them, is wanted"


def _is_input(said: Any) -> bool:
    if isinstance(said, str):
        return True
    if not isinstance(said, list) or not said:
        return False
    # All of one kind: tokens, texts, or objects that are texts and pictures.
    if not isinstance(said[0], list):
        return _is_tokens(said) or _is_list(said, str) or _is_list(said, dict)
    return all(_is_tokens(each) for each in said)


def _is_tokens(said: Any) -> bool:
    # By their types at once: there may be half a million.
    return isinstance(said, list) and set(map(type, said)) == {int} and min(said) >= 0


def _is_list(said: Any, kind: Any) -> bool:
    return isinstance(said, list) and bool(said) and all(isinstance(each, kind) for each in said)


def _is_count(said: Any, least: int) -> bool:
    """A number; JSON's true is one for Python."""
    return isinstance(said, int) and not isinstance(said, bool) and said >= least
