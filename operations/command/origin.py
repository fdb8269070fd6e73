"""Where this Tandem is from: the clone that it runs from or was installed from, and what stands in an upgrade's way."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from operations.command.at import ROOT
from operations.command.version import DISTRIBUTION
from operations.plan.config.refusal import Finding, Refusal

#: What a node can notice of a newer Tandem: the parts of the package, but for an owner's own files.
_PARTS = ("operations", "bench", "files", "config.py", "deploy.py", "requirements.lock")
#: What each installer leaves in the environment that it has made, and how it makes it anew.
_TOOLS = {"uv-receipt.toml": "uv tool install --force", "pipx_metadata.json": "pipx install --force"}
#: Seconds for git, which reads this machine alone.
_GIT_S = 20
#: Hex digits of a commit.
_DIGITS = 12
#: Names of files that are listed.
_MOST = 3


def check(root: Path = ROOT) -> list[str]:
    """Remarks about the clone, a line each; none where there is no clone. Raises Refusal where it is in the midst of a
    merge, or where another Tandem than its own is installed.
    """
    clone = root if (root / "pyproject.toml").is_file() else installed_from()
    if clone is None:
        return []
    said = _status(clone)
    if torn := [line.split(" ", 10)[-1] for line in said if line.startswith("u ")]:
        problem = f"{_several(torn)} in {clone} has both sides of a merge"
        raise Refusal(Finding("upgrade", problem, f"`git -C {clone} status` says how to settle it, or to go back"))
    if clone != root and _differs(clone, root):
        problem = f"{clone} has another Tandem than the one that is installed"
        remedy = install(str(clone), with_plots=importlib.util.find_spec("matplotlib") is not None)
        raise Refusal(Finding("upgrade", problem, f"{remedy}, then say it again"))
    return list(_remarks(clone, said))


def install(source: str, with_plots: bool) -> str:
    """What installs this Tandem anew, by the tool that did; both where that can't be told. `with_plots`: with what
    `tandem report` needs, which an installation without it would take away.
    """
    if with_plots:
        name, at, url = source.partition(" @ ")
        source = f"{name}[bench]{at}{url}"
    ways = [f"`{words} {shlex.quote(source)}`" for file, words in _TOOLS.items() if (Path(sys.prefix) / file).is_file()]
    both = [f"`{words} {shlex.quote(source)}`" for words in _TOOLS.values()]
    return ways[0] if ways else f"{both[0]} (or {both[1]})"


def source() -> str:
    """What this package was installed from, as its installer takes it: the clone, or a repository's URL."""
    if clone := installed_from():
        return str(clone)
    told = _told()
    repository, url = told.get("vcs_info", {}), told.get("url", "")
    if not repository.get("vcs") or not url:
        return "./tandem"
    pin = f"@{repository['commit_id']}" if "commit_id" in repository else ""
    return f"{DISTRIBUTION} @ {repository['vcs']}+{url}{pin}"


def installed_from() -> Path | None:
    """The clone of which the package was made (PEP 610); None where that is not known, or is not there any more."""
    try:
        url = urlsplit(str(_told().get("url", "")))
    except ValueError:
        return None
    place = Path(unquote(url.path))
    return place if url.scheme == "file" and (place / "operations").is_dir() else None


def _told() -> dict[str, Any]:
    """What the installer has noted of where the package is from (PEP 610); empty where it has noted nothing."""
    try:
        told = json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def commit(root: Path = ROOT) -> str:
    """The commit that this Tandem is of, with `+` where files of the clone differ from it. Empty where nobody knows: it
    was not installed from a repository's URL, and its clone is gone or has another Tandem by now.
    """
    if (root / "pyproject.toml").is_file():
        return _described(root)
    if told := str(_told().get("vcs_info", {}).get("commit_id", "")):
        return told[:_DIGITS]
    clone = installed_from()
    return _described(clone) if clone and not _differs(clone, root) else ""


def _status(clone: Path) -> list[str]:
    """Lines of `git status` for programs. Empty where the folder is no repository, or git is not installed."""
    return _git(clone, "status", "--porcelain=v2", "--branch", "--untracked-files=no")


def _described(clone: Path) -> str:
    """Empty where the folder is no repository, or lies in somebody else's."""
    if not (clone / ".git").exists():
        return ""
    return "".join(_git(clone, "describe", "--always", f"--abbrev={_DIGITS}", "--dirty=+", "--exclude=*"))


def _git(clone: Path, *words: str) -> list[str]:
    """Lines of what git says there; none where it can't be run."""
    try:
        argv = ["git", "-C", str(clone), *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=_GIT_S).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return []


def _remarks(clone: Path, said: list[str]) -> Iterator[str]:
    about = {words[1]: words[2] for line in said if len(words := line.split(" ", 2)) == 3 and words[0] == "#"}
    edited = [line.split(" ", 8)[-1].split("\t")[0] for line in said if line.startswith(("1 ", "2 "))]
    if about.get("branch.head") == "(detached)":
        yield f"{clone} stands at {about['branch.oid'][:12]}, on no branch: `git switch main` there, before `git pull`"
    behind = about.get("branch.ab", "").partition("-")[2]
    if behind not in ("", "0"):
        commits = "a commit that is" if behind == "1" else f"{behind} commits that are"
        yield f"{clone} lacks {commits} fetched already: `git -C {clone} pull`"
    if edited:
        verb = "is" if len(edited) == 1 else "are"
        keeping = "`git stash`, `git pull`, `git stash pop`"
        yield f"{_several(edited)} in {clone} {verb} edited: where `git pull` refuses, {keeping}"


def _several(names: list[str]) -> str:
    return ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")


def _differs(one: Path, other: Path) -> bool:
    return any(_bytes(one / part) != _bytes(other / part) for part in _PARTS)


def _bytes(place: Path) -> dict[str, bytes]:
    """The content of a file, or of each file in a folder by its path there; what is not Tandem's is left out: compiled
    Python, and what macOS notes of a folder that was opened.
    """
    files = [place] if place.is_file() else [each for each in place.rglob("*") if each.is_file()]
    mine = (each for each in files if "__pycache__" not in each.parts and each.name != ".DS_Store")
    return {str(each.relative_to(place)): each.read_bytes() for each in mine}
