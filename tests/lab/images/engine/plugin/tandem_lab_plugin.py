"""The entry point alone: it is called while vLLM is still being imported, and must not import it in turn."""

from __future__ import annotations


def register() -> str:
    """The class that vLLM shall use as its platform."""
    return "tandem_lab_platform.LabPlatform"
