"""docs/messages.md: what Tandem says when something is wrong, what it means, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from manual import shell, sites
from manual.groups import GROUPS, place
from manual.modules import ROOT
from manual.sites import Message
from manual.texts import escaped

HEAD = """# Messages

Made of Tandem's code by `make manual-pages`: every refusal and every failure, in the words that it is said in.

`<name>` stands for what only the run knows. `a | b`: one of them is said. `[a]`: it may be left out. Search the page
for a few words of a message that do not look like data. Behind an arrow is what helps; where there is none the message
says it itself, or the words under the heading do. A remark is shown, and nothing is refused for it. What can't be found
here is said by Docker, vLLM, the Hub or the kernel, and quoted.
"""
#: The beginning of a message that frames another one: no word in it can be searched for.
_DATA = re.compile(r"<[^<>]*> <")
#: What runs on the controller, on nodes, and in containers.
FOLDERS = ("operations", "bench", "files")


def page() -> str:
    """The whole page."""
    found: dict[tuple[str, str], list[Message]] = {}
    for message in every():
        group, heading = place(message.path)
        found.setdefault((group.title, heading), []).append(message)
    lines = [HEAD]
    for group in GROUPS:
        lines += [f"## {group.title}\n", f"{group.intro}\n"]
        for heading in group.parts:
            if messages := found.get((group.title, heading)):
                lines += [f"### {heading}\n", *_list(messages), ""]
    return "\n".join(lines).rstrip() + "\n"


def every() -> Iterator[Message]:
    """Every message of every file."""
    for folder in FOLDERS:
        for path in sorted(Path(ROOT / folder).rglob("*.py")):
            yield from sites.messages(str(path.relative_to(ROOT)))
    for script in shell.scripts():
        yield from shell.messages(script)


def _list(messages: list[Message]) -> list[str]:
    """Each once, in the order of the code; last those that begin with nothing but what a run knows."""
    return list(dict.fromkeys(map(_line, sorted(messages, key=lambda each: bool(_DATA.match(each.text))))))


def _line(message: Message) -> str:
    text = f"- {'Remark: ' * message.is_remark}{escaped(message.text)}"
    text += f"<br>It means: {escaped(message.means)}" if message.means else ""
    return text + (f"<br>→ {escaped(message.remedy)}" if message.remedy else "")
