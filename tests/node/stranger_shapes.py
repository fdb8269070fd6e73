"""Bodies that are JSON and no request: words of the wrong kind, or none where one is wanted."""

from __future__ import annotations

import json

from tests.node.stranger_words import CHAT, NOT_THERE, ODD, Row, http

VECTORS, RANKING, TEXT = "/v1/embeddings", "/v1/rerank", "/v1/completions"
#: What is right, for each path.
_RIGHT: dict[str, dict[str, object]] = {
    VECTORS: {"model": "double", "input": "Hi"},
    RANKING: {"model": "double", "query": "Hi", "documents": ["a", "b"]},
    "/v2/rerank": {"model": "double", "query": "Hi", "documents": ["a", "b"]},
    CHAT: {"model": "double", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    TEXT: {"model": "double", "prompt": "Hi", "max_tokens": 1},
}
#: What is no text, no tokens and no list of them.
_NO_INPUT: tuple[object, ...] = (
    None,
    1,
    1.5,
    True,
    {},
    [],
    [[]],
    [None],
    ["x", 1],
    [1, "x"],
    [[1], "x"],
    [1, True],
    [-1],
)
_NO_QUERY: tuple[object, ...] = (None, 1, True, [], ["x"])
_NO_DOCUMENTS: tuple[object, ...] = (None, 1, "x", {}, [], [None], ["x", 1], [["x"]])
_NO_COUNT: tuple[object, ...] = ("x", -1, 1.5, True, [])


def _row(path: str, name: str, body: bytes | str, may: tuple[int, ...] = (ODD,)) -> Row:
    return Row("shapes", f"{path}: {name}", http("POST", path, "{client}", body), may)


def _with(path: str, word: str, *values: object) -> list[Row]:
    return [_row(path, f"{word}: {value!r}", json.dumps({**_RIGHT[path], word: value})) for value in values]


def _without(path: str, word: str) -> Row:
    return _row(path, f"no {word}", json.dumps({name: each for name, each in _RIGHT[path].items() if name != word}))


def _twisted(path: str, word: str, old: str) -> list[Row]:
    """JSON that readers disagree about, in the place of a text."""
    right = json.dumps(_RIGHT[path])
    assert right.count(old) == 1
    twists: dict[str, bytes] = {
        "NaN": b"NaN",
        "half a character": b'"\\ud800"',
        "no UTF-8": b'"\xff"',
        "900 lists in one another": b"%b%b" % (b"[" * 900, b"]" * 900),
        "900 lists around a number that is long": b"%b%d%b" % (b"[" * 900, 10**20, b"]" * 900),
        "twice, first right": f'{old}, "{word}": 5'.encode(),
    }
    return [_row(path, f"{word}: {name}", right.encode().replace(old.encode(), said)) for name, said in twists.items()]


SHAPES = [
    *(row for path in _RIGHT for row in _with(path, "model", None, 5, True, [], {}, ["double"])),
    *(_without(path, "model") for path in _RIGHT),
    # LiteLLM takes it for something to write to.
    *(
        _row(path, "another model, and metadata", json.dumps({**right, "model": "x", "metadata": 5}), (NOT_THERE,))
        for path, right in _RIGHT.items()
    ),
    _without(VECTORS, "input"),
    *_with(VECTORS, "input", *_NO_INPUT),
    *_with(VECTORS, "encoding_format", 5, []),
    *_with(VECTORS, "dimensions", *_NO_COUNT, 0),
    *_twisted(VECTORS, "input", '"Hi"'),
    _without(RANKING, "query"),
    _without(RANKING, "documents"),
    *_with(RANKING, "query", *_NO_QUERY),
    *_with(RANKING, "documents", *_NO_DOCUMENTS),
    *_with(RANKING, "top_n", *_NO_COUNT),
    *_twisted(RANKING, "query", '"Hi"'),
    *_with("/v2/rerank", "documents", *_NO_DOCUMENTS),
    *(row for row in _twisted(CHAT, "content", '"Hi"') if "twice" not in row.name),
    *(row for row in _twisted(TEXT, "prompt", '"Hi"') if "twice" not in row.name),
]
