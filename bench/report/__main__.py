"""`tandem report folder [--against folder]`: docs/advise.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.report.changed import same_kind
from bench.report.page import page
from bench.report.series import chosen, measured
from bench.report.write import write
from bench.resuming import RUNS
from operations.plan.config.refusal import Finding, Refusal


def main(environment: Mapping[str, str]) -> int:
    """0: written, and where is said. 1: it can't be, in one line. 2: a word was not understood, or names no folder."""
    code = 2
    try:
        names = chosen(environment.get("FIGURES", ""))
        places = [_run(environment), *([Path(environment["AGAINST"])] if environment.get("AGAINST") else [])]
        code = 1 if all(each.is_dir() for each in places) else 2
        run = measured(places[0])
        against = measured(places[1]) if len(places) > 1 else None
        if against:
            same_kind(run, against)
        recipe = environment.get("RECIPE")
        if recipe and recipe != run.run.recipe:
            problem = f"is a run of another recipe: {run.run.recipe!r}, not {recipe!r}"
            raise Refusal(Finding(str(run.path), problem, "name a run of it, or leave the recipe out"))
        folder = Path(environment.get("OUT") or run.path / ("report" if not against else f"report-{against.path.name}"))
        written = write(page(run, names, against), run, against, names, folder)
    except Refusal as refusal:
        for finding in refusal.findings:
            print(f"report: {finding.where}: {finding.problem}; {finding.remedy}", file=sys.stderr)
        return code
    except OSError as error:
        print(f"report: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    return 0


def _run(environment: Mapping[str, str]) -> Path:
    """RUN, or the newest there is."""
    if environment.get("RUN"):
        return Path(environment["RUN"])
    newest = max(RUNS.glob("*/run.json"), key=lambda file: file.stat().st_mtime, default=None)
    if newest is None:
        raise Refusal(
            Finding("run", f"there is no run in {RUNS}", "`tandem bench` makes one; or name a folder that it has made")
        )
    return newest.parent


if __name__ == "__main__":
    sys.exit(main(os.environ))
