"""Processes that die or hang."""

from __future__ import annotations

from tests.chaos.acts import all_of, send, sh, until_all_answer
from tests.chaos.fault import ALL, BACK, BALANCED, EITHER, KILL, LLAMA, PAIRS, Fault
from tests.lab.cluster import HEAD, WORKER

PROCESSES = [
    Fault("SIGKILL engine container, worker", sh(WORKER, KILL), BACK, (*PAIRS, *BALANCED, *LLAMA[:1])),
    Fault("SIGKILL engine container, head", sh(HEAD, KILL), BACK, (*ALL, *BALANCED, *LLAMA)),
    Fault(
        "SIGKILL engine container, head, as soon as the worker's is back from one",
        # Then both are in the proxy's cooldown at once.
        all_of(sh(WORKER, KILL), until_all_answer, sh(HEAD, KILL)),
        BACK,
        ("replicas", *BALANCED),
    ),
    Fault("SIGKILL Ray head (GCS)", send("KILL", HEAD, "ray/gcs/gcs_server"), BACK, ("cluster/ray",)),
    Fault("SIGKILL raylet, worker", send("KILL", WORKER, "raylet/raylet "), BACK, ("cluster/ray",)),
    Fault("SIGKILL raylet, head", send("KILL", HEAD, "raylet/raylet "), BACK, ("cluster/ray",)),
    Fault("SIGKILL vLLM's worker process", send("KILL", WORKER, "ray::RayWorkerProc"), BACK, ("cluster/ray",)),
    Fault("SIGKILL vLLM's worker process", send("KILL", WORKER, "VLLM::Worker"), BACK, ("cluster/mp",)),
    Fault("SIGKILL vLLM's engine core", send("KILL", WORKER, "VLLM::EngineCore"), BACK, ("replicas", *BALANCED)),
    Fault("SIGKILL vLLM's engine core", send("KILL", HEAD, "VLLM::EngineCore"), BACK, ("cluster/ray", "cluster/mp")),
    Fault("SIGKILL proxy", sh(HEAD, "docker kill tandem-proxy"), BACK, (*EITHER, *BALANCED), on_head=True),
    Fault(
        "SIGSTOP proxy",
        # The newest is the worker, which has the connections.
        sh(HEAD, "kill -STOP $(pgrep -nf '^haproxy ')"),
        "the canary kills it",
        (*ALL, *BALANCED),
        on_head=True,
        of_proxy=True,
    ),
    Fault(
        "SIGKILL a LiteLLM",
        sh(HEAD, "docker kill tandem-litellm-a"),
        "its streams end, nobody else notices",
        (*EITHER, *BALANCED),
        on_head=True,
    ),
    Fault(
        "SIGSTOP a LiteLLM",
        send("STOP", HEAD, "serve.py --config"),
        "out of the way in 3 s; the canary kills it",
        (*EITHER, *BALANCED),
        on_head=True,
    ),
    Fault("SIGKILL dockerd, worker", send("KILL", WORKER, "dockerd -H"), BACK, (*EITHER, *BALANCED)),
    Fault("SIGKILL dockerd, head", send("KILL", HEAD, "dockerd -H"), BACK, EITHER, on_head=True),
    Fault(
        "SIGSTOP API server",
        send("STOP", WORKER, "vllm serve "),
        "the canary kills it",
        ("replicas", *BALANCED),
    ),
    Fault("SIGSTOP API server", send("STOP", HEAD, "vllm serve "), "the canary kills it", ALL[1:]),
    Fault("SIGSTOP llama-server", send("STOP", WORKER, "llama-server "), "the canary kills it", LLAMA[:1]),
    Fault("SIGSTOP llama-server", send("STOP", HEAD, "llama-server "), "the canary kills it", LLAMA[1:]),
    Fault(
        "SIGSTOP engine core", send("STOP", WORKER, "VLLM::EngineCore"), "the canary kills it", ("replicas", *BALANCED)
    ),
    Fault("SIGSTOP engine core", send("STOP", HEAD, "VLLM::EngineCore"), "the canary kills it", ALL[1:]),
    Fault(
        "SIGSTOP worker process", send("STOP", WORKER, "ray::RayWorkerProc"), "the canary kills it", ("cluster/ray",)
    ),
    Fault("SIGSTOP worker process", send("STOP", WORKER, "VLLM::Worker"), "the canary kills it", ("cluster/mp",)),
]
