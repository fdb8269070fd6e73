"""LiteLLM's own command line, which serves Tandem's application in place of its own (application.py).

It listens on the socket $TANDEM_LISTENS and on no port: LiteLLM has no word for that, and uvicorn has (`uds`). The
folder of the socket says who may speak to it.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

# What lies here is found behind everybody else's modules, as where LiteLLM itself looks for callbacks.
sys.path.append(sys.path.pop(0))


def main() -> int:
    """LiteLLM's command line, and its code."""
    # To look for garbage while all of LiteLLM is imported takes time, and finds little.
    gc.disable()
    import uvicorn
    from litellm.proxy.proxy_cli import run_server

    serve = uvicorn.run

    def run(app: str, **settings: Any) -> None:
        """`app`: LiteLLM's own, by its name; `settings`: its command line's."""
        # Now, and no sooner: it loads LiteLLM's proxy, which reads what the command line has set.
        from application import Application

        application = Application()
        gc.enable()
        # What fails before LiteLLM has begun ends this process too: systemd starts it anew.
        serve(application, uds=os.environ["TANDEM_LISTENS"], lifespan="on", **settings)

    uvicorn.run = run
    return int(run_server() or 0)


if __name__ == "__main__":
    sys.exit(main())
