"""A download from the Hub on the head: its own client, in a container of an image with Python, watched."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from operations.node import beats
from operations.node.commands import open_files
from operations.node.copy import known
from operations.node.copy.meter import Meter
from operations.node.copy.silence import SILENCE_S, Silence, received
from operations.node.disk_space import fits
from operations.node.model import marks, mend, proof
from operations.paths import DOWNLOAD
from operations.wire.model import Copied, ModelFile

#: How it is begun, and how again where it stood still: hf-xet below 1.5.3 was seen to stop for ever (huggingface_hub
#: #4520), and without it files come over plain HTTP.
FIRST: tuple[str, ...] = ()
AGAIN = ("HF_HUB_DISABLE_XET=1",)
#: Seconds before each try behind the first, while no more file becomes whole: a router that restarts takes three
#: minutes. Behind the last one it is left to the owner.
PAUSES_S = (5, 15, 60, 120)
#: Seconds between two looks at how much has arrived.
LOOK_EVERY_S = 1
#: Seconds until the client says what will come: the container has to start, and the Hub to list the files.
START_S = 120


@dataclass
class Try:
    """What came of one: the error, and whether it is worth another."""

    files: dict[str, ModelFile]
    meter: Meter
    error: str = ""
    again: bool = False


def main(
    argv: list[str],
    store: str,
    folder: str,
    revision: str,
    owner: str,
    kind: str = "model",
    only: Sequence[str] = (),
) -> Copied:
    """Run `argv` (which prints the Hub's manifest as its first line, waits for a line on its standard input, and then
    downloads into `store`), say how far it is, and prove that what came is what the Hub has. One that stands still, or
    ends with less than all, is begun anew without xet; files that are whole stay.

    `only`: patterns of the files that are meant; none: all. `owner`: a path whose owner gets what was made, also when
    it broke off.
    """
    repo = Path(store) / folder
    snapshot = repo / "snapshots" / revision
    marks.begin(snapshot)
    remove()
    beats.watch(remove)
    settings, idle = FIRST, 0
    while True:
        had = _whole(repo)
        try:
            one = _try(command(argv, settings), repo, snapshot)
        except OSError as error:
            return {"error": str(error)}
        finally:
            _give(owner, [repo, repo.parent / ".locks", repo.parent / "CACHEDIR.TAG"])
        if not one.error:
            break
        # What fails behind one that stood still may be the same fault.
        if not one.again and settings == FIRST:
            return {"error": one.error}
        idle = 0 if _whole(repo) > had else idle + 1
        if idle > len(PAUSES_S):
            left = "what is whole stays, the next run goes on from there"
            return {"error": f"{one.error}, {idle} times in a row, also without xet; {left}"}
        print(json.dumps({"said": f"{one.error}; begun anew without xet, what is whole stays"}), flush=True)
        time.sleep(PAUSES_S[max(idle, 1) - 1])
        settings = AGAIN
    proof.expect_only(snapshot, one.files, only)
    if wrong := _unlike(one.files, snapshot) or _bad(store, folder, revision, kind, only):
        return {"error": f"what came is not what the Hub has: {', '.join(wrong)}; run the deploy again"}
    marks.end(snapshot)
    return {"done": True, **one.meter.state()}


def command(argv: list[str], settings: Sequence[str]) -> list[str]:
    """The container's start; `settings`: variables beside those of `argv`."""
    added = [word for setting in settings for word in ("--env", setting)]
    return ["docker", "run", "--name", DOWNLOAD, *added, *argv]


def _try(argv: list[str], repo: Path, snapshot: Path) -> Try:
    """From its start to its end. Raises OSError when what is to come does not fit."""
    _take_away_left_overs(repo)
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout and process.stderr
    said: list[str] = []
    errors: list[str] = []
    # Whoever waits for a line of a client that stands still waits for ever.
    listeners = [
        threading.Thread(target=kept.extend, args=[stream], daemon=True)
        for kept, stream in ((said, process.stdout), (errors, process.stderr))
    ]
    for each in listeners:
        each.start()
    try:
        files, meter, silent_s = _follow(process, repo, said)
    finally:
        process.terminate()
        remove()
        process.wait()
        for each in listeners:
            each.join()
    if silent_s:
        where = (
            f"at {meter.state()['bytes'] / 1e9:.1f} of {meter.state()['of'] / 1e9:.1f} GB" if files else "at its start"
        )
        return Try(files, meter, f"nothing came for {silent_s:.0f} s, {where}", again=True)
    if process.returncode:
        return Try(files, meter, errors[-1].strip() if errors else f"docker run ended with {process.returncode}")
    files = files or _manifest(said)
    if not files:
        return Try(files, meter, "the Hub's client did not say what it would download")
    if short := _short(files, snapshot):
        return Try(files, meter, f"its client ended without {', '.join(short[:3])}", again=True)
    return Try(files, meter)


