"""`make manual-pages`: docs/verbs.md, made of the verbs themselves."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import groupby

from operations.command import app as _all_verbs  # noqa: F401 (the verbs are made)
from operations.command.groups import EXITS, all_verbs

HEAD = """# Verbs

Made of the command itself by `make manual-pages`. `tandem --help` lists all
verbs, `tandem VERB --help` says what each takes.

```sh
uv tool install .           # or: pipx install .
tandem --install-completion # Tab completes verbs and options
./tandem status             # in the clone, without an installation
```

Verbs that ask nodes work in your folder: the one with `inventory.py` and `group_data`. It is the current directory, or
`--folder` or `TANDEM_FOLDER` names it. `--inventory FILE` takes other nodes.

[Knobs](knobs.md) for one run stand behind the verb: `tandem apply topology=solo`.
They are checked before a node is asked.

`--json` is for programs. Answers go to standard output, remarks and faults to standard error.

"""
FOOT = """
## With make, or pyinfra alone

In the clone `make VERB` does the same for most verbs, and `pyinfra inventory.py deploy.py` is `tandem apply`. make
takes `INVENTORY=`, `DATA="knob=value"` and `MODEL=`. Its other words are the options in capital letters:
`make key NAME=alice`, `make bench FOR=30m`, `make verify DEEP=1`. What is wrong is told by the option's name.
`make help` lists all of them.
"""


def page() -> str:
    """The whole file."""
    codes = "".join(f"| {code} | {why} |\n" for code, why in EXITS.items())
    return f"{HEAD}| it ends with | when |\n|---|---|\n{codes}{''.join(_groups())}{FOOT}"


def _groups() -> Iterator[str]:
    for group, verbs in groupby(all_verbs(), key=lambda each: each[0]):
        yield f"\n## {group}\n\n| verb | what it does |\n|---|---|\n"
        for *_, each in verbs:
            assert each.callback is not None
            what = " ".join((each.callback.__doc__ or "").split("\n\n")[0].split())
            examples = re.findall(r"Example: (.*)", each.epilog or "")
            yield f"| {'<br>'.join(f'`{example}`' for example in examples)} | {what} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
