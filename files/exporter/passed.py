"""What another program of this node says of itself in Prometheus' format: the names that are wanted, as they are."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from text import Sample

#: Seconds and bytes for an answer: an engine that is busy owes it, and a scrape must not wait for it.
WAIT_S, MOST = 3.0, 4 << 20
_NAME = re.compile(r"(?:# (?:HELP|TYPE) )?([a-zA-Z_:][a-zA-Z0-9_:]*)")


@dataclass(frozen=True)
class Passed:
    """Lines of the other program, and whether it gave any."""

    text: str
    samples: list[Sample]


def on(name: str, url: str, names: str) -> Passed:
    """`names`: a pattern of the metrics that are passed on."""
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            said = answer.read(MOST + 1)
    except OSError:
        said = b""
    if len(said) > MOST:
        said = b""
    told = Sample("source_up", "Whether a program of this node gives its metrics.", float(bool(said)), {"source": name})
    return Passed("".join(_wanted(said.decode(errors="replace").splitlines(), re.compile(names))), [told])


def _wanted(lines: Iterable[str], names: re.Pattern[str]) -> Iterator[str]:
    for line in lines:
        found = _NAME.match(line)
        if found and names.match(found[1]):
            yield f"{line}\n"
