"""Where a model and an image come from: a Hub that wants a token, a folder that is built."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.e2e.settled import assert_settled, wait_for
from tests.lab import cluster, model
from tests.lab.cluster import HEAD, begin, deploy, on
from tests.lab.hub import Hub, serve
from tests.lab.settings import ARTEFACTS, MANAGEMENT_NET

FOLDER = model.RECIPE.model.folder

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("solo")]


@pytest.fixture(scope="module")
def solo(lab: None) -> None:
    """One engine, which serves on while the next model comes."""
    done = deploy(topology="solo")
    assert done.code == 0, done.text


class HeldHub(Hub):
    """Keeps the files back until it is let go: a download is under way as long as a test wants."""

    goes = threading.Event()

    def _file(self, repo: str, revision: str, name: str) -> None:
        if self.command == "GET":
            self.goes.wait(120)
        super()._file(repo, revision, name)


@pytest.fixture
def hub() -> Iterator[str]:
    """A Hub on the management network that wants a token; its URL."""
    server = serve(ARTEFACTS / "hub", 8099, token="hf_lab", kind=HeldHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{MANAGEMENT_NET}.1:8099"
    server.shutdown()
    server.server_close()


def test_a_model_comes_from_the_hub_with_a_token(at: dict[str, str], hub: str) -> None:
    wanted = {
        "topology": "solo",
        "model_from": "hub",
        "hub_endpoint": hub,
        "hub_token_file": "/root/hub.token",
        "model_store": "/home/spark/another/hub",
    }
    on(HEAD, "umask 077; echo hf_wrong > /root/hub.token")
    refused = deploy(**wanted)
    assert refused.code == 1
    assert "is gated: accept its terms" in refused.text
    assert "Traceback" not in refused.text
    # The old store's engine serves on.
    assert cluster.complete(at) == 8

    on(HEAD, "echo hf_lab > /root/hub.token")
    killed = begin(**wanted)
    wait_for(lambda: "tandem-download" in cluster.containers(HEAD))
    killed.kill()
    killed.communicate()
    wait_for(lambda: "tandem-download" not in cluster.containers(HEAD))
    assert cluster.complete(at) == 8

    HeldHub.goes.set()
    done = deploy("-vvv", "--diff", **wanted)
    assert done.code == 0, done.text[-5000:]
    assert "hf_lab" not in done.text
    assert cluster.complete(at) == 8
    owners = on(HEAD, "find /home/spark/another -printf '%u\\n' | sort -u").split()
    assert owners == ["spark"]
    assert_settled(**wanted)

    # The Hub's client would take a truncated file for a whole one.
    shard = f"/home/spark/another/hub/{FOLDER}/snapshots/{model.revision()}/model-00001-of-00002.safetensors"
    on(HEAD, f"truncate --size=-100 $(readlink -f {shard})")
    mended = deploy(**wanted)
    assert mended.code == 0, mended.text
    assert "model-00001-of-00002.safetensors is not whole: set aside" in mended.text
    assert_settled(**wanted)

    on(HEAD, "chmod 644 /root/hub.token")
    assert "others can read the token" in deploy(**wanted).text


def test_an_image_is_built_on_the_head(at: dict[str, str]) -> None:
    wanted = {"topology": "solo", "engine_image_from": "build:tests/e2e/images/derived"}
    built = deploy(**wanted)
    assert built.code == 0, built.text
    assert "s were the engine's own start" in built.text
    assert "DERIVED=1" in on(HEAD, "docker inspect tandem-engine")
    assert cluster.complete(at) == 8
    assert_settled(**wanted)
