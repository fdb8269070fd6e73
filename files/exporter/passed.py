"""What other programs of this node say of themselves in Prometheus' format: the names that are wanted, as they are.

Two engines say the same names. The format wants HELP and TYPE of a name once and its samples together, and no two
samples with the same labels: one that does not say its engine's model is told which it is.
"""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from speaking import opened
from text import Sample, quoted

#: Seconds and bytes for a whole answer: an engine that is busy owes it, and a scrape must not wait for it.
WAIT_S, MOST = 3.0, 4 << 20
#: Bytes that are taken at once.
_PIECE = 1 << 16
_HEAD = re.compile(r"# (?:HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*)")
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?(\s+\S.*)")
#: Behind the name of a family: its samples' own names.
_OF_FAMILY = ("", "_bucket", "_sum", "_count", "_total")
_MODEL = re.compile(r'(?:^|,)model_name="((?:[^"\\]|\\.)*)"')
#: What TensorRT-LLM calls each model.
_NO_NAME = "undefined"


@dataclass
class Family:
    """Lines of one name: what it is, and its samples."""

    heads: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Passed:
    """What the other program says, by name, and whether it said anything."""

    families: dict[str, Family]
    samples: list[Sample]


def on(name: str, url: str, names: str, model: str = "") -> Passed:
    """`names`: a pattern of the metrics that are passed on. `model`: what clients call the engine's model."""
    try:
        said = _fetched(url)
    except (OSError, http.client.HTTPException, ValueError):
        # Nobody is there, or something that is no HTTP, or its answer broke off.
        return silent(name, model)
    families = _families(said.decode(errors="replace").splitlines(), re.compile(names), model)
    return Passed(families, [_told(name, model, bool(said))])


def silent(name: str, model: str = "") -> Passed:
    """One that gives nothing."""
    return Passed({}, [_told(name, model, False)])


def _told(name: str, model: str, is_up: bool) -> Sample:
    labels = {"source": name, "model": model} if model else {"source": name}
    return Sample("source_up", "Whether a program of this node gives its metrics.", float(is_up), labels)


def _fetched(url: str) -> bytes:
    """A head that drips is left to whoever waits for this (background_call.py)."""
    until, said = time.monotonic() + WAIT_S, bytearray()
    with opened(url, WAIT_S) as answer:
        while piece := answer.read1(_PIECE):
            said += piece
            if time.monotonic() > until or len(said) > MOST:
                raise OSError("too slow, or too much")
        # What is left of what was promised: http.client does not mind.
        if answer.length:
            raise OSError("it broke off")
    return bytes(said)


def merged(others: Sequence[Passed]) -> str:
    """Several sources as one text. The first HELP or TYPE line of a metric wins."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for each in others:
        for name, family in each.families.items():
            heads.setdefault(name, family.heads)
            samples.setdefault(name, []).extend(family.samples)
    return "".join(f"{line}\n" for name in heads for line in (*heads[name], *samples[name]))


def _families(lines: Iterable[str], names: re.Pattern[str], model: str) -> dict[str, Family]:
    found: dict[str, Family] = {}
    last = ""
    for line in lines:
        if head := _HEAD.match(line):
            last = head[1]
            if names.match(last):
                found.setdefault(last, Family()).heads.append(line)
        elif (sample := _SAMPLE.match(line)) and names.match(sample[1]):
            name = last if sample[1] in _named(last) else sample[1]
            found.setdefault(name, Family()).samples.append(_of_model(line, sample, model) if model else line)
    return found


def _named(family: str) -> Iterator[str]:
    return (f"{family}{suffix}" for suffix in _OF_FAMILY)


def _of_model(line: str, sample: re.Match[str], model: str) -> str:
    labels = sample[2] or ""
    named = _MODEL.search(labels)
    if named and named[1] != _NO_NAME:
        return line
    rest = _MODEL.sub("", labels).strip(",")
    labels = ",".join(part for part in (rest, f'model_name="{quoted(model)}"') if part)
    return f"{sample[1]}{{{labels}}}{sample[3]}"
