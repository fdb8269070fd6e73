"""When messages come: which files' belong together, under which heading, and what is to be said of all of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """`parts`: a heading, and the beginnings of the paths whose messages stand under it; the longest one counts."""

    title: str
    intro: str
    parts: dict[str, tuple[str, ...]]


BEFORE = Group(
    "Before the first change",
    "A deploy, `tandem plan` and `tandem check` say all of them at once, under `nothing was changed; this has to be "
    "put right first`. Each line names the node, the file or `data` for a knob; behind the arrow is what helps. Put it "
    "right and run the same again.",
    {
        "Reaching the nodes": (
            *(
                "operations/runner/reach.py",
                "operations/runner/given.py",
                "operations/runner/run.py",
                "operations/runner/reasons.py",
            ),
            "operations/plan/absence.py",
        ),
        "Knobs": (
            *("operations/plan/config/knobs.py", "operations/plan/recipes/images.py", "operations/plan/wanted.py"),
            *("operations/plan/declared.py", "operations/plan/admission.py"),
            *("operations/plan/plan.py", "operations/plan/ranks.py", "operations/plan/services/fallback.py"),
            "operations/plan/services/proxy.py",
        ),
        "The nodes themselves": (
            "operations/plan/checks.py",
            "operations/plan/cluster/fabric_checks.py",
            "operations/plan/services/demand.py",
            "operations/plan/services/tuning.py",
            "operations/steps/preflight.py",
            "operations/plan/decide/preflight.py",
            "operations/node/image/archive.py",
        ),
        "The GPU": ("operations/node/machine/on_gpu.py", "operations/node/image/gpu_trial.py"),
        "Three nodes without a switch": ("operations/plan/cluster/ring.py",),
        "The virtual address": ("operations/plan/services/address.py",),
        "Certificates of your own": ("operations/plan/services/tls.py",),
        "Alarms": (
            "operations/plan/config/alarms.py",
            "operations/plan/services/prometheus.py",
            "operations/node/monitoring/monitors.py",
        ),
        "Secrets and the Hub's token": ("operations/node/secret/modes.py", "operations/runner/managed_files.py"),
        "Files of recipes": (
            "operations/plan/recipes/formats/",
            *(f"operations/plan/recipes/{name}.py" for name in ("bounds", "kinds", "loader", "source")),
            "operations/plan/recipes/recipe.py",
            "operations/plan/recipes/patterns.py",
        ),
        "A recipe's words": (
            *(
                "operations/plan/recipes/lint/",
                "operations/plan/engines/",
                "operations/plan/recipes/judge.py",
                "operations/runner/recipe_lint.py",
            ),
            "operations/steps/recipe.py",
            "operations/node/image/vocabulary.py",
        ),
        "Mods": ("operations/plan/recipes/mods.py",),
        "Known holes": ("operations/plan/advisories/",),
        "The way back": ("operations/plan/history.py", "operations/runner/rollback.py"),
        "Somebody else is at work": ("operations/steps/lock.py", "operations/runner/lease.py"),
    },
)
FABRIC = Group(
    "The fabric",
    "Engines are as they were. If management is lost by the change, the node takes the old files back by itself.",
    {"Rails": ("operations/steps/fabric.py", "operations/node/network/rails.py")},
)
IMAGES = Group(
    "Images",
    "What served before still serves. What has arrived whole stays; the next deploy does what is left.",
    {
        "Obtaining": ("operations/steps/image.py", "operations/node/copy/pull.py"),
        "Mods put into an image": ("files/mods/",),
        "Copies from node to node": (
            *("operations/runner/sharing.py", "operations/node/image/layers.py", "operations/node/copy/fetch.py"),
            *("operations/node/copy/source.py", "operations/node/copy/disk_space.py", "operations/runner/patience.py"),
        ),
    },
)
MODEL = Group(
    "The model",
    "What served before still serves. What has arrived stays; the next deploy goes on from there.",
    {
        "On the head": ("operations/steps/model.py", "operations/node/copy/hub.py", "files/model/"),
        "From a folder": ("operations/node/copy/install.py",),
        "Is it whole": ("operations/node/model/proof.py", "operations/node/model/gguf.py"),
    },
)
START = Group(
    "The engine's start",
    "The deploy ends with the engine's last lines, and with the way back where a plan has served before. An engine "
    "that is not the one that was meant is stopped and stays down.",
    {
        "The wait for an answer": (
            "operations/runner/readiness.py",
            "operations/steps/verify.py",
            "operations/runner/waiting.py",
            "operations/runner/watching.py",
            "operations/plan/cluster/nccl.py",
            "operations/node/engine/probe.py",
        ),
        "Its words are judged": ("operations/node/engine/answer_quality.py", "operations/node/engine/adapters.py"),
        "The walls": ("operations/node/network/walls.py", "files/walls/"),
        "Before a start, in the unit's log": (
            *(
                "files/engine/ready.sh.j2",
                "files/engine/proof.py",
                "files/engine/ollama.py",
                "files/engine/memory.py",
                "files/waiting.sh.j2",
            ),
        ),
        "In the engine's container": ("files/engine/",),
    },
)
PROXY = Group(
    "The proxy",
    "A deploy says the first ones; clients get the others, as errors in OpenAI's form.",
    {
        "Prometheus and Alertmanager": ("operations/steps/prometheus.py",),
        "A deploy": (
            "operations/steps/proxy.py",
            "operations/runner/client_keys.py",
            "operations/node/door/certificate.py",
            "operations/node/door/authority.py",
        ),
        "What clients are told": ("files/litellm/", "files/proxy/"),
    },
)
SERVING = Group(
    "While it serves",
    "Lines of the units' logs (`sudo journalctl -u tandem-canary`, and so on); `tandem status` quotes them where "
    "something does not serve.",
    {
        "The canary": ("files/canary/",),
        "The memory guard": ("files/guard/",),
        "Falling back": ("files/fallback/",),
        "Models on demand": ("files/ondemand/",),
        "The virtual address": ("files/address/",),
        "The office's addresses": ("files/office/",),
        "Metrics": ("files/exporter/",),
        "The page": ("files/page/", "operations/node/monitoring/handed.py", "bench/advise/page.py"),
        "Why a unit does not serve": ("operations/node/unit/cause.py",),
    },
)
VERBS = Group(
    "Verbs",
    "A verb that refuses has changed nothing.",
    {
        "All of them": (
            *("operations/verbs/report.py", "operations/command/", "operations/verbs/everything.py"),
            "operations/verbs/way.py",
        ),
        "tandem key, keys, key-revoke": (
            *(
                "operations/verbs/key_words.py",
                "operations/plan/services/proxy_keys.py",
                "operations/node/door/keys.py",
            ),
        ),
        "tandem fit": (
            *("operations/plan/fit/", "operations/verbs/fit.py", "operations/verbs/fit_subject.py"),
            "operations/verbs/hub.py",
        ),
        "tandem models": (
            *("operations/plan/disks.py", "operations/verbs/models.py", "operations/verbs/disk_table.py"),
            *("operations/verbs/pull.py", "operations/node/unit/take_away.py", "operations/node/unit/disks.py"),
        ),
        "tandem init": ("operations/init/", "operations/verbs/init.py"),
        "tandem recipes": (
            "operations/verbs/recipes.py",
            "operations/verbs/recipe_view.py",
            "operations/verbs/fetch.py",
            "operations/verbs/registries.py",
            "operations/plan/recipes/repositories.py",
        ),
        "tandem alarm-test": ("operations/verbs/alarm_test.py", "operations/node/monitoring/alarm_test.py"),
        "tandem down": ("operations/verbs/down.py",),
        "tandem verify": ("operations/verbs/verify.py",),
        "tandem prove": (
            *("operations/verbs/prove.py", "operations/node/engine/answering.py", "operations/plan/answers/"),
            "operations/runner/proving.py",
        ),
        "tandem audit and tandem sbom": (
            *("operations/node/model/audit.py", "operations/verbs/sbom.py", "operations/node/image/packages.py"),
        ),
        "tandem audit-security, and make holes": ("operations/verbs/hole_table.py", "operations/verbs/renew_holes.py"),
        "tandem bench": ("bench/", "operations/verbs/bench.py"),
        "tandem advise": ("bench/advise/",),
        "tandem report": ("bench/report/",),
    },
)
DOCTOR = Group(
    "The doctor",
    "Rows of `tandem doctor`: what was seen, what it means, what helps.",
    {
        "Cables": ("operations/plan/doctor/cables.py",),
        "Rails": ("operations/plan/doctor/rails.py",),
        "GPU": ("operations/plan/doctor/gpu.py",),
        "The machine": ("operations/plan/doctor/machine.py", "operations/plan/doctor/prefixes.py"),
        "Software": ("operations/plan/doctor/software.py",),
        "Clocks": ("operations/plan/doctor/clock.py",),
        "Certificates": ("operations/plan/doctor/certificate.py",),
        "The kernel's log": ("operations/plan/doctor/kernel_log.py",),
        "What it could not look at": ("operations/doctor/", "operations/node/doctor/", "operations/verbs/doctor.py"),
    },
)
GROUPS = (BEFORE, FABRIC, IMAGES, MODEL, START, PROXY, SERVING, VERBS, DOCTOR)


def place(path: str) -> tuple[Group, str]:
    """The group and the heading of a file's messages; raises LookupError where nobody has said it."""
    fits = [
        (len(begin), group, heading)
        for group in GROUPS
        for heading, begins in group.parts.items()
        for begin in begins
        if path.startswith(begin)
    ]
    if not fits:
        raise LookupError(f"{path} has messages and no group: add it to manual/groups.py")
    _, group, heading = max(fits, key=lambda each: each[0])
    return group, heading
