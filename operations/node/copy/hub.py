"""A download from the Hub on the head: its own client, in the engine's container, watched from outside."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from operations.node import beats
from operations.node.commands import open_files
from operations.node.copy.disk_space import fits
from operations.node.copy.meter import Meter
from operations.node.model import mend, proof
from operations.paths import DOWNLOAD
from operations.shapes.model import Copied, ModelFile

RUN = ["docker", "run", "--name", DOWNLOAD]
#: Seconds between two looks at how much has arrived.
LOOK_EVERY_S = 1


def main(
    argv: list[str], script: str, store: str, folder: str, revision: str, owner: str, kind: str = "model"
) -> Copied:
    """Run `argv` (which gets `script` on its standard input, prints the Hub's manifest as its first line and then
    downloads into `store`), say how far it is, and prove that what came is what the Hub has.

    `owner`: a path whose owner gets what was made, also when it broke off.
    """
    repo = Path(store) / folder
    remove()
    beats.watch(remove)
    _take_away_left_overs(repo)
    process = subprocess.Popen(
        [*RUN, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    errors: list[str] = []
    assert process.stdin and process.stdout and process.stderr
    listener = threading.Thread(target=errors.extend, args=[process.stderr])
    listener.start()
    try:
        process.stdin.write(script)
        process.stdin.close()
        files = _manifest(process.stdout)
        meter = _follow(process, repo, sum(entry["size"] for entry in files.values()))
    except BrokenPipeError:
        meter, files = Meter(), {}
    except OSError as error:
        return {"error": str(error)}
    finally:
        process.terminate()
        remove()
        process.wait()
        listener.join()
        _give(owner, [repo, repo.parent / ".locks", repo.parent / "CACHEDIR.TAG"])
    if process.returncode:
        return {"error": errors[-1].strip() if errors else f"docker run ended with {process.returncode}"}
    if not files:
        return {"error": "the Hub's client did not say what it would download"}
    proof.expect_only(repo / "snapshots" / revision, files)
    if wrong := _unlike(files, repo / "snapshots" / revision) or _bad(store, folder, revision, kind):
        return {"error": f"what came is not what the Hub has: {', '.join(wrong)}; run the deploy again"}
    return {"done": True, **meter.state()}


def _manifest(said: IO[str]) -> dict[str, ModelFile]:
    """What the Hub has: the first line of JSON, whatever a library prints before it; empty when none comes."""
    for line in said:
        if line.startswith("{"):
            found: dict[str, ModelFile] = json.loads(line)
            return found
    return {}


def _follow(process: subprocess.Popen[str], repo: Path, total: int) -> Meter:
    """Until the container ends. Raises OSError when what is to come does not fit."""
    begun = _bytes(repo)
    fits(repo, total - begun)
    meter = Meter(max(0, total - begun), leg="Hub")
    while process.poll() is None:
        time.sleep(LOOK_EVERY_S)
        meter.reach(max(0, _bytes(repo) - begun))
    return meter


def _bytes(repo: Path) -> int:
    """What has arrived, whole files and others; a file may get its name while it is counted."""
    total = 0
    for file in repo.glob("blobs/*"):
        try:
            total += file.stat().st_size if file.suffix != ".broken" else 0
        except OSError:
            continue
    return total


def _take_away_left_overs(repo: Path) -> None:
    """The client (huggingface_hub 2) begins every file anew under a name of its own, and leaves it when killed."""
    left = {str(file) for file in repo.glob("blobs/*") if re.search(r"\.[0-9a-f]{8}\.incomplete$", file.name)}
    for path in left - open_files() if left else ():
        Path(path).unlink(missing_ok=True)


def _unlike(files: dict[str, ModelFile], snapshot: Path) -> list[str]:
    """Names that are not here with the size and the hash that the Hub has for them."""
    here = proof.manifest(snapshot)
    return sorted(name for name, entry in files.items() if here.get(name) != entry)


def _bad(store: str, folder: str, revision: str, kind: str) -> list[str]:
    """Names of files whose content is not what their name says: the client looks at sizes alone. They are set aside."""
    state = proof.main(store, folder, revision, kind, prove=True)
    return list(mend.main(store, folder, revision, kind)["aside"]) if state["problems"] else []


def _give(owner: str, made: list[Path]) -> None:
    """Root in the container can read the token; what it wrote is the login's."""
    there = [str(path) for path in made if path.exists()]
    subprocess.run(["chown", "-R", "--reference", owner, *there], stderr=sys.stderr, check=False)


def remove() -> None:
    """The container of a download that nobody waits for; a deploy that was cut off leaves one."""
    subprocess.run(["docker", "rm", "--force", DOWNLOAD], capture_output=True, check=False)
