"""The owner's wishes for a run of `tandem bench`. They come in the environment: the option `--for` as the variable FOR.

Every fault is said at once, by the option's name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bench.profiles import Profile, profile
from bench.slo import Slo
from operations.plan.config.refusal import Finding, Refusal, nearest

T = TypeVar("T")

#: As it is given in --topologies -> the knobs of that setup.
_SETUPS = {
    "solo": {"topology": "solo", "pipeline_parallel": "1"},
    "cluster": {"topology": "cluster"},
    "cluster/mp": {"topology": "cluster", "executor": "mp"},
    "cluster/ray": {"topology": "cluster", "executor": "ray"},
    "replicas": {"topology": "replicas", "pipeline_parallel": "1"},
}
#: Whatever is declared, none of them lies in groups.
SETUPS = {name: {**knobs, "nodes_per_replica": "1"} for name, knobs in _SETUPS.items()}
_TARGETS = ("proxy", "engines")
_FROM = ("controller", "head")
#: Rounds at most where the time decides.
MOST_ROUNDS = 30
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class BenchRequest:
    """A run as it is wanted. `prompts`: the owner's own, in their order."""

    inventory: str
    data: str
    profile: Profile
    topologies: tuple[str, ...]
    targets: tuple[str, ...]
    slo: str
    client_from: str
    seed: int | None
    run: Path | None
    prompts: tuple[str, ...]
    book: Path | None
    tokenizer: Path | None
    #: Seconds of measuring over all setups, within which the rounds end where all is known; None: the rounds decide.
    time_s: float | None = None

    @property
    def identity(self) -> str:
        """The values that are equal where a run goes on. The seed stands apart: without --seed it is the folder's."""
        profile = {name: value for name, value in vars(self.profile).items() if name != "about"}
        prompts = hashlib.sha256(json.dumps(self.prompts).encode()).hexdigest()[:16] if self.prompts else ""
        others = (self.inventory, self.data, self.topologies, self.targets, self.slo, self.client_from, prompts)
        # A run of an older Tandem has no time.
        return json.dumps([profile, *others, *([self.time_s] if self.time_s else [])])


def read(environment: Mapping[str, str]) -> BenchRequest:
    """Raises Refusal with every fault."""
    reading = _Reading(environment)
    base = reading.get("PROFILE", profile, "standard")
    users = reading.get("USERS", _counts("users", 1, 4096), "")
    repeats = reading.get("REPEATS", _counts("repeats", 1, 1000), "")
    lengths = reading.get("PROMPT", _counts("tokens of a prompt", 2, 10_000_000), "")
    answer = reading.get("ANSWER", _counts("tokens of an answer", 2, 1_000_000), "")
    topologies = reading.get("TOPOLOGIES", _each(SETUPS, "topology"), "")
    targets = reading.get("TARGETS", _each(_TARGETS, "target"), "proxy engines")
    client_from = reading.get("FROM", _one(_FROM, "place"), "controller")
    seed = reading.get("SEED", _counts("seed", 0, 2**62), "")
    slo = reading.get("SLO", _slo, "")
    prompts = reading.get("PROMPTS", _prompts, "")
    book = reading.get("BOOK", _file, "")
    tokenizer = reading.get("TOKENIZER", _folder, "")
    time_s = reading.get("FOR", duration, "")
    reading.end()
    assert base is not None
    changes: Mapping[str, Any] = {
        **({"users": users, "direct": _direct(base, users)} if users else {}),
        **({"repeats": repeats[0]} if repeats else {"repeats": MOST_ROUNDS} if time_s else {}),
        **({"prompts": lengths} if lengths else {}),
        **({"answer": answer[0]} if answer else {}),
    }
    wanted = replace(base, **changes)
    _fit(wanted, prompts or (), lengths or (), client_from or "", time_s)
    return BenchRequest(
        inventory=environment.get("INVENTORY") or "inventory.py",
        data=environment.get("DATA", ""),
        profile=wanted,
        topologies=tuple(dict.fromkeys(topologies or ())),
        targets=tuple(dict.fromkeys(targets or ())),
        slo=slo or "",
        client_from=client_from or "",
        seed=seed[0] if seed else None,
        run=Path(environment["RUN"]) if environment.get("RUN") else None,
        prompts=prompts or (),
        book=book,
        tokenizer=tokenizer,
        time_s=time_s,
    )


