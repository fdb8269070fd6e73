"""Recipes that nobody would write: documents of the three formats with hostile values, and shipped ones, broken."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
#: Two secrets: one by its looks, one by what stands before it.
SHAPED, NAMED = "hf_Planted0Secret", "Planted1Secret"
#: Values as YAML writes them.
VALUES = (
    *("", "''", "null", "true", "'yes'", "no", "-1", "0", "1", "2", "2.5", "1e9", "²", "'٣'", "0x1F", "08", "12:30"),
    *(".inf", "-.inf", ".nan", "1.0e+999", "9" * 25, "9" * 5_000, f"0x{'f' * 5_000}", "2024-02-30", "=", "<<"),
    *("[]", "{}", "[1, {a: [b]}]", "{a: {b: {c: d}}}", "[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]", "{1: 2}"),
    *("!!set {a, b}", "!!python/object:os.system x", "!!int x", "!!bool x", "!!binary eA==", "!x", "*a", "&a [*a]"),
    *('"\\0"', '"\\ud800"', '"\\e[31m"', '"\\u202e"', "'a\u00a0b'", "'[red]'", "'\U0001f600'"),
    *("a b", "|-\n    a\n    b"),
    *("vllm-node", "'vllm node --privileged'", "org/model", "../..", "/models/x", "org/model/x", "-x/y", "x" * 300),
    *("vllm", "vllm-ray", "sglang", "trtllm", "tensorrt-llm", "solo", "cluster", "clusterr", "'2'"),
    *("1", "~/x", "/dev/zero"),
    *("'{port}'", "'{a}{a}{a}'", "'{b}{b}'", "'{port:>99999999}'", "'{a.b}'", "'${HOME}'", "'`x`'", f"'{SHAPED}'"),
    *("'{\"method\": \"mtp\"}'", "'{\"a\": [1e999, " + "[" * 200 + "'", "'" + "[" * 3_000 + "'", "'" + "(" * 300 + "'"),
)  # fmt: skip
KEYS = (
    *("recipe_version", "name", "description", "model", "container", "command", "mods", "defaults", "env", "runtime"),
    *("build_args", "cluster_only", "solo_only", "mode", "min_nodes", "max_nodes", "metadata", "runtime_config"),
    *("model_revision", "pre_exec", "include", "engine", "engine_version", "image", "served_name", "topologies"),
    *("needs", "load_minutes", "flags", "config", "proof", "registries", "framework", "benchmark", "1", "null", "'é'"),
)
INNER = (
    *("port", "host", "tensor_parallel", "max_model_len", "gpu_memory_utilization", "served_model_name", "a", "b"),
    *("speculative_config", "kv-cache-memory-bytes", "max-num-batched-tokens", "enforce_eager", "VLLM_LOGGING_LEVEL"),
    *("memory_gib", "solo", "weights_gib", "repo", "revision", "expect", "forbid", "kv_cache_dtype", "PATH", "1"),
)
PIECES = (
    *("vllm serve", "vllm serve org/model", "trtllm-serve org/model", "python3 -m vllm.entrypoints.openai.api_server"),
    *("bash -c", "sh -lc '", "exec", "export A=1", "A=$B", "A=$A$A$A$A", "B=${A}${A}${A}", "env", "cat <<EOF", "EOF"),
    *("{model}", "{port}", "{a}", "{b}", "{tensor_parallel}", "{port:>9}", "{a.b}", "{a[0]}", "{"),
    *("}", "{{", "}}", "{}"),
    *("'", '"', "\\", "\\\n", "\n", "\n\n", "#", "# x", "&&", "|", ";", ">", "2>&1", "$", "${"),
    *("$(", "`", "~", "\t", "\r"),
    *("--port {port}", "-tp 2", "-tp ²", "-pp 2", "-dp", "--host", "--a", "--a=", "--", "-", "-1", "--no-", "--x.y 1"),
    *("--max-model-len 9" + "9" * 400, "--gpu-memory-utilization 1e999", "--gpu-memory-utilization nan", "-O3"),
    *("--kv-cache-memory-bytes 1.1.1G", "--kv-cache-memory-bytes ²", "--max-num-batched-tokens ²"),
    *("--served-model-name",),
    *("--speculative-config '{\"model\": 1}'", "--speculative-config " + "[" * 2_000, "--speculative-config '[1]'"),
    *("--enable-prefix-caching", "--tool-call-parser x", "--dtype x", "--runner pooling"),
    *("mkdir -p /x", "tee x", "ray"),
    *("curl -H 'Authorization: Bearer " + SHAPED + "'", f"--api-key {NAMED}", f"HF_TOKEN={NAMED}"),
    *(f"export X_API_KEY={NAMED}",),
    *("\u00a0", "é", "\u2028", "“x”", "x" * 200, "--a 1 " * 50, "${" * 50, "$A" * 50, "((((", "ulimit -l unlimited"),
)  # fmt: skip
SEEDS = tuple(
    file.read_text()
    for folder in ("files/recipes", "tests/plan/peers")
    for file in sorted((ROOT / folder).glob("*.yaml"))
)
_BASES = (
    "recipe_version: '1'\nmodel: org/model\ncontainer: vllm-node\n",
    "recipe_version: '2'\nmodel: org/model\nruntime: vllm\ncontainer: vllm-node\n",
    f"engine: vllm\nname: x\nimage: x\nmodel: {{repo: org/model, revision: {'0' * 40}}}\nserved_name: x\n"
    "topologies: [solo, cluster]\nload_minutes: 1\ndescription: x\nsource: x\n",
)

_value = st.one_of(
    st.sampled_from(VALUES),
    st.dictionaries(st.sampled_from(INNER), st.sampled_from(VALUES), max_size=4).map(
        lambda of: "".join(f"\n  {key}: {value}" for key, value in of.items()) or "{}"
    ),
    st.text(max_size=20).map(repr),
)


def _command(pieces: list[str]) -> str:
    """A command as a block of YAML."""
    return "command: |\n" + "".join(f"  {line}\n" for line in " ".join(pieces).split("\n"))


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A document from the grammar of one of the formats, with values that do not belong there."""
    text = draw(st.sampled_from(_BASES))
    if draw(st.booleans()):
        text += _command(["vllm serve org/model", *draw(st.lists(st.sampled_from(PIECES), max_size=12))])
    for key, value in draw(st.lists(st.tuples(st.sampled_from(KEYS), _value), max_size=5)):
        replaced = re.compile(rf"^{re.escape(key)}:.*$(\n  .*)*", re.MULTILINE)
        line = f"{key}: {value}"
        in_place = draw(st.booleans()) and replaced.search(text)
        text = replaced.sub(lambda _, line=line: line, text) if in_place else f"{text}{line}\n"  # type: ignore[misc]
    return text + draw(st.sampled_from(("", f"env:\n  X_API_KEY: {NAMED}\n  MY_PASSWORD: {NAMED}\n", "---\na: b\n")))


@st.composite
def broken(draw: st.DrawFn, seeds: tuple[str, ...] = SEEDS) -> str:
    """A recipe that exists, changed in up to eight places."""
    text = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 8))):
        at, to = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        lines = text.split("\n")
        line = draw(st.integers(0, len(lines) - 1))
        match draw(st.integers(0, 7)):
            case 0:
                text = text[:at] + draw(st.sampled_from(VALUES + PIECES)) + text[at:]
            case 1:
                text = text[:at] + text[min(to, at + 40) :]
            case 2:
                text = text[:at] + text[at : at + 200] * draw(st.integers(2, 9)) + text[at:]
            case 3:
                text = "\n".join([*lines[:line], *lines[line + 1 :]])
            case 4:
                text = "\n".join([*lines[: line + 1], *lines[line:]])
            case 5:
                key = lines[line].partition(":")[0]
                text = "\n".join([*lines[:line], f"{key}: {draw(_value)}", *lines[line + 1 :]])
            case 6:
                text = "\n".join(
                    [*lines[:line], draw(st.sampled_from((" ", "  ", "\t", "- "))) + lines[line], *lines[line + 1 :]]
                )
            case _:
                text = text[:at] + draw(st.characters()) + text[at:]
    return text