def _manifest(said: Sequence[str]) -> dict[str, ModelFile]:
    """What the Hub has: the first line of JSON, whatever a library prints before it; empty while none has come."""
    for line in list(said):
        if line.startswith("{"):
            found: dict[str, ModelFile] = json.loads(line)
            return found
    return {}


def _follow(
    process: subprocess.Popen[str], repo: Path, said: Sequence[str]
) -> tuple[dict[str, ModelFile], Meter, float]:
    """Until the container ends, or nothing comes any more: then for how many seconds. Raises OSError when what is to
    come does not fit.
    """
    begun, files, meter, silence = _bytes(repo), dict[str, ModelFile](), Meter(leg="Hub"), Silence(START_S)
    while process.poll() is None:
        time.sleep(LOOK_EVERY_S)
        if not files and (files := _manifest(said)):
            total = sum(entry["size"] for entry in files.values())
            if had := _known(repo, files):
                print(json.dumps({"said": f"{had / 1e9:.2f} GB of it are another model's too: kept once"}), flush=True)
                begun = _bytes(repo)
            fits(repo, total - begun)
            _go(process)
            meter = Meter(max(0, total - begun), leg="Hub")
            silence.allow(SILENCE_S)
        if files:
            meter.reach(max(0, _bytes(repo) - begun))
        if silence.look((len(files), _written(repo)), received()):
            return files, meter, silence.seconds
    return files, meter, 0


def _known(repo: Path, files: dict[str, ModelFile]) -> int:
    (repo / "blobs").mkdir(parents=True, exist_ok=True)
    return known.main(repo, files.values())


def _go(process: subprocess.Popen[str]) -> None:
    """Nothing is downloaded before it is known that all of it fits."""
    assert process.stdin
    with suppress(BrokenPipeError):
        process.stdin.write("go\n")
        process.stdin.flush()


def _bytes(repo: Path) -> int:
    """What has arrived, whole files and others; a file may get its name while it is counted."""
    total = 0
    for file in repo.glob("blobs/*"):
        try:
            total += file.stat().st_size if file.suffix != ".broken" else 0
        except OSError:
            continue
    return total


def _written(repo: Path) -> list[tuple[str, int, int]]:
    """What differs whenever a byte has been written: a client may have given a file its size before."""
    found = []
    for file in repo.glob("blobs/*"):
        with suppress(OSError):
            there = file.stat()
            found.append((file.name, there.st_size, there.st_mtime_ns))
    return sorted(found)


def _whole(repo: Path) -> int:
    """How many files have come to their end: until then a client calls them otherwise."""
    return sum(not file.name.endswith((".incomplete", ".broken")) for file in repo.glob("blobs/*"))


def _take_away_left_overs(repo: Path) -> None:
    """The client (huggingface_hub 2) begins every file anew under a name of its own, and leaves it when killed."""
    left = {str(file) for file in repo.glob("blobs/*") if re.search(r"\.[0-9a-f]{8}\.incomplete$", file.name)}
    for path in left - open_files() if left else ():
        Path(path).unlink(missing_ok=True)


def _short(files: dict[str, ModelFile], snapshot: Path) -> list[str]:
    """Names that are not here, or not with all of their bytes."""
    here = proof.manifest(snapshot)
    return sorted(name for name, entry in files.items() if here.get(name, entry | {"size": -1})["size"] < entry["size"])


def _unlike(files: dict[str, ModelFile], snapshot: Path) -> list[str]:
    """Names that are not here with the size and the hash that the Hub has for them."""
    here = proof.manifest(snapshot)
    return sorted(name for name, entry in files.items() if here.get(name) != entry)


def _bad(store: str, folder: str, revision: str, kind: str, only: Sequence[str]) -> list[str]:
    """Names of files whose content is not what their name says: the client looks at sizes alone. They are set aside."""
    state = proof.main(store, folder, revision, kind, only, prove=True)
    return list(mend.main(store, folder, revision, kind, only)["aside"]) if state["problems"] else []


def _give(owner: str, made: list[Path]) -> None:
    """Root in the container can read the token; what it wrote is the login's."""
    there = [str(path) for path in made if path.exists()]
    subprocess.run(["chown", "-R", "--reference", owner, *there], stderr=sys.stderr, check=False)


def remove() -> None:
    """The container of a download that nobody waits for; a deploy that was cut off leaves one."""
    subprocess.run(["docker", "rm", "--force", DOWNLOAD], capture_output=True, check=False)
