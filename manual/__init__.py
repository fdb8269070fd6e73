"""The manual's generated pages: what the code says of itself, as Markdown."""

from __future__ import annotations

from pathlib import Path

#: The repository.
ROOT = Path(__file__).parent.parent
