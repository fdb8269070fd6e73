"""What examines a deployment and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operations.command import running
from operations.command.at import At
from operations.command.groups import EXAMINE, AsJson, Model, verb


@verb(EXAMINE, "tandem doctor", "tandem doctor --no-load", knobs=True)
def doctor(
    at: At,
    no_load: Annotated[bool, typer.Option("--no-load", help="Put no load on the rails.")] = False,
    as_json: AsJson = False,
) -> int:
    """What no log says, on each node and between them; 1 where something is bad."""
    return running.query(at, "doctor", net="0" if no_load else "", json=as_json)


@verb(EXAMINE, "tandem explain rail-no-carrier", "tandem explain TandemNodeGone")
def explain(
    name: Annotated[str, typer.Argument(help="What stands in brackets behind a finding, or an alarm's name.")],
) -> int:
    """What a finding of a deploy or of the doctor means, or an alarm, and what helps."""
    from operations.verbs.explain import lines

    print("\n".join(lines(name.strip("[]"))))
    return 0


@verb(EXAMINE, "tandem check", "tandem check topology=replicas", knobs=True)
def check(at: At) -> int:
    """All that a deploy checks before its first change, and the recipe against its image."""
    return running.query(at, "check")


@verb(EXAMINE, "tandem verify", "tandem verify --deep", knobs=True)
def verify(
    at: At,
    deep: Annotated[bool, typer.Option("--deep", help="Hash every byte again.")] = False,
    model: Model = "",
    as_json: AsJson = False,
) -> int:
    """Is the model whole, and the same on every node."""
    return running.query(at, "verify", model, deep=deep, json=as_json)


@verb(EXAMINE, "tandem prove", "tandem prove coder", "tandem prove --json")
def prove(
    at: At,
    model: Annotated[str, typer.Argument(help="Of several models the one that is asked.")] = "",
    as_json: AsJson = False,
) -> int:
    """Ask what serves some thirty questions whose answers are checked; 1 where a form does not hold."""
    return running.query(at, "prove", model, json=as_json)


@verb(EXAMINE, "tandem audit", knobs=True)
def audit(at: At, model: Model = "") -> int:
    """What the model's weights are made of: modules by quantisation and bytes. Who used what: `tandem keys`."""
    return running.query(at, "audit", model)


@verb(EXAMINE, "tandem audit-security", "tandem audit-security --recipe gpt-oss-120b-mxfp4", knobs=True)
def audit_security(
    at: At,
    model: Model = "",
    recipe: Annotated[str, typer.Option(help="A recipe, or a folder of them: no node is asked.")] = "",
) -> int:
    """Known holes of what runs, and whether each can be reached here; 1 where a critical one can."""
    if recipe:
        from operations.verbs import recipe_holes

        return recipe_holes.main(recipe)
    return running.query(at, "audit_security", model)


@verb(EXAMINE, "tandem sbom", "tandem sbom --to lists")
def sbom(
    at: At,
    model: Model = "",
    to: Annotated[Path, typer.Option(help="The folder that it is written into.")] = Path("sbom"),
) -> int:
    """What the head runs, as CycloneDX: packages in the images, the model's files."""
    return running.query(at, "sbom", model, to=str(to))


@verb(EXAMINE, "tandem scrape-config")
def scrape_config(at: At) -> int:
    """For a Prometheus on a node: where the nodes' metrics are, and the alarms."""
    return running.query(at, "scrape_config")


@verb(EXAMINE, "tandem alarm-test")
def alarm_test(at: At) -> int:
    """Send a test alarm to all whom alarms are sent to, and say whether each has taken it."""
    return running.query(at, "alarm_test")


@verb(EXAMINE, "tandem grafana > dashboard.json")
def grafana() -> int:
    """A dashboard for your Grafana's import, of the panels that the page has."""
    import json

    from operations.plan.services.panels import dashboard

    print(json.dumps(dashboard(), indent=1, ensure_ascii=False))
    return 0
