"""Every route that LiteLLM has, those included that it loads when somebody asks for them.

As a callback of a LiteLLM that runs: written to the file `ROUTES_TO`. As a program, in LiteLLM's own Python: printed.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

# It is read when the application is made.
os.environ["LITELLM_DISABLE_LAZY_ROUTES"] = "1"


def table(routes: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Method (or `websocket`) and path of each; what is mounted, as a path below it."""
    found = []
    for route in routes:
        inner = getattr(route, "effective_candidates", None)
        if inner is not None:
            found += table([*inner(), *route.effective_low_priority_routes()], prefix)
            continue
        # What FastAPI knows of a route of an included router, in place of the route.
        path = f"{prefix}{route.path}"
        kind = type(getattr(route, "original_route", route)).__name__
        if "WebSocket" in kind:
            found.append(("websocket", path))
        elif kind == "Mount":
            found.append(("GET", f"{path}/index.html"))
            found += table(getattr(route, "routes", None) or [], path)
        else:
            found += [(method, path) for method in sorted(route.methods or ["GET"])]
    return found


def main() -> str:
    """The table, as JSON."""
    proxy_server: Any = importlib.import_module("litellm.proxy.proxy_server")

    return json.dumps(sorted(set(table(proxy_server.app.routes))))


if __name__ == "__main__":
    print(main())
elif target := os.environ.get("ROUTES_TO"):
    Path(target).write_text(main())
    callback = importlib.import_module("litellm.integrations.custom_logger").CustomLogger()
