"""Applies a mod to the packages of an image, or to a source tree: `apply.py MOD.json [ROOT]`.

A step that does not find the text it means to change ends the build, and says which file and line it looked for.
All steps are looked at before the first file is written. What was done is left in RECORDS, and a second run finds
nothing to do.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

RECORDS = Path("/usr/local/share/tandem/mods")


class Refused(Exception):
    """A step that can't be done; the text says where it looked for what."""


def main(mod_file: str, root: str = "") -> list[dict[str, str]]:
    """Applies the mod; returns one record for each step."""
    mod = json.loads(Path(mod_file).read_text())
    place = Path(root or sysconfig.get_paths()["purelib"])
    records, writes = [], dict[Path, str]()
    for step in mod["steps"]:
        if "package" in step:
            records.append(install(step, place, root))
    for step in mod["steps"]:
        if "old" in step:
            path = place / step["file"]
            done, text = replace(mod["name"], step, place, writes.get(path))
            if done == "applied":
                writes[path] = text
            records.append({"step": step["name"], "file": step["file"], "done": done})
    for path, text in writes.items():
        write(path, text)
    for record in records:
        if record.get("file") and (place / record["file"]).is_file():
            record["sha256"] = hashlib.sha256((place / record["file"]).read_bytes()).hexdigest()
    return records


def install(step: dict[str, Any], place: Path, root: str) -> dict[str, str]:
    """Installs a package by hash, unless this version or a later one is there."""
    found = installed(step["package"], place, root)
    done = "upstream" if found and version(found) >= version(step["version"]) else "applied"
    if found == step["version"]:
        done = "already"
    if done == "applied":
        line = f"{step['package']}=={step['version']}"
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as lock:
            lock.write(f"{line} {' '.join(f'--hash=sha256:{each}' for each in step['sha256'])}\n")
            lock.flush()
            argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", lock.name]
            argv += ["--target", str(place)] if root else []
            if subprocess.run(argv, check=False).returncode:
                raise Refused(f"{step['name']}: pip can't install {line}")
    return {"step": step["name"], "package": step["package"], "version": found or step["version"], "done": done}


def installed(package: str, place: Path, root: str) -> str:
    """The version of a package that is there; empty: none."""
    found = importlib.metadata.distributions(name=package, path=[str(place)] if root else sys.path)
    return next((each.version for each in found), "")


def version(text: str) -> tuple[int, ...]:
    """The numbers of a version, to compare."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def replace(mod: str, step: dict[str, Any], place: Path, written: str | None) -> tuple[str, str]:
    """`applied` and the new text, `already` (this mod did it before) or `upstream` (the file does it by itself)."""
    for other in step.get("upstream", []):
        path = place / other["file"]
        if path.is_file() and other["text"] in path.read_text():
            return "upstream", ""
    path = place / step["file"]
    if written is None and not path.is_file():
        near = sorted(each.name for each in path.parent.glob(f"{path.stem[:12]}*")) if path.parent.is_dir() else []
        beside = f"; beside it is {', '.join(near)}" if near else ""
        raise Refused(
            f"mod {mod}, {step['name']}: looked for line {step['line']} of {step['file']}: no such file{beside}"
        )
    text = path.read_text() if written is None else written
    old, new = step["old"], step["new"]
    if text.count(new) == 1 and text.replace(new, "").count(old) == 0:
        return "already", text
    if text.count(old) == 1:
        return "applied", text.replace(old, new)
    raise Refused(f"mod {mod}, {step['name']}: {_differs(step, text)}")


def _differs(step: dict[str, Any], text: str) -> str:
    lines = text.splitlines()
    wanted = step["old"].splitlines()[0].strip()
    at = step["line"]
    there = lines[at - 1].strip() if at <= len(lines) else "(the file ends before it)"
    message = f"looked in {step['file']}, line {at}, for `{wanted}`; found `{there}`"
    if count := text.count(step["old"]):
        return f"{message}; the text is there {count} times, once was expected"
    close = difflib.get_close_matches(wanted, [line.strip() for line in lines], n=1, cutoff=0.5)
    where = next((i for i, line in enumerate(lines, 1) if close and line.strip() == close[0]), 0)
    return f"{message}; the nearest is line {where}: `{close[0]}`" if close else message


def write(path: Path, text: str) -> None:
    """Aside, then renamed, with the file's mode."""
    aside = path.with_name(f".{path.name}.tandem-new")
    aside.write_text(text)
    os.chmod(aside, path.stat().st_mode)
    aside.replace(path)
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


if __name__ == "__main__":
    try:
        made = main(*sys.argv[1:])
    except Refused as refused:
        sys.exit(str(refused))
    for each in made:
        print(f"{each['step']}: {each['done']}")
    if len(sys.argv) == 2:
        RECORDS.mkdir(parents=True, exist_ok=True)
        (RECORDS / f"{Path(sys.argv[1]).parent.name}.json").write_text(json.dumps(made, indent=1))
