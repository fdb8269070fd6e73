"""What `tandem models pull` is asked for: a recipe or a model of the owner's by its name, or what the Hub has."""

from __future__ import annotations

from operations.plan.config.refusal import Finding, Refusal
from operations.verbs.fit import owners_hub
from operations.verbs.fit_subject import gguf_files, on_hub, path_of
from operations.wire import Json


def main(what: str) -> Json:
    """As operations/plan/pulling.py takes it. Raises Refusal for a repository that is not there, can't be seen, or is
    of no known format.
    """
    if "/" not in what or what.endswith((".yaml", ".yml")) or path_of(what).is_file():
        return {"name": what}
    try:
        repo, build, revision = on_hub(what)
        found = owners_hub().repository(repo, revision)
        has_weights = any(name.endswith((".safetensors", ".bin")) for name in found.files)
        files = [] if has_weights and not build else gguf_files(found, build)
    except Refusal as refusal:
        raise Refusal(*(Finding("pull", each.problem, each.remedy) for each in refusal.findings)) from None
    size = sum(size for name, size in found.files.items() if not files or name in files)
    kind = "gguf" if files else "adapter" if "adapter_config.json" in found.files else "model"
    return {"repo": repo, "revision": found.revision, "kind": kind, "files": files, "gib": size / 2**30}
