"""llama.cpp: `llama-server` with a model in GGUF, one engine on one node.

Its answers, metrics and continued streams were seen of release 0.7.0 on a CPU (docs/engines.md). Nobody has run
it through Tandem on a Spark yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from operations.plan.cluster import environment
from operations.plan.cluster.addresses import model_path
from operations.plan.cluster.nodes import Node
from operations.plan.config.files import as_is
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Remark
from operations.plan.engines import llama_cpp_words as words
from operations.plan.engines.abilities import TOOLS, UNRECITED
from operations.plan.engines.base import (
    CONTEXT_TOKENS,
    Demand,
    Engine,
    Memory,
    Question,
    Signs,
    Weights,
    count,
    value_bytes,
)
from operations.plan.engines.kept import CUDA
from operations.plan.engines.llama_cpp_files import MMPROJ, wanted
from operations.plan.engines.named import Named, Place, Reference, by_name, place, reference
from operations.plan.engines.starts import Mark
from operations.plan.recipes.lint import room
from operations.plan.recipes.lint.near import hint, slip
from operations.plan.recipes.lint.subject import Subject
from operations.plan.recipes.recipe import MODEL, Answers, Flag, Forbidden, Kind, Recipe

#: Tokens of a prompt that it computes at once where no flag says it, and requests that it then takes at once.
_BATCH, _SLOTS = 2048, 4
#: Finds the file, and runs the server.
_START = "llama.sh"
#: Flags that name a file: GGUF of the model's repository or of a further one, or a text beside the recipe.
_FILES = (
    *("mmproj", "spec-draft-model", "lora", "control-vector", "chat-template-file", "grammar-file"),
    *("json-schema-file", "lookup-cache-static"),
)


class LlamaCpp(Engine):
    """`llama-server`."""

    TITLE = "llama.cpp"
    PROGRAM = ("llama-server",)
    QUESTIONS = {
        "embedding": Question("/v1/embeddings", {"input": "Hi"}, r'"embedding": ?\[ ?-?\d'),
    }
    UNPROVEN = {"rerank": "it ranks documents, and no proof of that was tried through the proxy with llama.cpp"}
    #: Its loop says them between two batches of tokens, so that nobody's question gets an answer from one that hangs.
    #: `n_decode` counts each batch, those of a prompt among them; the others follow when an answer ends.
    SIGNS = Signs(
        "/metrics",
        r"^llamacpp:(?:n_decode_total|prompt_tokens_total|tokens_predicted_total|requests_processing"
        r"|requests_deferred) \S+$",
    )
    TOPOLOGIES = ("solo", "replicas")
    #: Source: tools/rpc/README.md in its repository (docs/engines.md).
    ALONE = (
        "its RPC has no key, sends other nodes their part of the weights at a start, and a node that goes ends the "
        "server: its makers call it a proof of concept"
    )
    WEIGHTS = "gguf"
    HELD = True
    OWNED = words.OWNED
    IGNORED_FOREIGN_FLAGS = words.IGNORED
    TAKES = words.TAKES
    REQUESTS = "parallel"
    CONTEXT = "ctx-size"
    SHORT = words.SHORT
    SAME = words.SAME
    # IMAGES has none: their tags are numbers of builds (`server-cuda-b9014`), not releases.
    SPARKRUN = words.SPARKRUN
    FORBIDDEN = (
        Forbidden(
            pattern="no usable GPU found|ggml_cuda_init: failed to initialize CUDA",
            meaning="llama.cpp finds no GPU, and would compute on the CPU",
        ),
    )
    #: It ends within a tenth of that, and breaks off what is under way.
    STOP_S = 2
    METRICS = "llamacpp:"
    PANELS = {
        "running": "llamacpp:requests_processing",
        "waiting": "llamacpp:requests_deferred",
        "tokens_out": "llamacpp:tokens_predicted_total",
        "tokens_in": "llamacpp:prompt_tokens_total",
    }
    #: It counts no requests, and what it found in its cache apart from what it read.
    COUNTERS = {
        "prompt_tokens": ("llamacpp:prompt_tokens",),
        "answer_tokens": ("llamacpp:tokens_predicted",),
        "prefix_found": ("llamacpp:prompt_tokens_cached",),
    }
    #: CUDA's own, which any program may add to.
    CACHES = (CUDA,)
    #: As release 0.7.0 says them.
    STARTS = (
        Mark(r"load_model: loading model '", then="weights"),
        Mark(r"load_model: initializing, n_slots", was="weights", then="warm-up"),
        Mark(r"llama_server: listening on", then="server"),
    )

    def arguments(self, words: Sequence[str]) -> list[str] | None:
        """`llama-server ...`, wherever it lies."""
        return list(words[1:]) if words[0].rpartition("/")[2] == "llama-server" else None

    def program(self, called: Sequence[str]) -> list[str]:
        """As it is written: images have it in `/app`, which is in nobody's path."""
        return [] if tuple(called) == self.PROGRAM else list(called)

    def served_name(self, name: str) -> str:
        """Without the quant."""
        return name.partition(":")[0]

    def weights(self, served: str, named: str, owned: Mapping[str, str]) -> Weights:
        """Files of the repository, by `ORG/NAME:QUANT`, `-m FILE.gguf` or `-hff FILE.gguf`."""
        return wanted(served, named, owned.get("hf-file", ""))

    def placed(self, recipe: Recipe, place: Place) -> list[str]:
        """Projectors, drafts, adapters, templates and grammars."""
        return [word for each in recipe.flags for word in _placed(recipe, each, place)]

    def answers(self, recipe: Recipe) -> Answers:
        """By its flags: without them it does chat alone, whatever the model."""
        if recipe.flag("reranking"):
            return "rerank"
        return "embedding" if recipe.flag("embeddings") or by_name(recipe) == "embedding" else "chat"

    def continues(self, recipe: Recipe) -> Mapping[str, Any] | None:
        """It begins the answer with the last message where that is the assistant's, and streams only what comes behind
        it. The template of a model that reasons may open its thoughts there.
        """
        if recipe.flag("no-prefill-assistant") or not _reasons_never(recipe):
            return None
        return {"continue_final_message": True, "add_generation_prompt": False}

    def lacks(self, recipe: Recipe) -> Mapping[str, str]:
        """Calls, where the recipe does not say `jinja`: by the model's template it may have them all the same. A tool
        by its name, as `tool_choice` is a word to it. Thoughts, where the recipe does not say that there are any.
        """
        lacks = {"named": "llama-server takes no name of a tool", **UNRECITED}
        if not recipe.flag("jinja"):
            lacks |= dict.fromkeys(TOOLS, "the recipe has no jinja, and promises no calls")
        if not recipe.proof.reasoning or _reasons_never(recipe):
            lacks["reasoning"] = "the recipe does not say that the model reasons"
        return lacks

    def commands(self, recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> list[list[str]]:
        """The file is looked for at each start: a quant may be one file, or parts of which the first is named."""
        argv = ["sh", f"{environment.MOUNT}/{_START}", model_path(recipe), *_patterns(recipe), "--"]
        argv += [*(recipe.program or self.PROGRAM), "--alias", recipe.served_name]
        argv += ["--host", node.fabric, "--port", str(knobs.engine_port), "--metrics"]
        return [[*argv, *self.placed(recipe, partial(place, recipe))]]

    def files(self, recipe: Recipe) -> dict[str, str]:
        """What finds the model's file."""
        return {_START: as_is(f"engine/{_START}")}

    def docker(self, recipe: Recipe) -> list[str]:
        """Memory that is locked (`mlock`)."""
        return ["--ulimit", "memlock=-1"]

    def step_tokens(self, recipe: Recipe) -> int:
        """`batch-size`: a prompt is computed in such batches. Where no flag says it, llama.cpp's default."""
        return count(recipe.flag("batch-size")) or _BATCH

    def context_tokens(self, recipe: Recipe) -> int:
        """Tokens that one slot has for a request, its answer included; CONTEXT_TOKENS where no flag says."""
        return _context(recipe) or CONTEXT_TOKENS

    def drafts(self, recipe: Recipe) -> bool:
        """By a draft's file, or a way of drafting."""
        return any(recipe.flag(name) for name in ("spec-draft-model", "spec-default")) or (
            recipe.flag("spec-type") not in (None, "none")
        )

    def memory(self, recipe: Recipe) -> Memory:
        """Its KV cache is taken whole at the start, for all slots: as many tokens as `ctx-size` says."""
        tokens, kv = count(recipe.flag(self.CONTEXT)), recipe.model.kv_kib
        kind = str(recipe.flag("cache-type-k") or "f16")
        return Memory(
            cache_bytes=kv * 1024 * tokens * value_bytes(kind) / 2 if kv and tokens else None,
            cache_type=kind,
            requests=_slots(recipe) or _SLOTS,
            context=_context(recipe) or None,
        )

    def demand(self, recipe: Recipe, parts: int) -> Demand:
        """Its weights and its KV cache: it asks for nothing else before."""
        kv = (self.memory(recipe).cache_bytes or 0.0) / 2**30
        return Demand(gib=(recipe.weights_gib or 0.0) + kv if recipe.weights_gib else 0.0)

    def lint(self, of: Subject) -> Iterator[Remark]:
        """By a list of its flags, by its slots, and by the files that are named."""
        yield from _names(of)
        recipe = of.recipe
        if not _patterns(recipe):
            remedy = "add `files: [NAME-Q4_K_M.gguf]` to `model`, for a model in parts `files: [NAME-*-of-00003.gguf]`"
            yield Remark(True, f"no GGUF file of {recipe.model.repo} is named", remedy)
        if recipe.answers == "embedding" and not recipe.flag("embeddings"):
            problem = f"{recipe.model.repo} gives vectors, and llama-server only where it is told so"
            yield Remark(True, problem, "add the flag embeddings; where it does chat, say so: `answers: chat`")
        tokens, slots = count(recipe.flag(self.CONTEXT)), _slots(recipe)
        if tokens and slots > 1 and not _unified(recipe):
            problem = (
                f"ctx-size {tokens} is divided by parallel {slots}: a question and its answer have {tokens // slots}"
            )
            yield Remark(
                False, f"{problem} tokens", f"set ctx-size to {tokens * slots} for {tokens} each, or kv-unified"
            )
        if not tokens:
            problem = "ctx-size is not set: llama.cpp takes the model's whole context, or as much as it finds room for"
            yield Remark(False, problem, "set ctx-size, so that each start takes the same memory")
        kv = (self.memory(recipe).cache_bytes or 0.0) / 2**30
        yield from room.fits(of, kv_gib=kv)

    def judged_by(self, of: Subject) -> str:
        """A list of one release."""
        return f"the flags of llama.cpp {of.vocabularies[-1]['version']}"


def _patterns(recipe: Recipe) -> list[str]:
    """What names the model's own file, and its projector where no flag names that."""
    named = [] if recipe.flag("mmproj") or recipe.flag("no-mmproj") else [MMPROJ]
    # A draft or an adapter may lie in the model's own repository.
    others = [found.rest.lstrip("/") for found in _referred(recipe) if found.repo == recipe.model.repo]
    files = [each for each in recipe.model.files if each not in others]
    return [each for each in files if "mmproj" not in each.lower() or each in named]


def _referred(recipe: Recipe) -> list[Reference]:
    """Files of repositories that flags name."""
    found: list[Reference] = []

    def see(named: Named) -> str:
        if referred := reference(recipe, named):
            found.append(referred)
        return named.text

    for each in recipe.flags:
        _placed(recipe, each, see)
    return found


def _slots(recipe: Recipe) -> int:
    """0: llama.cpp chooses, and lets them share the context."""
    said = str(recipe.flag("parallel") or "")
    return int(said) if re.fullmatch(r"[1-9]\d{0,3}", said) else 0


def _unified(recipe: Recipe) -> bool:
    return bool(recipe.flag("kv-unified")) and not recipe.flag("no-kv-unified")


def _context(recipe: Recipe) -> int:
    """Tokens of one request; 0: the flags do not say."""
    tokens = count(recipe.flag(LlamaCpp.CONTEXT))
    return tokens if _unified(recipe) else tokens // (_slots(recipe) or 1)


def _reasons_never(recipe: Recipe) -> bool:
    """Whether flags keep the model from reasoning, or leave its words as they are."""
    off = (("reasoning", "off"), ("reasoning-budget", "0"), ("reasoning-format", "none"))
    said = str(recipe.flag("chat-template-kwargs") or "").replace(" ", "")
    return any(str(recipe.flag(name)) == value for name, value in off) or '"enable_thinking":false' in said


def _names(of: Subject) -> Iterator[Remark]:
    """Flags that it does not have. The list is one release's: of a word that is no slip another may know."""
    last = of.vocabularies[-1]
    known, who = last["flags"] or {}, f"llama.cpp {last['version']}"
    for each in of.recipe.flags:
        head = each.words[0].partition("=")[0]
        name = head.lstrip("-").replace("_", "-") if head.startswith("--") else each.name
        if name in words.OLDER or known.get(name, {}).get("removed"):
            remedy = str(known.get(name, {}).get("removed") or words.OLDER.get(name))
            yield Remark(False, f"{who} has no `{head}` any more", f"nothing to do for an older image; else {remedy}")
        elif name in known:
            if known[name].get("takes") == "bare" and each.value is not True:
                yield Remark(True, f"{name} is a switch, and `{str(each.value)[:60]}` stands behind it", "remove that")
            elif known[name].get("takes") != "bare" and each.value is True:
                # A switch until August 2025: an older image takes it so.
                is_new = name != "flash-attn"
                yield Remark(is_new, f"nothing stands behind `{head}`, and {who} wants a value", f"say it: `{head} on`")
        elif meant := slip(name, known):
            yield Remark(True, f"{who} has no flag `{head}`", f"did you mean `{meant}`?")
        else:
            yield Remark(
                False, f"{who} has no flag `{head}`", hint(name, known, "remove it") + " or another build has it"
            )


def _placed(recipe: Recipe, flag: Flag, place: Place) -> list[str]:
    head, equals, inline = flag.words[0].partition("=")
    value = inline if equals else "".join(flag.words[1:2])
    if flag.name not in _FILES or not value:
        return list(flag.words)
    # A GGUF that is named without a folder is the model's repository's: nobody has one beside a recipe.
    is_own = value.endswith(".gguf") and "/" not in value
    kind: Kind | str = "gguf" if value.endswith(".gguf") and not is_own and not value.startswith(MODEL) else "file"
    path = place(Named(head, f"{MODEL}/{value}" if is_own else value, "gguf" if kind == "gguf" else "file"))
    return [f"{head}={path}"] if equals else [head, path, *flag.words[2:]]
