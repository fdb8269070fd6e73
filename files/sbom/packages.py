"""The packages in an image: `python3 packages.py [ROOT]` prints them as JSON.

Runs in the image, without a network and without an import of what it lists: Debian's and Alpine's own records, and the
metadata of every Python distribution, also of environments that this Python does not import from.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

#: Where Python's packages lie, beside what this Python imports from.
PLACES = (
    "usr/lib/python3*/*-packages",
    "usr/local/lib/python3*/*-packages",
    "opt/*/lib/python3*/site-packages",
    "opt/lib/python3*/site-packages",
    "root/.venv/lib/python3*/site-packages",
    "workspace/.venv/lib/python3*/site-packages",
)


def main(root: str = "/") -> dict[str, object]:
    """`system`: of /etc/os-release; `deb`, `apk`, `python`: name, version, and where each says it is from."""
    top = Path(root)
    return {
        "system": dict(re.findall(r'^(\w+)="?(.*?)"?$', text(top / "etc/os-release"), re.MULTILINE)),
        "deb": list(debian(top)),
        "apk": [
            {"name": name, "version": version}
            for name, version in re.findall(r"^P:(.+)\nV:(.+)$", text(top / "lib/apk/db/installed"), re.MULTILINE)
        ],
        "python": sorted(python(top), key=lambda each: (each["name"].lower(), each["version"], each["place"])),
    }


def debian(top: Path) -> Iterator[dict[str, str]]:
    """Installed packages; distroless images keep a file for each."""
    records = [top / "var/lib/dpkg/status", *sorted((top / "var/lib/dpkg/status.d").glob("*"))]
    for record in records:
        if record.suffix == ".md5sums":
            continue
        for stanza in text(record).split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version|Architecture|Status): (.+)$", stanza, re.MULTILINE))
            if {"Package", "Version"} <= fields.keys() and fields.get("Status", "ok installed").endswith("installed"):
                yield {
                    "name": fields["Package"],
                    "version": fields["Version"],
                    "architecture": fields.get("Architecture", ""),
                }


def python(top: Path) -> Iterator[dict[str, str]]:
    """Every distribution once for each place."""
    places = {place for pattern in PLACES for place in top.glob(pattern)}
    if top == Path("/"):
        places |= {Path(place) for place in sys.path if place}
    for place in sorted(places):
        for folder in sorted([*place.glob("*.dist-info"), *place.glob("*.egg-info")]):
            said = text(folder / "METADATA") or text(folder / "PKG-INFO") or (text(folder) if folder.is_file() else "")
            fields = dict(re.findall(r"^(Name|Version): (.+)$", said.partition("\n\n")[0], re.MULTILINE))
            if {"Name", "Version"} <= fields.keys():
                where = str(place if top == Path("/") else Path("/") / place.relative_to(top))
                yield {"name": fields["Name"].strip(), "version": fields["Version"].strip(), "place": where}


def text(path: Path) -> str:
    """A file's text; empty: it is not there, or can't be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
