"""How much one request may ask for, and what it has cost that its client left."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.node.door_double import Setup, a_door
from tests.node.shipped import part

__all__ = ["a_door"]

bounds, events, limits = part("litellm", "door_bounds"), part("litellm", "events"), part("litellm", "door_limits")
keys, media = part("litellm", "door_keys"), part("litellm", "media")
#: A picture of one pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def wrong(asked: dict[str, Any], path: str = "chat/completions") -> str:
    """As the door reads a body of JSON."""
    return str(bounds.numbers(asked) or bounds.wrong(path, asked, media.find(asked)))


def deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def form(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}


#: As many as an agent with several servers of tools has.
TOOLS = [
    {"function": {"name": f"f{n}", "parameters": {"properties": {f"p{m}": {"type": "string"} for m in range(8)}}}}
    for n in range(240)
]


def picture(url: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"messages": [0] * 9}, "each is an object"),
        ({"messages": [{}] * 10_001}, "10001 are too many, 10000 are the most"),
        ({"messages": [{"content": [{}] * 20_001}]}, "more than 20000 parts"),
        ({"messages": "hi"}, "a list is wanted"),
        ({"prompt": ["a"] * 2_049}, "`prompt`: 2049 are too many"),
        ({"input": ["a"] * 2_049}, "`input`: 2049 are too many"),
        ({"documents": ["a"] * 2_049}, "`documents`: 2049 are too many"),
        ({"stop": ["a"] * 65}, "`stop`: 65 are too many"),
        ({"logit_bias": {str(n): 1 for n in range(4_097)}}, "`logit_bias`: 4097 are too many"),
        ({"input": [{"text": "a"}] * 2_049}, "`input`: 2049 are too many"),
        ({"label_token_ids": list(range(101))}, "`label_token_ids`: 101 are too many"),
        ({"dry_sequence_breakers": ["a"] * 65}, "`dry_sequence_breakers`: 65 are too many"),
        ({"bad_words": ["a" * 10_000_000]}, "more than 16384 characters together"),
        ({"stop": "a" * 16_385}, "more than 16384 characters together"),
        ({"guided_choice": ["x" * 16_000] * 4_000}, "more than 262144 characters together"),
        ({"stop_regex": "(a+)+$"}, "name words in `stop`"),
        ({"grammar_triggers": [{"type": 2, "value": "((x+x+)+)+y"}]}, "name words in `stop`"),
        ({"input": ["a"], "padding": "max_length"}, "leave it out"),
        ({"max_dynamic_patch": 9}, "leave it out"),
        (picture({"url": f"data:;base64,{PNG}", "max_dynamic_patch": 9}), "leave it out"),
        ({"messages": [{"tools": [{"parameters": {"pattern": "((a{0,99}){0,99}){0,99}"}}]}]}, "multiply to"),
        ({"tools": TOOLS * 6}, "tools of a request have more than 20000 values"),
        ({"tools": TOOLS, "tool_choice": "required"}, "more than 5000 values"),
        ({"tools": TOOLS, "tool_choice": {"function": {"name": "f1"}}}, "more than 5000 values"),
        ({"tools": [each | {"strict": True} for each in TOOLS]}, "more than 5000 values"),
        (form(deep(400)), "more than 64 deep"),
        (form({"enum": list(range(5_000))}), "more than 5000 values"),
        ({"tools": [{"function": {"parameters": deep(400)}}]}, "more than 64 deep"),
        ({"guided_regex": "a" * 16_385}, "more than 16384 characters"),
        ({"messages": [{"content": [{"source": {"type": "url", "url": "http://10.0.0.1"}}]}]}, "data: URL"),
        ({"messages": [{"content": [1, {"image_url": "http://10.0.0.1"}]}]}, "data: URL"),
        (
            {"messages": [{"content": [{"type": "tool_result", "content": [{"source": {"url": "http://a"}}]}]}]},
            "data: URL",
        ),
        ({"input": [{"content": [{"type": "input_image", "image_url": "http://10.0.0.1"}]}]}, "data: URL"),
        ({"documents": {"content": [{"image_url": {"url": "http://10.0.0.1"}}]}}, "data: URL"),
        ({"query": {"content": [{"image_url": {"url": "http://10.0.0.1"}}]}}, "data: URL"),
        ({"input": [{"content": [{"type": "input_text"}] * 200_001}]}, "more than 200000 values"),
        ({"text_1": ["a"] * 2_049, "text_2": "b"}, "`text_1`: 2049 are too many"),
        ({"text": {"format": {"type": "json_schema", "schema": deep(400)}}}, "more than 64 deep"),
        ({"output_config": {"format": {"schema": deep(400)}}}, "more than 64 deep"),
        (picture("http://127.0.0.1:8020/metrics"), "send it as a data: URL"),
        (picture({"url": "http://0x7f000001/"}), "send it as a data: URL"),
        (picture({"url": "file:///etc/passwd"}), "send it as a data: URL"),
        (picture({"url": "http://[::1"}), "send it as a data: URL"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_would_cost_an_engine_s_server_seconds_is_refused(asked: dict[str, Any], words: str) -> None:
    began = time.process_time()
    assert words in wrong(asked)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "asked",
    [
        {"messages": [{"role": "user", "content": "hi"}] * 2_000},
        {"prompt": list(range(100_000))},
        {"input": list(range(100_000))},
        {"tools": TOOLS},
        {"tools": [{"type": "function", "strict": True}, *TOOLS]},
        {"input": [{"type": "tool_search_output", "tools": [{"type": "namespace", "tools": TOOLS}]}]},
        {"messages": [{"tool_calls": [{"name": "write", "parameters": {"text": "a" * 17_000}}]}]},
        picture({"url": f"data:;base64,{PNG}", "max_dynamic_patch": None}),
        {"prompt": {"prompt_string": "a", "multimodal_data": ["SUQzAAAA", "UklGRgAAAABXQVZF"]}},
        {"input": [{"content": [{"type": "input_file", "file_data": "data:application/pdf;base64,AAAA"}]}]},
        {"messages": [{"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}]},
        {"tools": TOOLS, "tool_choice": {"type": "auto"}},
        {"guided_json": json.dumps({"enum": ["a" * 100] * 300})},
        {"documents": [{"text": "a cat", "image": "cat.jpg", "source_url": "https://10.0.0.1/cat"}]},
        form(deep(20)),
        form({"enum": list(range(1_000))}),
        picture({"url": f"data:image/png;base64,{PNG}"}),
        picture(f"DATA:image/png;base64,{PNG}"),
        {"messages": [{"content": [{"type": "image", "source": {"type": "base64", "data": PNG}}]}]},
        {"input": "Look at http://10.0.0.1"},
        # What a tool was told, a page that it has opened, and what an answer is taken from, are no pictures.
        {"messages": [{"content": [{"type": "tool_use", "name": "fetch", "input": {"url": "http://10.0.0.1/"}}]}]},
        {"input": [{"type": "web_search_call", "action": {"type": "open_page", "url": "http://10.0.0.1/"}}]},
        {"input": [{"type": "web_search_call", "action": {"sources": [{"type": "url", "url": "http://10.0.0.1/"}]}}]},
        {"input": [{"content": [{"annotations": [{"type": "url_citation", "url": "http://10.0.0.1/"}]}]}]},
        {"messages": [{"content": [{"type": "search_result", "source": "https://10.0.0.1/", "content": []}]}]},
        {"messages": [{"tool_calls": [{"function": {"arguments": {"file": "main.py", "image_url": "a.png"}}}]}]},
        {"documents": [{"title": "a", "text": "b", "source": "wiki/page", "file": "a.md"}]},
        {"messages": [{"content": [{"type": "document", "source": {"type": "text", "data": "a text"}}]}]},
        {"messages": [{"content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,AA"}}]}]},
        {"messages": [{"content": [{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]}]},
        picture(f"data:image/png;charset=utf-8;base64,{PNG}"),
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "http://10.0.0.1"}]}]},
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_people_ask_for_passes(asked: dict[str, Any]) -> None:
    assert wrong(asked) == ""


def test_a_host_that_the_owner_has_named_may_be_asked_for_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MEDIA_DOMAINS", frozenset({"images.example.org"}))
    assert wrong(picture({"url": "https://images.example.org/a.png"})) == ""
    assert wrong(picture({"url": "https://images.example.org.evil.test/a.png"}))
    assert wrong(picture({"url": "https://images.example.org@evil.test/a.png"}))


@pytest.mark.parametrize(
    "url",
    [
        # What one reader takes for a user's name is another one's path.
        "http://127.0.0.1:8022\\@images.example.org/x",
        "http://127.0.0.1:8022 @images.example.org/x",
        "http://images.example.org\t.evil.test/x",
        "http://a@images.example.org/x",
        "ftp://images.example.org/x",
        "file://images.example.org/etc/passwd",
        "/etc/passwd",
        "//images.example.org/x",
    ],
)
def test_what_two_readers_would_read_differently_is_fetched_from_nobody(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(bounds, "MEDIA_DOMAINS", frozenset({"images.example.org"}))
    assert "from this host it is not fetched" in wrong(picture({"url": url}))


@pytest.mark.parametrize(
    "asked",
    [
        {"data_1": {"content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x"}}]}, "data_2": "a"},
        {"input": [{"text": "a", "image": "http://127.0.0.1/x"}]},
        {"input": [{"text": "a", "image": "/etc/passwd"}]},
        {"input": [{"text": "a", "video": "http://127.0.0.1/x"}]},
        {"previous_input_messages": [{"content": [{"type": "image_url", "image_url": "http://127.0.0.1/x"}]}]},
        {"messages": [{"content": [{"type": "image", "url": "http://127.0.0.1/x"}]}]},
        {"messages": [{"content": [{"type": "file", "file": {"file_data": "x", "url": "http://127.0.0.1/x"}}]}]},
        {"messages": [{"content": [{"type": "a", "video_url": {"type": "text", "url": "http://127.0.0.1/x"}}]}]},
        {"messages": [{"content": [{"type": "a", "file": {"type": "text", "url": "http://127.0.0.1/x"}}]}]},
        {"messages": [{"content": [{"type": "document", "source": {"type": "text", "url": "http://127.0.0.1/x"}}]}]},
        {"input": [{"type": "text", "image": "http://127.0.0.1/a.png"}]},
        {"documents": [{"content": [{"type": "image_url", "image_url": "http://127.0.0.1/x"}]}]},
        {"ref_audio": "http://127.0.0.1/x"},
        picture("http://images.example.org/" + "a" * 5_000),
    ],
    ids=str,
)
def test_a_place_is_found_under_all_names_that_engines_read(asked: dict[str, Any]) -> None:
    assert "from this host it is not fetched" in wrong(asked)


def test_names_and_patterns_are_looked_through_for_no_longer_than_a_moment() -> None:
    """Each of these was several seconds, in which the loop stood still."""
    slow = "~" + " " * 18
    bodies: list[dict[str, Any]] = [
        {"response_format": {"schema": {"patternProperties": {slow * 3_300_000: {}}}}},
        {"tools": [{"parameters": {"pattern": [slow * 860] * 4_000}}]},
        {"tools": [{"parameters": {str(n): '{"a":[' + "1," * 8_000 for n in range(4_000)}}]},
    ]
    for body in bodies:
        began = time.process_time()
        assert "characters together" in wrong(body)
        assert time.process_time() - began < 0.5


def test_a_conversation_has_more_than_a_batch() -> None:
    said = [{"role": "user", "content": "a"}]
    assert wrong({"input": said * 10_000}, "responses") == ""
    assert "10001 are too many" in wrong({"input": said * 10_001}, "responses")


def test_a_file_is_no_text() -> None:
    own = {"type": "input_file", "file_data": "a" * 99}, {"type": "image", "data": "a" * 99, "mimeType": "image/png"}
    for each in own:
        assert [len(found.data) for found in media.find({"input": [{"content": [each]}]}).media] == [99]


def test_where_pictures_stand_is_looked_for_once_in_each_part() -> None:
    """Each of these was seconds: names times parts, and a pattern that was tried on all of a text."""
    many: list[dict[str, int]] = [{}] * 20_000 + [{f"{n}_url": 0 for n in range(20_000)}]
    bodies = [
        {"system": many},
        picture({"url": f"data:{'a' * 8_000_000}!,x"}),
        picture("data:image/png," + "A\n" * 4_000_000),
    ]
    for body in (*bodies, picture("data:image/png;base64," + "=" * 8_000_000)):
        began = time.process_time()
        wrong(body)
        assert time.process_time() - began < 0.5


def test_pictures_of_llama_cpp_s_prompts_are_pictures() -> None:
    assert "a picture is a PNG" in wrong({"prompt": {"prompt_string": "a", "multimodal_data": [PNG, "AAAA"]}})
    asked = {"prompt": {"prompt_string": "a", "multimodal_data": [PNG]}}
    assert wrong(asked) == "" and len(media.find(asked).media) == 1


@pytest.mark.parametrize("said", [2.0, "2", 2, "2.0", "2_0", True, 2.5, -1, [2], "٢", 1e300, "9" * 400])
def test_a_number_is_a_whole_one_for_the_door_and_the_engine(said: Any) -> None:
    """pydantic reads "2000.0" as 2000, and `int` does not: the door would count one answer."""
    asked = {"n": said}
    if said in (2, "2") and said is not True:
        assert wrong(asked) == "" and asked["n"] == 2 and type(asked["n"]) is int
    elif said == -1:
        assert wrong(asked) == ""
    else:
        assert "a whole number is wanted" in wrong(asked)


@pytest.mark.parametrize(("name", "said"), [("logprobs", -1), ("top_logprobs", 101), ("n_probs", 100_000)])
def test_how_many_words_are_told_for_each_token_is_bounded(name: str, said: int) -> None:
    assert "0 to 100 is wanted" in wrong({name: said})
    assert wrong({"logprobs": True, "top_logprobs": 20}) == ""


@pytest.mark.parametrize(
    ("asked", "is_refused"),
    [
        ({"prompt_logprobs": 0}, True),
        ({"prompt_logprobs": None}, False),
        ({"echo": True, "logprobs": 1}, True),
        ({"echo": True, "logprobs": 0}, True),
        ({"echo": True, "top_logprobs": 1}, True),
        ({"echo": True, "logprobs": True}, True),
        ({"echo": True, "logprobs": False}, True),
        # vLLM tells of a question's tokens where a chat is echoed.
        ({"echo": True, "messages": []}, True),
        ({"echo": False, "messages": [], "logprobs": True}, False),
        ({"echo": True, "prompt": "a"}, False),
        ({"logprobs": 5}, False),
    ],
    ids=str,
)
def test_words_of_the_question_are_told_to_the_owner_alone(
    setup: Setup, asked: dict[str, Any], is_refused: bool
) -> None:
    """All words of a vocabulary for each token of a long prompt: engines have ended for memory over it."""
    body = part("litellm", "door_body")
    for name, is_told in (("alice", is_refused), ("owner", False)):
        token = body.visiting.set(limits.Visit(keys.Key(name, "a")))
        assert bool(body.not_for_clients(asked)) == is_told
        body.visiting.reset(token)


def test_a_cache_is_fetched_from_no_host_that_a_client_names() -> None:
    assert "leave it out" in wrong({"kv_transfer_params": {"remote_host": "10.0.0.1"}})
    assert "leave it out" in wrong({"bootstrap_host": "10.0.0.1"})


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "base64", "media_type": f"image/png;base64,{PNG},", "data": PNG}},
        {"type": "image", "source": {"type": "base64", "media_type": f"image/png;base64,{PNG}#", "data": PNG}},
        {"type": "video_url", "video_url": {"url": f"data:/video/jpeg;base64,{PNG}"}},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": f"wav;base64,{PNG},"}},
    ],
    ids=lambda part: str(part["type"]),
)
def test_what_data_are_said_to_be_is_no_more_data(part: dict[str, Any]) -> None:
    """Engines write it before them, and read what stands behind the first comma."""
    assert "is said as in image/png" in wrong({"messages": [{"content": [part]}]})


def test_whole_numbers_are_found_wherever_they_would_be_rounded() -> None:
    for said in ({"content": [{"id": 1e23}]}, {"content": [{"type": "tool_use", "input": {"id": 1e23}}]}):
        assert media.find({"messages": [said]}).is_rounded
    assert not media.find({"messages": [{"content": [{"x": 0.5}]}]}).is_rounded


def test_events_are_whole_wherever_their_parts_end() -> None:
    said = b"data: one\n\ndata: two\n\ndata: [DONE]\n\n"
    for size in range(1, len(said) + 1):
        found, stream = b"", events.Events()
        for at in range(0, len(said), size):
            whole = stream.take(said[at : at + size])
            assert whole.endswith(b"\n\n") or not whole
            found += whole
        assert found == said and len(stream) == 0
    stream = events.Events()
    assert stream.take(b"data: half") == b"" and stream.rest() == b"data: half"


def test_a_long_event_is_looked_at_once() -> None:
    began, stream = time.process_time(), events.Events()
    for _ in range(8_192):
        stream.take(b"x" * 8_192)
    assert len(stream) == 64 << 20
    # Each part would be copied behind all before it: 8.8 s.
    assert time.process_time() - began < 2


def test_each_answer_counts_as_a_request() -> None:
    """A key for two requests at once is none for a thousand answers in one."""
    key = keys.Key("alice", "a", requests=3)
    of = limits.Limits()
    one, two = limits.Visit(key), limits.Visit(key)
    with of.under_way(one):
        assert of.weigh(one, 3) is None
        assert of.refuse(key, 0.0).what == "requests"
    with of.under_way(one), of.under_way(two):
        assert of.weigh(two, 1) is None
    with of.under_way(two):
        assert of.weigh(two, 4).what == "requests"
        assert of.refuse(key, 0.0) is None


def test_a_request_that_its_client_leaves_has_cost_its_question(setup: Setup) -> None:
    setup.key("alice", tokens=100)
    tokens = part("litellm", "door_body")._tokens
    visit = limits.Visit(keys.Key("alice", "a", tokens=100))

    def asked(body: dict[str, Any]) -> int:
        return int(tokens(len(json.dumps(body, separators=(",", ":"))), media.find(body)))

    # As JSON the longest of these have four characters and a comma.
    visit.asked = asked({"prompt": [1] * 5_000})
    assert visit.asked == 5_000 and visit.tokens == 0
    assert asked({"prompt": [[1.0] * 5_000]}) >= 5_000
    for more in ({}, {"type": "image"}):
        # A picture is one, wherever its type is said.
        assert 1_500 < asked(picture({"url": "data:image/png;base64," + "a" * 2_000_000, **more})) < 3_000
    assert asked({"prompt": "a" * 400_000, **picture({"url": f"data:;base64,{PNG}", "type": "image"})}) > 100_000
    # Wherever an engine reads it.
    text = "a" * 4_000
    for said in (
        {"messages": [{"role": "user", "content": text}]},
        {"tools": [{"type": "function", "function": {"name": "f", "description": text}}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": text}}]}]},
        {"messages": [{"role": "assistant", "reasoning_content": text}]},
        {"messages": [{"content": [{"type": "tool_use", "input": {"text": text}}]}]},
        {"input": [{"type": "function_call_output", "output": text}]},
        {"text_1": text},
        {"chat_template_kwargs": {"x": text}},
        {"messages": [{"content": [{"type": "document", "source": {"type": "text", "data": text}}]}]},
        # A number of this name stands for a sound in forms alone.
        {"prompt": text, "file": 4_000},
    ):
        assert 1_000 <= asked(said) < 1_050, said.keys()
    visit.was_asked = True
    assert visit.tokens == 5_000
    # What an engine refuses it has not read.
    visit.status = 400
    assert visit.tokens == 0


def test_what_explains_a_tool_to_a_model_is_no_grammar() -> None:
    """Claude Code explains its tools on many pages."""
    parameters = {"type": "object", "properties": {"a": {"type": "string", "description": "a" * 20_000}}}
    tool = {"name": "x", "description": "a" * 40_000, "input_schema": parameters}
    assert wrong({"tools": [tool]}) == ""
    assert "16384" in wrong({"tools": [{"name": "x", "input_schema": {"pattern": "a" * 20_000}}]})
    # A property of that name is none of it.
    named = {"properties": {"description": {"pattern": "a" * 20_000}}}
    assert "16384" in wrong({"tools": [{"name": "x", "input_schema": named}]})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"bad_words": ["a"] * 65}, "`bad_words`: 65 are too many, 64 are the most"),
        ({"allowed_token_ids": [1] * 4_097}, "`allowed_token_ids`: 4097 are too many"),
        ({"chat_template": "{% for a in range(9) %}{% endfor %}"}, "`chat_template`: a request brings no template"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "`chat_template_kwargs.chat_template`: a request brings no"),
        ({"mm_processor_kwargs": {"max_pixels": 10**9}}, "`mm_processor_kwargs`: how pictures, films and sounds"),
        ({"media_io_kwargs": {"video": {"num_frames": -1}}}, "`media_io_kwargs`: how pictures, films and sounds"),
        (
            {"tools": [{"type": "mcp", "server_url": "http://127.0.0.1:2375/"}]},
            "`server_url`: from this host nothing is fetched",
        ),
    ],
)
def test_what_an_engine_would_run_ask_or_look_for_on_a_client_s_word(asked: dict[str, Any], words: str) -> None:
    assert words in wrong(asked)


def test_words_of_clients_that_ask_for_little_pass() -> None:
    asked = {
        "bad_words": ["no"] * 64,
        "allowed_token_ids": [1] * 4_096,
        "chat_template": None,
        "chat_template_kwargs": {"enable_thinking": False},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    }
    assert wrong(asked) == ""


NESTED = "(.{0,30}x){30}"
#: Its counts multiply; one of a list of patterns that are each small enough.
MUCH = "a{7000}"


@pytest.mark.parametrize(
    "asked",
    [
        {"guided_regex": NESTED},
        {"regex": NESTED},
        {"grammar": f"root ::= {NESTED}"},
        {"structured_outputs": {"regex": "a{1,9}{9}{99}"}},
        {"structured_outputs": {"json": '{"type": "string", "pattern": "(.{0,30}x){30}"}'}},
        {"guided_grammar": 'root ::= ( ")" [a-z]{100} "(" ){100}'},
        {"ebnf": '# a " quote\nroot ::= ((a{ 1, 9 } b){,9} c){99,}'},
        {"guided_grammar": "start: (WORD~1..30 NUMBER)~30"},
        form({"type": "string", "pattern": f"^{NESTED}$"}),
        form({"type": "object", "patternProperties": {NESTED: {}}}),
        {"tools": [{"function": {"parameters": {"properties": {"a": {"pattern": NESTED}}}}}]},
        {"tools": [{"name": "x", "input_schema": {"properties": {"a": {"pattern": NESTED}}}}]},
        {"text": {"format": {"type": "json_schema", "schema": {"pattern": NESTED}}}},
        {"guided_regex": "(a{1,99999999999999999999}){2}"},
    ],
    ids=lambda value: str(value)[:60],
)
def test_counts_within_counts_are_refused(asked: dict[str, Any]) -> None:
    words = wrong(asked)
    assert "multiply to" in words and "800 are the most: use `*` or `+`" in words


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (form({"anyOf": [{"pattern": MUCH}, {"pattern": MUCH}, {"pattern": MUCH}]}), "are 21000 characters"),
        ({"regex": "a{1,20001}"}, "are 20001 characters with their counts written out, 20000 are the most"),
        (form({"anyOf": [{"pattern": "a{1}" * 1_000} for _ in range(5)]}), "more than 16384 characters together"),
        ({"guided_json": '{"a":' * 400 + "1" + "}" * 400}, "more than 64 deep"),
        ({"guided_json": '{"a":' + "[" * 3_000 + "]" * 3_000 + "}"}, "more than 64 deep"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_much_when_it_is_written_out_is_refused(asked: dict[str, Any], words: str) -> None:
    assert words in wrong(asked)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4})$",
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$",
        r"^.{1,5000}$",
        r"^\+?[1-9]\d{1,14}$",
        r"([a-z]{2,20},)*[a-z]{2,20}",
        r"[(){9}]{100}\({100}",
        '{"a": {"b": 1}}',
        "~" * 100,
        r"^([a-z0-9-]{1,63}\.){1,8}[a-z]{2,63}$",
        r"^[A-Z]{3}(,[A-Z]{3}){0,200}$",
        r"^([0-9a-f]{64},?){1,8}$",
        r"^(\S{1,40} ){0,20}\S{1,40}$",
        r"^(?:[A-Za-z0-9+/]{4}){1,1000}={0,2}$",
        r"^[\s\S]{1,10000}$",
    ],
)
def test_patterns_of_people_pass(pattern: str) -> None:
    assert wrong(form({"type": "string", "pattern": pattern, "maxLength": 100_000})) == ""


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["about ~500 rows", "about ~100000 rows"]},
        {"default": "roughly ~20000 words"},
        {"examples": ["id {20240101}"]},
        {"properties": {"rows ~100000": {"type": "string"}}},
        {"x-note": "~100000"},
    ],
)
def test_texts_that_are_no_patterns_are_not_read_as_some(schema: dict[str, Any]) -> None:
    assert wrong(form(schema)) == "" == wrong({"tools": [{"function": {"parameters": schema}}]})
    assert wrong({"structured_outputs": {"choice": ["under ~100000"]}}) == ""


def test_a_schema_that_is_written_as_a_text_is_read_once() -> None:
    schema = {"description": "a" * 9_000, "pattern": r"^\){3}$"}
    assert wrong({"guided_json": json.dumps(schema)}) == wrong(form(schema)) == ""


@pytest.mark.parametrize("text", ["a{1}", "(", "[", '"', "\\", "{ ", "{9", "#", "'", "{9,", "~ ", "({9}"])
def test_no_pattern_keeps_the_loop(text: str) -> None:
    """Each of these is looked through once, whatever does not end in it."""
    long = (text * 16_384)[:16_380] + "{9}"
    began = time.process_time()
    wrong({"regex": long})
    # 0.05 s; a machine that does more.
    assert time.process_time() - began < 0.5
