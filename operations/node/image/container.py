"""A container for a question: the engine's image runs a script without a network, and nothing of it stays."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

#: Seconds between two looks at it.
PAUSE_S = 0.2


def run(
    image: str,
    script: str,
    patience_s: float,
    options: Sequence[str] = (),
    meanwhile: Callable[[], object] = str,
    exports: str = "",
    reader: Sequence[str] = ("python3", "-"),
) -> subprocess.CompletedProcess[str]:
    """What `reader` makes of a script in an image that is here; `meanwhile` is called again and again until it ends;
    `exports`: lines of shell before it.

    Raises OSError, and TimeoutError after `patience_s` seconds.
    """
    # Somebody else's look at this node has a container of its own, and this one's end must not be that one's.
    name = f"tandem-doctor-{secrets.token_hex(4)}"
    argv = ["docker", "run", "--rm", "--interactive", "--network", "none", "--pull", "never", *options]
    called = " ".join(reader)
    entry = ["sh", image, "-c", f"{exports}exec {called}"] if exports else [reader[0], image, *reader[1:]]
    argv += ["--name", name, "--entrypoint", *entry]
    end, pipe = time.monotonic() + patience_s, subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin and process.stdout and process.stderr
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(script)
                process.stdin.close()
            while process.poll() is None:
                meanwhile()
                time.sleep(PAUSE_S)
                if time.monotonic() > end:
                    raise TimeoutError(f"nothing came in {patience_s:g} s")
            said, complaint = process.stdout.read(), process.stderr.read()
        finally:
            if process.poll() is None:
                process.kill()
                with suppress(OSError, subprocess.TimeoutExpired):
                    subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False, timeout=10)
    return subprocess.CompletedProcess(argv, process.returncode, said, complaint)
