"""Names of images."""

from __future__ import annotations

import pytest

from operations.plan.recipes.images import without_tag


@pytest.mark.parametrize(
    ("reference", "pulled"),
    [
        ("vllm/vllm-openai:v0.17.1-cu130@sha256:ab", "vllm/vllm-openai@sha256:ab"),
        ("vllm/vllm-openai@sha256:ab", "vllm/vllm-openai@sha256:ab"),
        ("registry.local:5000/vllm@sha256:ab", "registry.local:5000/vllm@sha256:ab"),
        ("registry.local:5000/vllm:v1@sha256:ab", "registry.local:5000/vllm@sha256:ab"),
        ("vllm/vllm-openai:v0.17.1-cu130", "vllm/vllm-openai:v0.17.1-cu130"),
    ],
)
def test_a_digest_needs_no_tag(reference: str, pulled: str) -> None:
    assert without_tag(reference) == pulled
