"""README's picture of the page: `python -m tests.e2e.picture docs/assets/page.png`.

Exporters are doubles, and say what two Sparks under a load might; the program and the browser are the real ones.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.seen import made_small
from tests.node.browser import Door, browse
from tests.node.page_doubles import KEY, Exporter, Page

#: Of a node, beside what a double that is well says.
LOADED = {
    'tandem_gpu_power_watts{gpu="0"}': "61",
    'tandem_gpu_temperature_celsius{gpu="0"}': "63",
    'tandem_gpu_busy_ratio{gpu="0"}': "0.93",
    "tandem_swap_used_bytes": "0",
    'tandem_rail_speed_bits{device="enP2p1s0f0np0"}': "2e11",
}
#: Its upper part: what is smaller than this can't be read beside README's text.
WIDTH, HEIGHT = 1100, 580
#: As an owner's browser would have it.
ADDRESS = "spark-1.local:8000"


class Loaded(Exporter):
    """What an engine under a load counts, beside the tokens that it makes."""

    def metrics(self) -> str:
        of, seconds = '{model_name="nemotron"}', time.time() - self.began
        counted = {
            f"vllm:prompt_tokens_total{of}": 400,
            f"vllm:prefix_cache_queries_total{of}": 400,
            f"vllm:prefix_cache_hits_total{of}": 260,
            **{
                f'vllm:time_to_first_token_seconds_bucket{{le="{edge}",model_name="nemotron"}}': share
                for edge, share in (("0.5", 0.2), ("1.0", 0.9), ("+Inf", 1.0))
            },
        }
        return super().metrics() + "".join(f"{name} {each * seconds}\n" for name, each in counted.items())


def main(to: Path) -> None:
    """Writes the picture; it takes half a minute, in which the page sees figures grow."""
    exporters = {name: Loaded() for name in ("spark-1", "spark-2")}
    for each in exporters.values():
        each.changes = {**LOADED}
    # A second rank answers nobody.
    exporters["spark-2"].changes['tandem_source_up{source="engine"}'] = None
    urls = {name: f"http://127.0.0.1:{each.server_port}" for name, each in exporters.items()}
    with tempfile.TemporaryDirectory() as folder:
        page = Page(Path(folder), urls, topology="cluster", executor="mp")
        door = Door(page.url, KEY)
        time.sleep(32)
        at = f"--host-resolver-rules=MAP {ADDRESS} 127.0.0.1:{door.server_port}"
        size = f"--window-size={WIDTH},{HEIGHT}"
        browse(Path(folder), at, size, f"--screenshot={to}", f"http://{ADDRESS}/tandem/")
        door.end()
        page.end()
    made_small(to)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
