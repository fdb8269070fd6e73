"""`make holes FROM=...`: renews files/holes/advisories.jsonl from OSV's records, or from what pip-audit says.

FROM is a file (.json, .jsonl, .zip: what OSV exports for an ecosystem), a folder of such files, or a URL of one.
Records of packages that are not on the list (about.json) are left out; judgements of reach are kept, and what has none
is named.
"""

from __future__ import annotations

import datetime
import io
import json
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import requests
from cvss import CVSS2, CVSS3, CVSS4
from cvss.exceptions import CVSSError

from operations.plan.advisories.advisory import ABOUT, ADVISORIES, REACH, Advisory, normal, number
from operations.wire import Json

Record = Json
#: What is kept of a record, in this order.
FIELDS = (
    "id",
    "modified",
    "published",
    "aliases",
    "summary",
    "severity",
    "affected",
    "references",
    "database_specific",
)
_VECTORS = {"CVSS_V2": CVSS2, "CVSS_V3": CVSS3, "CVSS_V4": CVSS4}


def main(source: str = "", folder: str = "") -> int:
    """Prints what was added and changed, and what nobody has judged; 2 where nothing can be read."""
    if not source:
        print("FROM= names a file, folder, zip or URL of OSV records, or pip-audit's JSON", file=sys.stderr)
        return 2
    advisories, reach, about = (Path(folder) / file.name if folder else file for file in (ADVISORIES, REACH, ABOUT))
    said = json.loads(about.read_text())
    try:
        every = list(records(source))
        fresh = [_kept(each) for each in every if _packages(each) & set(said["packages"])]
    except (OSError, ValueError, KeyError, requests.RequestException) as error:
        print(f"{source} can't be read as OSV records or pip-audit's JSON: {error}", file=sys.stderr)
        return 2
    if not every:
        print(f"{source} has no OSV record, and no finding of pip-audit's: the list stays as it was", file=sys.stderr)
        return 2
    old = [json.loads(line) for line in advisories.read_text().splitlines() if line.strip()]
    merged, added, changed = merge(old, fresh)
    _write(advisories, "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in merged))
    today = datetime.date.today().isoformat()
    sources = list(dict.fromkeys([*said["sources"], source]))
    _write(about, json.dumps({**said, "date": today, "sources": sources}, indent=1, ensure_ascii=False) + "\n")
    judged = json.loads(reach.read_text())["judged"]
    unjudged = [each["id"] for each in merged if each["id"] not in judged]
    print(f"{len(fresh)} record(s) read; added: {', '.join(added) or 'none'}; changed: {', '.join(changed) or 'none'}")
    if unjudged:
        print(f"judge them in {reach.name}, until then each counts as reachable: {', '.join(unjudged)}")
    return 0


def merge(old: list[Record], fresh: Iterable[Record]) -> tuple[list[Record], list[str], list[str]]:
    """Both lists as one, by any name that a record has. A record keeps its name and the summary that it has here; of
    what only pip-audit says, an advisory that is known keeps everything.
    """
    by_name = {name: each for each in old for name in Advisory(each).names}
    merged = {each["id"]: each for each in old}
    added, changed = [], []
    for each in fresh:
        known = next((by_name[name] for name in sorted(Advisory(each).names) if name in by_name), None)
        if known is None:
            merged[each["id"]] = each
            by_name |= dict.fromkeys(Advisory(each).names, each)
            added.append(each["id"])
        elif "ranges" in str(each["affected"]):
            names = sorted((Advisory(known).names | Advisory(each).names) - {known["id"]})
            new = {**each, "id": known["id"], "aliases": names, "summary": known["summary"]}
            new["database_specific"] = each["database_specific"] or known["database_specific"]
            if {**new, "modified": ""} != {**known, "modified": ""}:
                merged[known["id"]] = new
                changed.append(known["id"])
    order = sorted(merged.values(), key=lambda each: (min(Advisory(each).packages), each["modified"], each["id"]))
    return order, added, changed


def records(source: str) -> Iterator[Record]:
    """Every record that a source has, those that were withdrawn left out."""
    for each in _documents(source):
        if not isinstance(each, dict):
            raise ValueError(f"{each!r:.40} is no record")
        found = _of_pip_audit(each) if "dependencies" in each else each.get("vulns", [each])
        yield from (record for record in found if "affected" in record and not record.get("withdrawn"))


def _documents(source: str) -> Iterator[Any]:
    if source.startswith(("http://", "https://")):
        answer = requests.get(source, timeout=60)
        answer.raise_for_status()
        yield from _parsed(source, answer.content)
        return
    place = Path(source)
    files = sorted(file for file in place.rglob("*.json*") if file.is_file()) if place.is_dir() else [place]
    for file in files:
        yield from _parsed(file.name, file.read_bytes())


def _parsed(name: str, content: bytes) -> Iterator[Any]:
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield from (json.loads(archive.read(each)) for each in archive.namelist() if each.endswith(".json"))
    elif name.endswith(".jsonl"):
        yield from (json.loads(line) for line in content.decode().splitlines() if line.strip())
    else:
        found = json.loads(content)
        yield from found if isinstance(found, list) else [found]


def _of_pip_audit(report: Any) -> Iterator[Record]:
    """OSV records of a report: it names the version that was found, and those that mend it."""
    for dependency in report["dependencies"]:
        for each in dependency.get("vulns", ()):
            ends = sorted((end, text) for text in each.get("fix_versions", ()) if (end := number(text)) is not None)
            affected: Record = {"package": {"ecosystem": "PyPI", "name": dependency["name"]}}
            affected["versions"] = [dependency["version"]]
            if ends:
                affected["database_specific"] = {"fixed": ends[0][1]}
            summary = str(each.get("description") or each["id"]).strip().partition("\n")[0]
            yield {"id": each["id"], "aliases": each.get("aliases", []), "summary": summary, "affected": [affected]}


def _kept(record: Record) -> Record:
    """A record with the fields that are used here, and the score of its severest vector."""
    found = {name: record[name] for name in FIELDS if name in record}
    found.setdefault("modified", datetime.date.today().isoformat() + "T00:00:00Z")
    found.setdefault("aliases", [])
    found.setdefault("summary", str(record.get("details", record["id"])).strip().partition("\n")[0])
    word = record.get("database_specific", {}).get("severity")
    said: Record = {"severity": word} if word else {}
    if scores := [score for each in record.get("severity", ()) if (score := _score(each)) is not None]:
        said["cvss"] = max(scores)
    found["database_specific"] = said
    return {name: found[name] for name in (*FIELDS, "database_specific") if name in found}


def _score(severity: Record) -> float | None:
    try:
        return float(_VECTORS[severity["type"]](severity["score"]).scores()[0])
    except (KeyError, CVSSError):
        return None


def _packages(record: Record) -> set[str]:
    return {normal(each["package"]["name"]) for each in record["affected"] if "package" in each}


def _write(file: Path, text: str) -> None:
    aside = file.with_suffix(".new")
    aside.write_text(text)
    aside.replace(file)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
