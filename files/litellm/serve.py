"""LiteLLM's own command line, listening on the socket $TANDEM_LISTENS and on no port: it has no word for that itself.

uvicorn, which serves it, has (`uds`). The folder of the socket says who may speak to it.
"""

from __future__ import annotations

import os
import sys
from functools import partial

# What lies here is found behind everybody else's modules, as where LiteLLM itself looks for callbacks.
sys.path.append(sys.path.pop(0))

import uvicorn
from litellm.proxy.proxy_cli import run_server

if __name__ == "__main__":
    uvicorn.run = partial(uvicorn.run, uds=os.environ["TANDEM_LISTENS"])
    sys.exit(run_server())
