"""A prompt that keeps a real engine in its prefill for much longer than the canary waits for a sign of life."""

from __future__ import annotations

import math
import time

import openai

from tests.chaos.scene import Scene
from tests.lab.cluster import on
from tests.lab.settings import LabNode

#: Of the first prompt, and of the longest. Digits are one token each.
FIRST_TOKENS, LONGEST_TOKENS = 8_000, 100_000
ANSWER_TOKENS = 24
#: Seconds without a sign of life after which the lab's canary kills: three of its deadlines.
CANARY_S = 3 * 2.0
#: Patiences that the prefill has to take, and those that the next prompt is made for.
TIMES, AIM = 5, 8
#: Prompts until one takes long enough. Each begins with another digit, so they share nothing in a cache.
PROMPTS = 5


def long_prompt(scene: Scene) -> None:
    """Ask longer ones under the load, and the last once more: the same answer, nothing killed, nothing tried again."""
    before = {node: _container(node) for node in scene.engines}
    tokens, waited_s, answer, digit = FIRST_TOKENS, 0.0, "", 0
    for digit in range(PROMPTS):
        read_before = _prompt_tokens(scene)
        waited_s, answer = _ask(scene, tokens, digit)
        read = _prompt_tokens(scene) - read_before
        assert read < 1.5 * tokens, f"engines have read {read:.0f} tokens: it was tried again"
        if waited_s >= TIMES * CANARY_S or tokens == LONGEST_TOKENS:
            break
        # The time of a long one grows with its square. A short one also waits, so the next may be too short as well.
        tokens = min(LONGEST_TOKENS, int(tokens * math.sqrt(AIM * CANARY_S / waited_s)))
    assert waited_s >= TIMES * CANARY_S, f"its prefill took {waited_s:.0f} s: nothing is proven"
    assert {node: _container(node) for node in scene.engines} == before, "an engine was started anew"
    assert _ask(scene, tokens, digit)[1] == answer, "two different answers"
    times = waited_s / CANARY_S
    print(f"chaos: a prefill of {tokens} tokens, {waited_s:.0f} s, {times:.1f} times the canary's patience", flush=True)


def _ask(scene: Scene, tokens: int, first_digit: int) -> tuple[float, str]:
    """Seconds until the first token, and the text."""
    at = scene.at
    client = openai.OpenAI(base_url=at["OPENAI_BASE_URL"], api_key=at["OPENAI_API_KEY"], max_retries=0, timeout=300)
    digits = "".join(str((number * 7919 + first_digit) % 10) for number in range(tokens))
    start, first, text = time.monotonic(), 0.0, ""
    try:
        stream = client.chat.completions.create(
            model=at["OPENAI_MODEL"],
            messages=[{"role": "user", "content": digits}],
            max_tokens=ANSWER_TOKENS,
            temperature=0,
            stream=True,
        )
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                first = first or (time.monotonic() if choice.delta.content else 0.0)
    except openai.OpenAIError as error:
        raise AssertionError(f"not answered after {time.monotonic() - start:.0f} s: {error}") from None
    assert len(text) == ANSWER_TOKENS, f"{len(text)} characters of {ANSWER_TOKENS}"
    return first - start, text


def _container(node: LabNode) -> str:
    return on(node, "docker inspect --format '{{.Id}}' tandem-engine").strip()


def _prompt_tokens(scene: Scene) -> float:
    """What all engines have read since their start."""
    total = 0.0
    for node, url in scene.engines.items():
        lines = on(node, f"curl -sf -m 20 {url}/metrics").splitlines()
        total += sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:prompt_tokens_total"))
    return total
