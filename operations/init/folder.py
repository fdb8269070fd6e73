"""An owner's folder: read as it is, and written as a whole or not at all.

Only what is asked changes: a line that an owner has written stays, with its comments.
"""

from __future__ import annotations

import ast
import os
import pprint
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operations.init.listed import listed
from operations.init.login import Login, check_once, parse
from operations.plan.config.refusal import Finding, Refusal

INVENTORY, KNOBS, IGNORE = "inventory.py", "group_data/all.py", ".gitignore"
INVENTORY_HEAD = '"""Your Sparks, the head first. Edit it as you like: `tandem init` keeps your lines."""\n'
KNOBS_HEAD = '''"""What differs from the defaults (docs/knobs.md in the clone). `tandem init` keeps your lines."""

# Tandem changes a node as root: the login needs sudo without a password.
_sudo = True
'''
IGNORED = ("__pycache__/", "pyinfra-debug.log", "/tandem-ca.crt", "/bench-runs/", "/sbom/", "*.token", "*.password")
#: What may lie in a folder that nobody else uses.
_HARMLESS = (".", "README", "LICENSE")
WIDTH = 120


@dataclass(frozen=True)
class Owned:
    """What is in the folder: `texts` of the files that are there, the logins, and what knobs are set to."""

    path: Path
    texts: Mapping[str, str]
    logins: tuple[Login, ...] = ()
    knobs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        """Whether nothing of an owner's is there yet."""
        return INVENTORY not in self.texts


def owned(path: Path) -> Owned:
    """Reads a folder that is there, or is to be. Raises Refusal where it is somebody else's, or can't be read."""
    texts: dict[str, str] = {}
    try:
        path = path.expanduser().absolute()
        _check(path)
        for name in (INVENTORY, KNOBS, IGNORE):
            if (path / name).exists():
                texts[name] = (path / name).read_text()
    # A home that nobody has is a RuntimeError.
    except (OSError, RuntimeError, UnicodeDecodeError) as error:
        why = "it is no text" if isinstance(error, UnicodeError) else getattr(error, "strerror", None) or str(error)
        where = getattr(error, "filename", None) or path
        raise Refusal(Finding(str(path), f"{where} can't be read: {why}", "name a folder of your own")) from None
    logins = logins_of(path / INVENTORY, texts[INVENTORY]) if INVENTORY in texts else ()
    return Owned(path, texts, logins, _literals(path / KNOBS, texts.get(KNOBS, "")))


def _check(path: Path) -> None:
    own = "name a folder of your own: tandem init ~/sparks"
    if path.exists() and not path.is_dir():
        raise Refusal(Finding(str(path), "is a file", own))
    if (path / "operations").is_dir() and (path / "deploy.py").is_file():
        raise Refusal(Finding(str(path), "is Tandem's own, and an upgrade writes there", own))
    there = path
    while not there.exists():
        there = there.parent
    if not os.access(there, os.W_OK | os.X_OK):
        raise Refusal(Finding(str(path), "is not yours to write", own))
    others = sorted(each.name for each in path.iterdir()) if path.is_dir() else []
    others = [name for name in others if not name.startswith(_HARMLESS)]
    if others and INVENTORY not in others:
        more = ", ..." if len(others) > 3 else ""
        raise Refusal(Finding(str(path), f"has other things in it ({', '.join(others[:3])}{more})", own))


def logins_of(file: Path, text: str) -> tuple[Login, ...]:
    """The nodes of an inventory; raises Refusal where they are not a plain list."""
    nodes = _literals(file, text).get("nodes")
    remedy = 'it wants nodes = [("spark-1.local", {}), ...]; or name another folder'
    if not isinstance(nodes, list):
        raise Refusal(Finding(str(file), "has no plain list `nodes`, so it can't be changed here", remedy))
    found = []
    for each in nodes:
        name, data = each if isinstance(each, tuple) and len(each) == 2 else (each, {})
        if not isinstance(name, str) or not isinstance(data, dict):
            raise Refusal(Finding(str(file), f"has {each!r} among its nodes", remedy))
        login = parse(name)
        port = data.get("ssh_port") or login.port
        if not str(port).isdecimal() or not 0 < int(port) < 65536:
            raise Refusal(Finding(str(file), f"has ssh_port {port!r} for {name}", "a port is a number up to 65535"))
        rest = {key: value for key, value in data.items() if key not in ("ssh_hostname", "ssh_user", "ssh_port")}
        found.append(
            Login(
                login.name,
                str(data.get("ssh_user") or login.user),
                str(data.get("ssh_hostname") or ""),
                int(port),
                tuple(rest.items()),
            )
        )
    check_once(found)
    return tuple(found)


