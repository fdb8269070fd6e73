"""Whose node this is: the login's, though programs run as root."""

from __future__ import annotations

import os


def expand(path: str) -> str:
    """~ is the home of whoever logged in, not root's."""
    return home() + path[1:] if path.startswith("~/") else path


def home() -> str:
    """The login's home; programs run under sudo, which says whose it was."""
    return os.path.expanduser(f"~{os.environ.get('SUDO_USER', '')}")