class _Reading:
    """Values by name, and all that is wrong with them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._findings: list[Finding] = []

    def get(self, name: str, reader: Callable[[str], T], default: str) -> T | None:
        try:
            return reader((self._environment.get(name) or "").strip() or default)
        except Refusal as refusal:
            self._findings += [replace(finding, where=f"--{name.lower()}") for finding in refusal.findings]
            return None

    def end(self) -> None:
        if self._findings:
            raise Refusal(*self._findings)


def _no(problem: str, remedy: str) -> Refusal:
    return Refusal(Finding("bench", problem, remedy))


def _counts(what: str, least: int, most: int) -> Callable[[str], tuple[int, ...]]:
    def read(text: str) -> tuple[int, ...]:
        found = []
        for word in text.replace(",", " ").split():
            if not word.isascii() or not word.isdigit() or not least <= int(word[:20]) <= most:
                raise _no(f"`{word}` is no number of {what}", f"whole numbers from {least} to {most}, e.g. `{least} 8`")
            found.append(int(word))
        return tuple(dict.fromkeys(found))

    return read


def _each(known: Mapping[str, Any] | tuple[str, ...], what: str) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        words = text.replace(",", " ").split()
        for word in words:
            if word not in known:
                raise _no(f"no {what} is named `{word}`", nearest(word, known, f"one of: {', '.join(known)}"))
        return tuple(words)

    return read


def _one(known: tuple[str, ...], what: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        found = _each(known, what)(text)
        if len(found) != 1:
            raise _no(f"`{text}` is more than one {what}", f"one of: {', '.join(known)}")
        return found[0]

    return read


def duration(text: str) -> float | None:
    """--for: `30m`, `90s`, `2h`, in seconds; None: nothing is given. Raises Refusal."""
    if not text:
        return None
    found = re.fullmatch(r"(\d{1,5})(s|m|min|h)", text, re.ASCII)
    value = int(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 30 <= value <= 86_400:
        raise _no(f"`{text}` is no time to measure for", "30s to 24h, e.g. 30m")
    return value


def _slo(text: str) -> str:
    Slo.of(text)
    return text


def _file(text: str) -> Path | None:
    if text and not Path(text).is_file():
        raise _no(f"there is no file {text}", "name one that is there")
    return Path(text) if text else None


def _folder(text: str) -> Path | None:
    if text and not Path(text).is_dir():
        raise _no(f"there is no folder {text}", "name one that is there")
    return Path(text) if text else None


def _prompts(text: str) -> tuple[str, ...]:
    """A prompt a line; in a .jsonl a JSON text a line, or an object with `prompt`."""
    file = _file(text)
    if file is None:
        return ()
    try:
        lines = [line for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        raise _no(f"{file} can't be read as text", "a prompt a line, or a .jsonl with `prompt`") from None
    found = [_json(file, number, line) if file.suffix == ".jsonl" else line for number, line in enumerate(lines, 1)]
    if not found:
        raise _no(f"{file} has no prompt in it", "a prompt a line, or a .jsonl with `prompt`")
    return tuple(found)


def _json(file: Path, number: int, line: str) -> str:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    prompt = found.get("prompt") if isinstance(found, dict) else found
    if not isinstance(prompt, str) or not prompt.strip():
        raise _no(f"{file} line {number} has no prompt", 'each line is a JSON text, or {"prompt": "..."}')
    return prompt


def _direct(base: Profile, users: tuple[int, ...]) -> tuple[int, ...]:
    """At which of these numbers of users engines are asked directly: the profile's, or else the most."""
    return tuple(each for each in users if each in base.direct) or ((max(users),) if base.direct else ())


def _fit(
    wanted: Profile, prompts: tuple[str, ...], lengths: tuple[int, ...], client_from: str, time_s: float | None
) -> None:
    """Knobs that do not go together."""
    if wanted.name == "owner" and not prompts:
        raise Refusal(
            Finding(
                "--prompts", "the profile `owner` has no prompts of its own", "name a file with them, a prompt a line"
            )
        )
    if wanted.name != "owner" and prompts:
        raise Refusal(Finding("--prompts", f"the profile `{wanted.name}` makes its own prompts", "use --profile owner"))
    if wanted.name == "owner" and lengths:
        raise Refusal(Finding("--prompt", "the prompts of a file have their own lengths", "leave --prompt out"))
    if wanted.tool != "tandem" and time_s:
        raise Refusal(
            Finding("--for", f"all repeats are one run of {wanted.tool}", "use --profile standard, or --repeats")
        )
    if wanted.tool != "tandem" and len(wanted.prompts) > 1:
        raise Refusal(Finding("--prompt", "the articles have one length of prompt", "name one"))
    if wanted.tool != "tandem" and client_from == "head":
        raise Refusal(
            Finding("--from", f"{wanted.tool} runs on the controller", "leave --from out, or use --profile standard")
        )
