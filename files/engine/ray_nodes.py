"""Waits until all nodes have joined this Ray cluster: `ray_nodes.py COUNT [SECONDS]`. Exit 1 when they do not."""

import sys
import time

import ray


def main() -> int:
    """Poll the alive nodes; says who is there when the number changes."""
    wanted = int(sys.argv[1])
    deadline = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 300)
    ray.init(address="auto", log_to_driver=False, logging_level="error")
    seen = -1
    while time.monotonic() < deadline:
        alive = [node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]]
        if len(alive) != seen:
            seen = len(alive)
            print(f"ray: {seen} of {wanted} nodes have joined: {', '.join(sorted(alive))}", flush=True)
        if seen == wanted:
            ray.shutdown()
            return 0
        time.sleep(1)
    print(f"ray: only {seen} of {wanted} nodes joined in time", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
