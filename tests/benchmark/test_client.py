"""The client and what it measures against: real processes, a double of an engine that really streams."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import known, prompts, way
from bench.limit import measure, near
from bench.process import Client, _sources, here
from bench.profiles import profile
from bench.ssh import Tunnel, login
from bench.steps import Wanted
from bench.way import Way
from operations.node.look import bench_facts
from operations.plan.config.refusal import Refusal
from operations.plan.engines import counters
from tests.benchmark.doubles.engine import TEMPLATE, answer
from tests.benchmark.doubles.ssh import head
from tests.benchmark.nodes import doubles
from tests.plan.samples import ROOT
from tests.support.waiting import until


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    with doubles(tmp_path, "engine") as (url,):
        yield url


@pytest.fixture
def client() -> Iterator[Client]:
    with here() as found:
        yield found


def place(url: str, **changes: Any) -> Any:
    return {"url": f"{url}/v1", "key": "", "model": "nemotron", "extra": {}, "timeout_s": 20, **changes}


def turn(text: str = "hello there", tokens: int = 8, **changes: Any) -> Any:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": tokens, "exact": True, **changes}


def load(client: Client, url: str, conversations: list[Any], users: int = 1, **changes: Any) -> list[Any]:
    told: list[Any] = []
    client.order("load", told.append, users=users, conversations=conversations, **place(url, **changes))
    return told


def test_a_request_is_timed_and_counted_by_the_server_s_word(engine: str, client: Client) -> None:
    [found] = load(client, engine, [[turn()]])
    assert found["error"] == "" and found["prompt_tokens"] == 2 + TEMPLATE and found["answer_tokens"] == 8
    assert len(found["pieces_s"]) == 8 and found["first_s"] == found["pieces_s"][0] >= 0.02
    assert found["sent_s"] < found["first_s"] < found["done_s"] and found["pieces_s"] == sorted(found["pieces_s"])


def test_a_conversation_grows_by_what_was_answered(engine: str, client: Client, tmp_path: Path) -> None:
    first, second = load(client, engine, [[turn("one"), turn("two")]])
    assert (first["turn"], second["turn"]) == (0, 1) and second["sent_s"] >= first["done_s"]
    bodies = [json.loads(line)["body"] for line in (tmp_path / "engine.requests").read_text().splitlines()]
    said = answer(bodies[0]["messages"])[:8]
    assert [message["content"] for message in bodies[1]["messages"]] == ["one", said, "two"]


def test_users_ask_at_once_and_no_more_than_they_are(engine: str, client: Client) -> None:
    found = load(client, engine, [[turn(f"question {n}", 40)] for n in range(6)], users=3)
    at_once = max(sum(a["sent_s"] < b["done_s"] and b["sent_s"] <= a["sent_s"] for b in found) for a in found)
    assert at_once == 3 and {each["conversation"] for each in found} == set(range(6))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"refuse": True}, "HTTP 500: "),
        ({"break": True}, "the stream ended without its end"),
        ({"stop_after": 5}, "5 tokens came, 8 were asked for"),
        ({"token_s": 30}, "not complete after 1 s"),
    ],
)
def test_what_is_no_whole_answer_says_why(engine: str, client: Client, tmp_path: Path, fault: Any, told: str) -> None:
    (tmp_path / "faults.json").write_text(json.dumps(fault))
    [found] = load(client, engine, [[turn(), turn("and then?")]], timeout_s=1)
    assert told in found["error"] and found["right"] is None, "the rest of a conversation is not asked"


def test_nobody_there_is_an_error_of_the_request(client: Client) -> None:
    [found] = load(client, "http://127.0.0.1:1", [[turn()]])
    assert "ClientConnectorError" in found["error"] and found["first_s"] is None


def test_known_answers_are_held_against_those_given_alone(engine: str, client: Client, tmp_path: Path) -> None:
    learned = known.learn(client, **place(engine))
    assert set(learned) == set(known.QUESTIONS)
    asked = known.conversations(learned, users=4)
    assert all(each["right"] for each in load(client, engine, asked, users=4))
    (tmp_path / "faults.json").write_text('{"wrong": true}')
    assert [each["right"] for each in load(client, engine, asked, users=4)] == [False] * 8


def test_prompts_have_the_wanted_length_by_the_engine_s_word(engine: str, client: Client) -> None:
    def count(texts: Any) -> list[int]:
        asked = [[{"role": "user", "content": text}] for text in texts]
        return list(client.order("count", url=f"{engine}/v1", key="", model="nemotron", prompts=asked)["counts"])

    lengths = [64, 7, 1000, 64]
    made = prompts.make("seed", lengths, count)
    assert count(made) == lengths and len({text[:20] for text in made}) == 4
    assert prompts.make("seed", lengths, count) == made != prompts.make("another", lengths, count)


@pytest.mark.parametrize(
    ("counts", "asked"), [("messages", 0), ("text", 0), ("nothing", 2), ("no template", 2), ("no text", 2)]
)
def test_an_engine_that_does_not_count_is_asked_for_a_token(
    engine: str, client: Client, tmp_path: Path, counts: str, asked: int
) -> None:
    (tmp_path / "faults.json").write_text(json.dumps({"counts": counts}))
    prompts_ = [[{"role": "user", "content": "one two three"}], [{"role": "user", "content": "one"}]]
    told = client.order("count", url=f"{engine}/v1", key="", model="nemotron", prompts=prompts_)["counts"]
    assert told[0] - told[1] == 2
    requests = [each for file in tmp_path.glob("*.requests") for each in file.read_text().splitlines()]
    assert len(requests) == asked


def test_what_counts_in_no_way_is_said_with_its_answer(engine: str, client: Client, tmp_path: Path) -> None:
    told = client.order("count", url=f"{engine}/v2", key="", model="nemotron", prompts=[[turn()["messages"][0]]])
    assert told["problem"].startswith("ValueError: HTTP 404")


@pytest.mark.parametrize("per_word", [0.7, 1.0, 1.3, 3.4, 7.0])
def test_prompts_fit_whatever_a_word_costs(per_word: float) -> None:
    """A double of a tokenizer: words cost what they cost, the last few characters are one token each."""

    def count(texts: Any) -> list[int]:
        return [11 + int(len(text.split()) * per_word) for text in texts]

    [text] = prompts.make("seed", [500], count)
    assert abs(count([text])[0] - 500) <= max(per_word, 1)


def test_a_model_that_is_not_served_is_refused(engine: str, client: Client) -> None:
    wrong = Way(client, {"proxy": f"{engine}/v1"}, "proxy", "gpt-9", "")
    with pytest.raises(Refusal, match="gpt-9 is not served; there is nemotron"):
        wrong.context()
    assert Way(client, {"proxy": f"{engine}/v1"}, "proxy", "nemotron", "").context() == 4096
    with pytest.raises(Refusal, match="does not answer"):
        Way(client, {"proxy": "http://127.0.0.1:1/v1"}, "proxy", "nemotron", "").context()


def test_the_client_s_own_limit_is_measured_and_told_when_it_is_near() -> None:
    requests_s, pieces_s = measure()
    assert requests_s > 10 and pieces_s > requests_s
    assert near(500, 10, 1.0, (100.0, 1000.0)) == pytest.approx(0.6)
    assert near(500, 10, 1.0, (None, None)) == 0


def test_the_client_runs_from_memory_as_it_does_on_the_head(engine: str) -> None:
    from bench.process import _BOOTSTRAP

    with Client([sys.executable, "-I", "-c", _BOOTSTRAP], _sources()) as client:
        assert load(client, engine, [[turn()]])[0]["error"] == ""


def test_the_client_ends_with_whoever_has_started_it(engine: str) -> None:
    order = {"do": "load", "users": 1, "conversations": [[turn(tokens=500)]], **place(engine)}
    process = subprocess.Popen([sys.executable, "-m", "bench.client"], cwd=ROOT, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.close()
    assert process.wait(30) == 0


def test_an_engine_s_counters_are_read_by_the_node_s_program(engine: str, client: Client) -> None:
    before: Any = bench_facts.main(f"{engine}", counters())["counters"]
    load(client, engine, [[turn()], [turn()]])
    after: Any = bench_facts.main(f"{engine}", counters())["counters"]
    assert {name: after[name] - before[name] for name in after} == {
        "requests": 2,
        "prompt_tokens": 2 * (2 + TEMPLATE),
        "answer_tokens": 16,
    }
    assert bench_facts.main("http://127.0.0.1:1", counters())["counters"] is None


def test_counters_of_vllm_are_summed_over_their_labels() -> None:
    text = (
        '# HELP vllm:prompt_tokens_total x\nvllm:prompt_tokens_total{engine="0",model_name="a b"} 1.5e+06\n'
        'vllm:generation_tokens_total{engine="0"} 7.0\nvllm:request_success_total{finished_reason="stop"} 2.0\n'
        'vllm:request_success_total{finished_reason="length"} 3.0\nvllm:gpu_prefix_cache_queries_total{e="0"} 10.0\n'
        'vllm:prefix_cache_hits_total{e="0"} 4.0\nvllm:prompt_tokens_created{engine="0"} 1.7e+09\n'
    )
    assert bench_facts.parse(text, counters()) == {
        "requests": 5,
        "prompt_tokens": 1_500_000,
        "answer_tokens": 7,
        "prefix_asked": 10,
        "prefix_found": 4,
    }
    assert bench_facts.parse('vllm:prompt_tokens_total{engine="0"} 1.0\n', counters()) is None


def test_what_this_machine_can_t_say_is_none() -> None:
    state: Any = bench_facts.main()["state"]
    assert state["energy_j"] is None and state["power_w"] is None and state["available_gib"] > 0


SSH = dict.fromkeys(("hostname", "port", "user", "key", "password", "config_file", "known_hosts_file"))


def test_the_inventory_s_way_to_log_in_is_ssh_s() -> None:
    data = {**SSH, "hostname": "h", "user": "u", "port": 2222, "key": "/k", "known_hosts_file": "/n"}
    words = login({**data, "strict_host_key_checking": "yes"})
    assert words[-1] == "u@h" and words[-3:-1] == ["-p", "2222"] and "StrictHostKeyChecking=yes" in words
    assert "UserKnownHostsFile=/n" in words and words[words.index("-i") + 1] == "/k"
    with pytest.raises(Refusal, match="can't be given ssh_password"):
        login({**data, "password": True, "strict_host_key_checking": None})


def test_no_way_to_the_engines_is_one_line() -> None:
    ssh = login({**SSH, "hostname": "127.0.0.1", "port": 1, "strict_host_key_checking": "no"})
    with pytest.raises(Refusal) as refused:
        Tunnel(ssh, ["http://127.0.0.1:8001"])
    assert "no way to the engines" in str(refused.value) and "refused" in str(refused.value)


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[list[str]]:
    """The real ssh, logged in to a double of the head."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    data = {"hostname": "127.0.0.1", "user": "spark", "key": str(key), "known_hosts_file": str(tmp_path / "hosts")}
    with head() as port:
        yield login({**SSH, **data, "port": port, "strict_host_key_checking": "no"})


