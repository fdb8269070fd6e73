"""`make imports`: draw which room imports which, and say what else is counted of the code."""

from __future__ import annotations

import sys

from manual import ROOT
from manual.drawing import drawing
from manual.rooms import faults, modules

PICTURE = ROOT / "docs/assets/imports.svg"
_LOOSE = "dict[str, Any]"


def counted() -> list[str]:
    """The longest file, and how often something has no type but the loosest."""
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in modules().values()}
    longest = max(texts, key=lambda path: (texts[path].count("\n"), path))
    loose = {path: text.count(_LOOSE) for path, text in texts.items() if not path.startswith(("tests/", "manual/"))}
    tests = sum(text.count(_LOOSE) for path, text in texts.items() if path.startswith("tests/"))
    return [
        f"longest file: {longest}, {texts[longest].count(chr(10))} lines",
        f"{_LOOSE}: {sum(loose.values())}, and {tests} in tests/",
    ]


if __name__ == "__main__":
    # A circle can't be drawn.
    if found := faults():
        sys.exit("\n".join(found))
    PICTURE.write_text(drawing())
    print(f"drawn: {PICTURE.relative_to(ROOT)}", *counted(), sep="\n")
