"""The client programs, pinned, and where they lie: each beside the others, below `.venv-clients`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.plan.samples import ROOT

HOME = ROOT / ".venv-clients"
#: From npm, into one folder.
NODE = {
    "openai": "7.57.0",
    "@anthropic-ai/sdk": "1.14.0",
    "@anthropic-ai/claude-code": "2.1.197",
    "@openai/codex": "0.171.0",
    "opencode-ai": "1.18.33",
}
#: From PyPI, each into an environment of its own: what they want beside them differs.
PYTHON = {
    "openai": "3.57.0",
    "anthropic": "2.14.0",
    "langchain-openai": "1.7.4",
    "langchain-anthropic": "1.7.10",
    "aider-chat": "0.86.2",
}


def node(program: str) -> str:
    """A program of npm's."""
    return str(HOME / "npm/node_modules/.bin" / program)


def python(package: str, program: str = "python") -> str:
    """A program of the environment that a package lies in."""
    return str(HOME / package / "bin" / program)


def install() -> None:
    """What is not there in this version yet. Raises CalledProcessError."""
    HOME.mkdir(exist_ok=True)
    (HOME / "npm").mkdir(exist_ok=True)
    wanted = [f"{package}@{version}" for package, version in NODE.items()]
    _once("npm", wanted, ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(HOME / "npm"), *wanted])
    # npm leaves out what a package does behind its own installation.
    _once("claude", wanted, ["node", "install.cjs"], HOME / "npm/node_modules/@anthropic-ai/claude-code")
    for package, version in PYTHON.items():
        if not Path(python(package)).exists():
            subprocess.run([sys.executable, "-m", "venv", str(HOME / package)], check=True)
        pip = [python(package), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _once(package, [version], [*pip, f"{package}=={version}"])


def _once(name: str, versions: list[str], argv: list[str], folder: Path = ROOT) -> None:
    """Run it, where it has not run for these versions."""
    done = HOME / f"{name}.installed"
    if done.exists() and done.read_text().split() == versions:
        return
    print(f"installing {' '.join(versions)}", file=sys.stderr, flush=True)
    subprocess.run(argv, cwd=folder, check=True, stdout=sys.stderr)
    done.write_text("\n".join(versions))
