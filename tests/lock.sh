#!/bin/sh
# Renews every lock file: all versions and hashes, no index named in any of them.
set -eu
cd "$(dirname "$0")/.."
lock() { uv pip compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@"; }
lock --universal --python-version 3.11 pyproject.toml -o requirements.lock
lock --universal --python-version 3.11 pyproject.toml requirements-dev.in -o requirements-dev.lock
lock --universal --python-version 3.11 requirements-bench.in -o requirements-bench.lock
lock --universal --python-version 3.11 requirements-manual.in -o requirements-manual.lock
benchy=bench/llama-benchy
lock --universal --python-version 3.11 $benchy/requirements.in -o $benchy/requirements.lock
# The images' Python is Debian bookworm's; wheels alone, so that nothing is compiled in them.
proxy=files/images/proxy
lock --python-version 3.11 --no-build --override $proxy/overrides.txt $proxy/requirements.in -o $proxy/requirements.lock
# torch's CPU wheel is not on PyPI: UV_FIND_LINKS names a folder with it, or UV_INDEX its own index.
engine=tests/lab/images/engine
lock --python-version 3.11 --python-platform x86_64-manylinux_2_36 --no-build \
    --override $engine/overrides.txt $engine/requirements.in -o $engine/requirements.lock
# What builds vLLM on a GB10; its image has Python 3.12.
cutlass=files/images/vllm-sm121-cutlass
lock --python-version 3.12 --python-platform aarch64-manylinux_2_28 --no-build $cutlass/build.in -o $cutlass/build.txt
