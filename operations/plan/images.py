"""Images by name, and the local name under which every node knows the same content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from operations.plan.refusal import Finding, Refusal

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Image:
    """An image of the plan.

    `reference` is what the source calls it, `source` how the head gets it (the knob's text), `local` the tag
    that units use on every node: a digest is known only to nodes that pulled, a tag can be put anywhere.
    """

    role: str
    reference: str
    source: str

    @property
    def kind(self) -> str:
        return self.source.partition(":")[0]

    @property
    def place(self) -> str:
        """The archive's path on the head, or the build folder in this repository."""
        return self.source.partition(":")[2]

    @property
    def archive(self) -> str:
        """The archive's path on the head; empty for what comes from elsewhere."""
        return self.place if self.kind == "archive" else ""

    @property
    def local(self) -> str:
        """`tandem/<role>:<12 hex digits of where it comes from>`."""
        origin = f"{self.reference} {self.source} {self.build_digest}"
        return f"tandem/{self.role}:{hashlib.sha256(origin.encode()).hexdigest()[:12]}"

    @property
    def build_digest(self) -> str:
        """Hash of the build folder's files; empty for what is not built."""
        if self.kind != "build":
            return ""
        digest = hashlib.sha256()
        for name, content in self.build_files():
            digest.update(name.encode() + b"\0" + content)
        return digest.hexdigest()

    def build_files(self) -> list[tuple[str, bytes]]:
        """Names and contents of the build folder; raises Refusal when there is no Dockerfile in it."""
        folder = ROOT / self.place
        if not (folder / "Dockerfile").is_file():
            problem = f"{self.role}_image_from=build:{self.place}: there is no {self.place}/Dockerfile"
            raise Refusal(Finding("data", problem, "name a folder of this repository that has one"))
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return [(str(path.relative_to(folder)), path.read_bytes()) for path in files]
