"""Whose Tandem's secrets are, and who could read or replace them: the files, their folders, and the folders above."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from operations.paths import ETC, VAR
from operations.wire.look import Modes, SecretFolder

#: Below these a deploy puts modes right itself; whatever is above them is the owner's.
OWN = (ETC, VAR)
#: Bits by which others than the owner write.
_WRITE = 0o022
#: Modes of what is one user's alone.
FOLDER, FILE = 0o700, 0o600


@dataclass(frozen=True)
class Wrong:
    """A path that is there, and not as it should be. `problem`: in words; without `remedy` a deploy puts it right."""

    path: Path
    problem: str
    remedy: str = ""
    user: int = 0
    mode: int = 0


def main(folders: list[SecretFolder], mend: bool = False, top: str = "/") -> Modes:
    """`folders`: path; `user`: the number of the user whose it and all files in it are; `where`: a path where it has to
    be. `wrong`: what a deploy puts right, in words; `refused`: [problem, remedy] of what it leaves to the owner.
    `mend`: puts right what is wrong, and says what then still is. `top`: below it everything lies.
    """
    if mend:
        for each in _found(folders, Path(top)):
            if not each.remedy:
                _put_right(each)
    # A folder is above several others.
    found = list(dict.fromkeys(_found(folders, Path(top))))
    return {
        "wrong": [each.problem for each in found if not each.remedy],
        "refused": [[each.problem, each.remedy] for each in found if each.remedy],
    }


def token_problem(path: str, login: int) -> str:
    """What is wrong with the owner's file of the Hub's token, which is root's or the login's; empty: nothing."""
    if not path:
        return ""
    file = Path(path)
    if file.is_symlink():
        return f"{path} is a link: name the file itself"
    if not file.is_file():
        return f"{path} is not there"
    found = file.stat()
    if found.st_mode & 0o077:
        return f"{path} has mode {found.st_mode & 0o777:o}: others can read the token"
    for place in (file, *file.absolute().parents):
        here = place.stat()
        if here.st_uid not in (0, login):
            return f"{place} belongs to {_name(here.st_uid)}, who can replace the token"
        # In a folder like /tmp nobody moves what is another's.
        if place != file and here.st_mode & 0o002 and not here.st_mode & stat.S_ISVTX:
            return f"{place} has mode {here.st_mode & 0o777:o}: anybody can replace the token"
    return ""


def _found(folders: list[SecretFolder], top: Path) -> Iterator[Wrong]:
    for user in {each["user"] for each in folders} - {0}:
        with suppress(KeyError):
            problem = (
                f"the user number {user}, which is for the proxy's containers alone, is {pwd.getpwuid(user).pw_name}'s"
            )
            yield Wrong(top, problem, "give that user another number (usermod --uid)")
    for each in folders:
        folder, user = top / each["path"].lstrip("/"), each["user"]
        if not folder.is_symlink() and not folder.exists():
            if each.get("where") and (top / each["where"].lstrip("/")).is_dir():
                yield Wrong(folder, f"{folder} is not there", user=user, mode=FOLDER)
            continue
        above = [place for place in reversed(folder.parents) if place.is_relative_to(top)]
        if problems := [wrong for place in above if (wrong := _above(place, top))]:
            yield from problems
        # Behind a link lies something else.
        if any(each.remedy for each in problems):
            continue
        if wrong := _own(folder, user, FOLDER):
            yield wrong
        if not wrong or not wrong.remedy:
            yield from filter(None, (_own(file, user, FILE) for file in sorted(folder.iterdir())))


def _above(place: Path, top: Path) -> Wrong | None:
    """A folder above: root's, and written to by nobody else."""
    is_ours = any(place.is_relative_to(top / own.lstrip("/")) for own in OWN)
    found = place.lstat()
    if stat.S_ISLNK(found.st_mode):
        return _link(place)
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == 0 and not mode & _WRITE:
        return None
    who = f"belongs to {_name(found.st_uid)}" if found.st_uid else f"has mode {mode:o}"
    problem = f"{place} {who}: others than root could put their own files in the place of Tandem's"
    remedy = "" if is_ours else f"sudo chown root: {place} && sudo chmod go-w {place}"
    return Wrong(place, problem, remedy, 0, mode & ~_WRITE)


def _own(path: Path, user: int, mode: int) -> Wrong | None:
    """A folder (mode 700) or file (600) that is its user's alone; None: it is, or is gone, or is half written."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if path.suffix == ".part":
        return None
    if stat.S_ISLNK(found.st_mode):
        return _link(path)
    is_folder = mode == FOLDER
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(found.st_mode):
        what = "folder" if is_folder else "file"
        return Wrong(path, f"{path} is no {what}, and lies where Tandem has its own", f"remove it: sudo rm -r {path}")
    problems = []
    if (now := stat.S_IMODE(found.st_mode)) != mode:
        problems.append(f"has mode {now:o}, not {mode:o}")
    if now & 0o044 and not is_folder:
        problems.append("others could read it (without it the next deploy makes another)")
    if (found.st_uid, found.st_gid) != (user, user):
        problems.append(f"belongs to {found.st_uid}:{found.st_gid}, not to {user}:{user}")
    return Wrong(path, f"{path} {', '.join(problems)}", "", user, mode) if problems else None


def _link(path: Path) -> Wrong:
    remedy = f"put what it is a link to in its place (where another disk has it: mount that at {path})"
    return Wrong(path, f"{path} is a link, which says nothing of who can write behind it", remedy)


def _put_right(wrong: Wrong) -> None:
    """Never through a link, which the user of a folder could have made meanwhile."""
    if wrong.mode == FOLDER and not os.path.lexists(wrong.path):
        wrong.path.mkdir(mode=FOLDER, parents=True)
    try:
        opened = os.open(wrong.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        # Replaced meanwhile, by one that is as its writer makes it.
        return
    try:
        os.fchown(opened, wrong.user, wrong.user)
        os.fchmod(opened, wrong.mode)
    finally:
        os.close(opened)


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
