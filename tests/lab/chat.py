"""The end of a rehearsal: one chat through the proxy, and how to have another."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time

import requests

from operations.paths import PROXY_KEY
from tests.lab.settings import LabNode

INVENTORY = "tests/lab/inventory.py"


def endpoint(inventory: str = INVENTORY) -> dict[str, str]:
    """What `tandem endpoint` prints, read back."""
    argv = ["pyinfra", "-y", inventory, "operations/verbs/endpoint.py"]
    done = subprocess.run([sys.executable, "-m", *argv], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    return {name: shlex.split(value)[0] for name, value in (line.split("=", 1) for line in lines)}


def ask(
    base_url: str, key: str, model: str, prompt: str, max_tokens: int = 16, *, logprobs: bool = False
) -> dict[str, object]:
    """One chat completion; the answer's JSON. Raises requests.HTTPError."""
    asked = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens}
    answer = requests.post(
        f"{base_url}/chat/completions",
        headers={"Authorization": f"Bearer {key}"},
        json={**asked, "logprobs": True} if logprobs else asked,
        timeout=120,
    )
    answer.raise_for_status()
    found: dict[str, object] = answer.json()
    return found


def main() -> None:
    """Chat, and print address, key's place and a command to try. In argv: the inventory, where it is not INVENTORY."""
    inventory = next(iter(sys.argv[1:]), INVENTORY)
    at = endpoint(inventory)
    if "SSL_CERT_FILE" in at:
        os.environ["REQUESTS_CA_BUNDLE"] = at["SSL_CERT_FILE"]
    url, model = at["OPENAI_BASE_URL"], at["OPENAI_MODEL"]
    start = time.monotonic()
    answer = ask(url, at["OPENAI_API_KEY"], model, "Are you two?")
    seconds = time.monotonic() - start
    head = LabNode(0)
    print(f"""
The rehearsal has ended well: a chat was answered in {seconds:.1f} s ({answer["usage"]}).
The model's weights are random, so its words are noise; everything around it is real.
They never end by themselves: ask it for few (max_tokens).

  address   {url}
  key       {PROXY_KEY} on {head.name} (mode 0600); `tandem endpoint --inventory {inventory}` prints it
  try       eval "$(make -s endpoint INVENTORY={inventory})"
            curl -s $OPENAI_BASE_URL/chat/completions -H "Authorization: Bearer $OPENAI_API_KEY" \\
              -H 'Content-Type: application/json' \\
              -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}], "max_tokens": 16}}'
  look      make status INVENTORY={inventory}
  end       make lab-down
""")


if __name__ == "__main__":
    main()
