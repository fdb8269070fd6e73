"""What the programs on the nodes and the controller tell each other: the shapes of it, one file for each room.

They travel with the programs (operations/runner/remote.py): the standard library is all that they may import.
"""

from __future__ import annotations

from typing import Any

#: JSON or YAML whose keys are somebody else's to name: Docker's words, an engine's answer, a recipe of another tool, a
#: configuration of LiteLLM's. What Tandem itself writes has a shape of its own.
Json = dict[str, Any]
