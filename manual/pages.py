"""Which pages are generated, and by what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from manual import knobs, messages

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

PAGES: dict[str, Callable[[], str]] = {"knobs.md": knobs.page, "messages.md": messages.page}
