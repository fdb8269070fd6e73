"""`tandem recipes --fetch URL@COMMIT`: a public repository, at one commit, into the user's cache; mods are found there.

It is fetched under another name, its commit is compared, and then it is renamed: what was broken off is never taken
for the repository. A second fetch of the same commit at the same time waits for the first.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from operations.plan.config.refusal import Finding, Refusal
from operations.plan.recipes.repositories import place

#: Seconds: such a repository is a few MB.
PATIENCE_S = 300


def fetch(wanted: str) -> Path:
    """The repository `URL@COMMIT`, fetched unless it is here; raises Refusal."""
    url, commit = parts(wanted)
    there = place(url, commit)
    there.parent.mkdir(parents=True, exist_ok=True)
    with (there.parent / f".{there.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if there.is_dir():
            return there
        aside = there.parent / f".{there.name}.part"
        # Of a fetch that was killed: nobody else holds the lock.
        shutil.rmtree(aside, ignore_errors=True)
        try:
            _git(url, "init", "--quiet", str(aside))
            _git(url, "-C", str(aside), "fetch", "--quiet", "--depth", "1", "--no-tags", "--", url, commit)
            _git(url, "-C", str(aside), "checkout", "--quiet", "--detach", "FETCH_HEAD")
            got = _git(url, "-C", str(aside), "rev-parse", "HEAD").strip()
            if got != commit:
                raise _refused(f"{url} gave the commit {got}", f"ask for a commit, not for a tag: `{url}@{got}`")
            aside.rename(there)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return there


def newest(url: str) -> str:
    """The commit that a repository's HEAD is at; raises Refusal."""
    commit = _git(url, "ls-remote", "--", url, "HEAD").partition("\t")[0]
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise _refused(f"{url} has no commit yet", "name another repository")
    return commit


def parts(wanted: str) -> tuple[str, str]:
    """The URL and the commit of `URL@COMMIT`; raises Refusal."""
    url, _, commit = wanted.strip().rpartition("@")
    if not re.fullmatch(r"(?:https|file)://[^\s@]+", url) or "/" in commit:
        # Not repeated: a URL may have a password in it, and what stands behind the last @ may be the host.
        raise _refused("that is no public repository at a commit", "write https://HOST/OWNER/NAME@COMMIT, no login")
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        newest = f"`git ls-remote {url} HEAD` says the newest"
        raise _refused(f"`{commit}` is no commit of 40 hex digits", newest)
    return url, commit


def _git(url: str, *words: str) -> str:
    # Nobody is there to be asked for a password.
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "1"}
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        env.pop(name, None)
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=PATIENCE_S, env=env, check=False)
    except FileNotFoundError:
        raise _refused("git is not here", "install git") from None
    except subprocess.TimeoutExpired:
        raise _refused(f"{url} has not been fetched in {PATIENCE_S} s", "try again, or clone it yourself") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"git ended with {done.returncode}"]
        why = next((line for line in said if line.startswith(("fatal:", "error:"))), said[-1])
        if re.search("not our ref|unadvertised object|find remote ref", done.stderr):
            raise _refused(f"{url} has no commit {words[-1]}", f"`git ls-remote {url} HEAD` says the newest")
        if re.search("not a git repository|not appear to be a git repository|[Rr]epository .*not found", done.stderr):
            raise _refused(f"{url} is no git repository, or is there no more", "name the URL that it has now")
        raise _refused(f"{url} can't be fetched: {why}", "is the network there, and has it this commit?")
    return done.stdout


def _refused(problem: str, remedy: str) -> Refusal:
    return Refusal(Finding("fetch", problem, remedy))


def main(wanted: str) -> int:
    """Says where it lies; 1 when it could not be fetched, 2 for what is no URL@COMMIT."""
    code = 2
    try:
        parts(wanted)
        code = 1
        print(f"{wanted} is in {fetch(wanted)}")
    except Refusal as refusal:
        for finding in refusal.findings:
            print(f"{finding.problem}; {finding.remedy}", file=sys.stderr)
        return code
    except OSError as error:
        print(f"{error.filename} can't be written: {error.strerror}; XDG_CACHE_HOME= names another", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
