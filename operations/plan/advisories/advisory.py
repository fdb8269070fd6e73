"""What is known: advisories in OSV's format (files/holes), read once, and whether a version is among the affected."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

from packaging.version import Version

from operations.wire.holes import About

FOLDER = Path(__file__).parents[3] / "files/holes"
ADVISORIES, REACH, ABOUT = FOLDER / "advisories.jsonl", FOLDER / "reach.json", FOLDER / "about.json"
#: From this score on a hole that can be reached wants the owner's word.
CRITICAL = 9.0
#: What a word is worth where an advisory has no vector: the least that it can mean.
_WORDS = {"CRITICAL": 9.0, "HIGH": 7.0, "MODERATE": 4.0, "MEDIUM": 4.0, "LOW": 0.1}


@dataclass(frozen=True)
class Advisory:
    """One OSV record. `affected` and the rest are as OSV has them: https://ossf.github.io/osv-schema/."""

    record: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.record["id"])

    @property
    def names(self) -> frozenset[str]:
        """Its id and its aliases, any of which may be accepted."""
        return frozenset((self.id, *self.record.get("aliases", ())))

    @property
    def summary(self) -> str:
        return str(self.record.get("summary") or self.record.get("details", "").partition("\n")[0] or "no description")

    @property
    def url(self) -> str:
        return next((str(each["url"]) for each in self.record.get("references", ())), "")

    @property
    def packages(self) -> frozenset[str]:
        return frozenset(normal(each["package"]["name"]) for each in self.record["affected"] if "package" in each)

    @cached_property
    def score(self) -> float | None:
        """CVSS's base score as it was renewed; of a mere word the least that it can mean; None: neither is said."""
        said = self.record.get("database_specific", {})
        if isinstance(score := said.get("cvss"), int | float):
            return float(score)
        return _WORDS.get(str(said.get("severity", "")).upper())

    @property
    def is_exact(self) -> bool:
        """Whether the score is a score, not a word."""
        return isinstance(self.record.get("database_specific", {}).get("cvss"), int | float)

    def affects(self, package: str, version: str) -> bool:
        """Whether this release of a package is affected; one that is no version is not judged."""
        at = number(version)
        return at is not None and any(
            _in_ranges(each, at) or at in [number(exact) for exact in each.get("versions", ())]
            for each in self._of(package)
        )

    def fixed(self, package: str, version: str) -> str:
        """The first release after this one that is not affected; empty: none is known."""
        ends, at = self._ends(package, "fixed"), number(version)
        # What pip-audit has found: no range, but the release that mends it.
        said = [str(each.get("database_specific", {}).get("fixed", "")) for each in self._of(package)]
        return next((text for end, text in ends if at is None or end > at), next(filter(None, said), ""))

    def last_affected(self, package: str) -> str:
        """The last release that is known to be affected, where no advisory names the one that mends it."""
        return next((text for _, text in reversed(self._ends(package, "last_affected"))), "")

    def _ends(self, package: str, kind: str) -> list[tuple[Version, str]]:
        """Events of a kind, the earliest first."""
        said = [str(event[kind]) for each in self._of(package) for event in _events(each) if kind in event]
        return sorted((end, text) for text in said if (end := number(text)) is not None)

    def _of(self, package: str) -> list[Mapping[str, Any]]:
        return [each for each in self.record["affected"] if normal(each.get("package", {}).get("name", "")) == package]


def normal(name: str) -> str:
    """A package's name in one spelling. Go's paths are known by their last part."""
    last = name.rpartition("/")[2] if "/" in name and not name.startswith("@") else name
    return re.sub(r"[-_.]+", "-", last).lower()


@cache
def number(text: str) -> Version | None:
    """The release in a version, without what distributions put before and behind it; None: there is none."""
    found = re.match(r"(?:\d+:)?v?(\d+(?:\.\d+)*)[-.~]?((?:a|b|rc)\.?\d+)?", str(text))
    return Version(found[1] + (found[2] or "").replace(".", "")) if found else None


def _events(affected: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [event for each in affected.get("ranges", ()) if each.get("type") != "GIT" for event in each["events"]]


def _in_ranges(affected: Mapping[str, Any], at: Version) -> bool:
    return any(_in_range(each["events"], at) for each in affected.get("ranges", ()) if each.get("type") != "GIT")


def _in_range(events: list[Mapping[str, Any]], at: Version) -> bool:
    """OSV's rule: the events in their order, the last one that is not after the version decides."""
    known = [(end, kind) for event in events for kind, text in event.items() if (end := number(text)) is not None]
    inside = False
    for end, kind in sorted(known):
        if kind == "introduced" and at >= end:
            inside = True
        elif (kind == "fixed" and at >= end) or (kind == "last_affected" and at > end):
            inside = False
    return inside


@cache
def advisories() -> tuple[Advisory, ...]:
    """All that is shipped."""
    lines = ADVISORIES.read_text().splitlines()
    return tuple(Advisory(json.loads(line)) for line in lines if line.strip())


@cache
def by_package() -> Mapping[str, tuple[Advisory, ...]]:
    """The advisories of each package that any of them names."""
    found: dict[str, list[Advisory]] = {}
    for each in advisories():
        for package in each.packages:
            found.setdefault(package, []).append(each)
    return {package: tuple(each) for package, each in found.items()}


@cache
def about() -> About:
    """The file."""
    return cast("About", json.loads(ABOUT.read_text()))
