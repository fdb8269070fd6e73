"""What llama-benchy needs: itself in an environment of its own, and the model's tokenizer from the head."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

from bench.measuring import Measurement
from bench.process import ROOT
from bench.show import Show
from bench.ssh import login
from operations.plan.config.refusal import Finding, Refusal

LOCK = ROOT / "bench/llama-benchy/requirements.lock"
#: Names of a model's files that are its tokenizer's.
_FILES = r"^((tokenizer|vocab|chat_template).*|(special_tokens_map|added_tokens|config)\.json|merges\.txt|.*\.model)$"


def program(show: Show) -> Path:
    """Its command, installed by hash where it is not there yet."""
    venv = Path(f"{sys.prefix}-llama-benchy")
    stamp = venv / "installed.lock"
    if not stamp.exists() or stamp.read_text() != LOCK.read_text():
        show.say(f"installing llama-benchy into {venv} (once)")
        for argv in (
            [sys.executable, "-m", "venv", str(venv)],
            [
                str(venv / "bin/pip"),
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--require-hashes",
                "-r",
                str(LOCK),
            ],
        ):
            if subprocess.run(argv, check=False).returncode:
                raise Refusal(Finding("llama-benchy", "can't be installed", f"`{shlex.join(argv)}` says why"))
        stamp.write_text(LOCK.read_text())
    return venv / "bin/llama-benchy"


def tokenizer(measurement: Measurement) -> Path:
    """A folder with the model's tokenizer: --tokenizer, or what the head's copy of the model has."""
    if measurement.asked.tokenizer:
        return measurement.asked.tokenizer
    folder = measurement.folder.path / "tokenizer"
    if folder.is_dir():
        return folder
    if measurement.session.ssh is None:
        raise Refusal(
            Finding("--tokenizer", "the head is not reached over ssh", "name a folder with the model's tokenizer")
        )
    model = measurement.deployed.recipe.get("model") or {}
    store = str(measurement.deployed.knobs["model_store"])
    place = f"models--{str(model.get('repo')).replace('/', '--')}/snapshots/{model.get('revision') or '*'}"
    # The login's ~, and only then root.
    inside = f'cd "$1"/{place} && tar -chf - $(ls | grep -E {shlex.quote(_FILES)})'
    home = store.replace("~", "$HOME", 1) if store.startswith("~/") else store
    argv = [*login(measurement.session.ssh), f'sudo -n sh -c {shlex.quote(inside)} sh "{home}"']
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        problem = f"the model's tokenizer can't be read on the head: {' '.join(last)}"
        raise Refusal(Finding("--tokenizer", problem, "name a folder with the model's tokenizer"))
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        # By hand: Python 3.11.2, which Debian 12 has, knows no filter against names that lead elsewhere.
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                (folder / Path(member.name).name).write_bytes(file.read())
    return folder