def test_an_engine_is_asked_through_the_head(engine: str, client: Client, ssh: list[str], tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text('{"token_s": 0.1}')
    with Tunnel(ssh, [engine]) as tunnel:
        url = tunnel.url(engine)
        assert url != engine
        found = load(client, url, [[turn(f"question {n}", 20)] for n in range(8)], users=4)
        assert [each["error"] for each in found] == [""] * 8
        # Pieces come through one by one, as the engine sends them.
        assert all(len(set(each["pieces_s"])) > 10 for each in found)
    [gone] = load(client, url, [[turn()]])
    assert gone["error"]


def test_a_tunnel_ends_with_whoever_has_opened_it(engine: str, ssh: list[str], tmp_path: Path) -> None:
    code = (
        "import sys, time; from bench.ssh import Tunnel; "
        f"tunnel = Tunnel({ssh!r}, [{engine!r}]); print(tunnel._process.pid, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    own = Path(f"/proc/{process.stdout.readline().strip()}")
    process.kill()
    process.communicate()
    until(lambda: not own.exists() or "ssh" not in (own / "comm").read_text(), 30, logs=lambda: "ssh goes on")


def test_a_tunnel_is_for_what_only_the_head_sees() -> None:
    assert way._is_loopback("http://127.0.0.1:8000") and not way._is_loopback("http://10.0.0.11:8000")


def test_the_same_step_of_another_setup_is_asked_the_same() -> None:
    from bench.conversations import conversations

    def count(asked: list[Any]) -> list[int]:
        return [len(each[0]["content"].split()) for each in asked]

    one, other, repeat = (
        conversations(profile("quick"), Wanted(*which, 64, 16), "1", (), count)
        for which in (("solo", "proxy", 2, 0), ("replicas", "proxy", 2, 0), ("solo", "proxy", 2, 1))
    )
    assert one == other != repeat
