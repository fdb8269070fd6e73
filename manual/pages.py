"""Which files are generated, and by what."""

from __future__ import annotations

from collections.abc import Callable

from manual import answers, knobs, messages

#: What is written into a file, by its path in the repository.
PAGES: dict[str, Callable[[], str]] = {
    "docs/knobs.md": knobs.page,
    "docs/messages.md": messages.page,
    "docs/prove.md": answers.page,
    "group_data/all.py": knobs.group_data,
}