def _assignments(file: Path, text: str) -> Iterator[tuple[str, ast.Assign]]:
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        problem = f"is no Python (line {error.lineno}: {error.msg})"
        raise Refusal(Finding(str(file), problem, "correct that line, or take the file away")) from None
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node


def _literals(file: Path, text: str) -> dict[str, Any]:
    """What names are set to, where that is a plain value."""
    found: dict[str, Any] = {}
    for name, node in _assignments(file, text):
        try:
            found[name] = ast.literal_eval(node.value)
        # `{[]: 1}` is a TypeError.
        except (ValueError, TypeError):
            continue
    return found


def inventory(before: Owned, logins: Sequence[Login]) -> str:
    """The text of inventory.py with these nodes; all else of it stays, comments in the list of nodes too."""
    if tuple(logins) == before.logins:
        return before.texts[INVENTORY]
    text = before.texts.get(INVENTORY, INVENTORY_HEAD)
    value = listed(before.logins, logins, [_entry(*login.entry()) for login in logins], text)
    return _set(before.path / INVENTORY, text, "nodes", value, "")


def _entry(name: str, data: Mapping[str, Any]) -> str:
    return f'("{name}", {_plain(dict(data))})'


def knobs(before: Owned, wanted: Mapping[str, tuple[Any, str]]) -> str:
    """The text of group_data/all.py: `wanted` are value and comment of each knob that was asked for."""
    text = before.texts.get(KNOBS, KNOBS_HEAD)
    for name, (value, comment) in wanted.items():
        if name not in before.knobs or before.knobs[name] != value:
            text = _set(before.path / KNOBS, text, name, _plain(value), comment)
    return text


def _plain(value: Any) -> str:
    """A literal as ruff would have it."""
    text = pprint.pformat(value, width=WIDTH, compact=True, sort_dicts=False)
    return text.replace("'", '"') if '"' not in text and "\\" not in text else text


def _set(file: Path, text: str, name: str, value: str, comment: str) -> str:
    """`text` with `name = value`: in the place of the last assignment, else at the end, behind its comment."""
    nodes = [node for each, node in _assignments(file, text) if each == name]
    if not nodes:
        said = f"# {comment}\n" if comment else ""
        return f"{text.rstrip()}\n\n{said}{name} = {value}\n"
    # Python counts lines by \n alone: a form feed ends none.
    node, lines = nodes[-1], [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before = lines[first].encode()[: node.col_offset].decode()
    rest = lines[last].encode()[node.end_col_offset or 0 :].decode()
    # A comment of one line above it is about the value before; a longer one is the owner's.
    above = [line.startswith("#") for line in ("\n", "\n", *lines[:first])][-2:]
    if comment and above == [False, True]:
        lines[first - 1] = f"# {comment}\n"
    return "".join([*lines[:first], f"{before}{name} = {value}{rest}", *lines[last + 1 :]])


def ignored(before: Owned) -> str:
    """The text of .gitignore, with what is missing in it at its end."""
    text = before.texts.get(IGNORE, "")
    missing = [line for line in IGNORED if line not in text.splitlines()]
    ended = text if not text or text.endswith("\n") else f"{text}\n"
    return ended + "".join(f"{line}\n" for line in missing)


def write(before: Owned, texts: Mapping[str, str]) -> list[str]:
    """Writes what differs, aside first, and renames it; gives the names of the files. Ctrl-C comes before or after.

    Raises Refusal where the disk takes nothing.
    """
    changed = [name for name, text in texts.items() if before.texts.get(name) != text]
    if not changed:
        return []
    path = before.path
    is_made = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".tandem-init-", dir=path.parent if is_made else path))
        try:
            _write_aside(aside, {name: texts[name] for name in (texts if is_made else changed)})
            for name in set(changed) & set(before.texts):
                # What others may not read stays so: an inventory can have a password in it.
                shutil.copymode(path / name, aside / name)
            with _undisturbed():
                if is_made:
                    aside.chmod(0o755)
                    os.rename(aside, path)
                else:
                    (path / "group_data").mkdir(exist_ok=True)
                    for name in changed:
                        os.replace(aside / name, path / name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise Refusal(Finding(str(path), f"can't be written: {error.strerror}", "nothing was changed there")) from None
    return changed


def _write_aside(aside: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        (aside / name).parent.mkdir(exist_ok=True)
        with open(aside / name, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A Ctrl-C meanwhile is kept for afterwards: renames take microseconds, and half of them would be half a folder."""
    kept: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: kept.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if kept:
        raise KeyboardInterrupt
