"""An image from its registry: Docker's own client, watched from outside.

Docker waits without an end for a registry that has stopped to send.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from operations.node import beats
from operations.node.commands import docker_inspect, docker_root
from operations.node.copy.meter import Meter
from operations.node.copy.silence import Silence, received, written
from operations.wire.model import Copied

#: Seconds in which nothing of the image comes or is unpacked, which takes minutes without a byte from outside.
SILENCE_S = 120
#: Bytes to disks within them that others write all the same; an image is unpacked at many times that.
LITTLE = 32 << 20
#: Seconds without a byte of the image, whatever else is written.
LONGEST_S = 1800
#: In a row, after which it is left to the owner.
TRIES = 3
LOOK_EVERY_S = 1
#: Where what is on its way lies: in Docker's own store, in the containerd beside it, and in one of Docker's own.
_COMING = (
    "{root}/tmp/GetImageBlob*",
    "/var/lib/containerd/io.containerd.content.v1.content/ingest/*/data",
    "{root}/containerd/daemon/io.containerd.content.v1.content/ingest/*/data",
)


def main(reference: str, unless_here: bool = False) -> Copied:
    """Pull it. `unless_here`: a name without a digest is whatever the owner has built or pulled under it."""
    if unless_here and docker_inspect("image", reference):
        return {"done": True, **Meter(leg="registry").state()}
    running: list[subprocess.Popen[str]] = []

    def stop() -> None:
        for each in running:
            each.kill()

    beats.watch(stop)
    for number in range(TRIES):
        process = subprocess.Popen(
            ["docker", "pull", "--quiet", reference],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        running[:] = [process]
        assert process.stderr
        errors: list[str] = []
        listener = threading.Thread(target=errors.extend, args=[process.stderr], daemon=True)
        listener.start()
        meter, silent_s = _follow(process)
        process.terminate()
        process.wait()
        listener.join()
        if process.returncode and not silent_s:
            return {"error": errors[-1].strip() if errors else f"docker pull ended with {process.returncode}"}
        if not silent_s:
            return {"done": True, **meter.state()}
        problem = f"nothing came for {silent_s:.0f} s"
        if number + 1 < TRIES:
            print(json.dumps({"said": f"{problem}: begun anew"}), flush=True)
    return {"error": f"{problem}, {TRIES} times in a row: the registry, or the way to it, stands still"}


def _follow(process: subprocess.Popen[str]) -> tuple[Meter, float]:
    """Until it ends, or stands still: then for how many seconds. Told are the bytes that came to the node: Docker tells
    nobody else how far it is.
    """
    root, begun = docker_root(), received()
    meter, silence = Meter(leg="registry"), Silence(SILENCE_S, LITTLE, LONGEST_S)
    while process.poll() is None:
        time.sleep(LOOK_EVERY_S)
        meter.reach(received() - begun)
        if process.poll() is None and silence.look(_coming(root), written()):
            return meter, silence.seconds
    return meter, 0


def _coming(root: Path) -> list[tuple[str, int]]:
    """What is on its way, with its size."""
    found = []
    for pattern in _COMING:
        for file in Path("/").glob(pattern.format(root=root).lstrip("/")):
            with suppress(OSError):
                found.append((str(file), file.stat().st_size))
    return sorted(found)
