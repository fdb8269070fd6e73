"""What a bench or a deploy has handed over (bench/advise/page.py), read when it is another file than before."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from operations.wire.page import AdviceTable, BenchPart, BenchRow, Better
    from operations.wire.page import Handed as Part

FORMAT = 1
#: Bytes of it.
MOST = 4 << 20


class Handed:
    """`at`: the file, which may be missing."""

    def __init__(self, at: str) -> None:
        self._at = Path(at)
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._parts: dict[str, Part] = {}
        self._note = ""

    def told(self) -> tuple[dict[str, Part], str]:
        """The part of each model, by the name that clients call it by; and what is wrong with the file, or nothing."""
        with self._lock:
            try:
                found = self._at.stat()
                stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
                if stamp != self._stamp:
                    self._parts, self._note, self._stamp = _read(self._at), "", stamp
            except FileNotFoundError:
                self._parts, self._note, self._stamp = {}, "", None
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                self._parts, self._stamp = {}, None
                self._note = (
                    f"{self._at} can't be read, so nothing is said of benches: `tandem bench` writes it anew, as does "
                    "`tandem apply` of another plan"
                )
            return self._parts, self._note


def _read(file: Path) -> dict[str, Part]:
    """Raises what `told` catches: whoever shows it may rely on each value."""
    with file.open("rb") as opened:
        text = opened.read(MOST + 1)
    if len(text) > MOST:
        raise ValueError
    said = json.loads(text)
    if said["format"] != FORMAT:
        raise ValueError
    return {_text(each["model"]): _part(each) for each in said["models"]}


def _part(said: Any) -> Part:
    return {
        "spec": _text(said["spec"]),
        "bench": None if said["bench"] is None else _bench(said["bench"]),
        "advice": [_advice(each) for each in said["advice"]],
    }


def _bench(said: Any) -> BenchPart:
    words = {name: _text(said[name]) for name in ("folder", "profile", "recipe")}
    numbers = {name: _number(said[name]) for name in ("began", "prompt", "answer")}
    return cast("BenchPart", {**words, **numbers, "rows": [_row(each) for each in said["rows"]]})


def _row(said: Any) -> BenchRow:
    means = {name: _number(said[name]) for name in ("decode", "first") if name in said}
    return cast("BenchRow", {"setup": _text(said["setup"]), "users": _number(said["users"]), **means})


def _advice(said: Any) -> AdviceTable:
    users = [None if each is None else _better(each) for each in said["users"]]
    if not users:
        raise ValueError
    # Nearness is told by logarithms.
    lengths = {name: max(1.0, _number(said[name])) for name in ("prompt", "answer")}
    place = _text(said.get("lengths_from", ""))
    return {"prompt": lengths["prompt"], "answer": lengths["answer"], "lengths_from": place, "users": users}


def _better(said: Any) -> Better:
    words = {name: _text(said[name]) for name in ("better", "kind", "source")}
    if not words["better"]:
        return cast("Better", words)
    first = {name: _number(said[name]) for name in ("first_here", "first_there") if name in said}
    return cast("Better", {**words, **{name: _number(said[name]) for name in ("by", "here", "there")}, **first})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return value
