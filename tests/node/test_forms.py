"""Forms with a sound in them, as far as the door reads them."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from tests.node.door_double import Setup, a_door
from tests.node.shipped import load, part

__all__ = ["a_door"]

KIND = b"multipart/form-data; boundary=xxxxxxxx"


def field(name: str, value: bytes, more: str = "") -> bytes:
    return f'--xxxxxxxx\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value + b"\r\n"


SOUND = field("file", b"\r\n--x \x00", '; filename="a.wav"')
MODEL = field("model", b"m")
END = b"--xxxxxxxx--\r\n"


@pytest.fixture(name="forms", scope="module")
def the_module() -> Any:
    return load("litellm/forms.py")


def test_it_knows_fields_and_how_large_a_sound_is(forms: Any) -> None:
    many = field("timestamp_granularities[]", b"word") * 2
    asked = forms.read(MODEL + SOUND + field("stream", b"True") + many + END, KIND)
    assert asked == {"model": "m", "file": 7, "stream": True, "timestamp_granularities[]": "word"}
    assert forms.read(MODEL + SOUND + END, b'Multipart/Form-Data; boundary="xxxxxxxx"')["stream"] is False


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ("name=file; filename=a.mp3; filename*=utf-8''a.mp3", KIND),
        ("name=\"file\"; filename*=utf-8''a.mp3", KIND),
        ('name="file"; filename="a\\"b.mp3"', KIND),
        ('name="file"; filename="a.mp3"', KIND + b"; charset=UTF-8"),
        ('name="file"; filename="a.mp3"', b"multipart/form-data; charset=utf-8; boundary=xxxxxxxx"),
    ],
)
def test_how_other_clients_write_a_form(forms: Any, named: str, kind: bytes) -> None:
    """.NET without quotes, others with a name in UTF-8 alone or a charset; an empty line may come first."""
    model = b"--xxxxxxxx\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n"
    sound = f"--xxxxxxxx\r\nContent-Disposition: form-data; {named}\r\n\r\nabc\r\n".encode()
    for first in (b"", b"\r\n"):
        assert forms.read(first + model + sound + END, kind) == {"model": "m", "file": 3, "stream": False}


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (b"{}", b"application/json", "multipart/form-data"),
        (b"{}", KIND, "multipart/form-data"),
        (MODEL + END, KIND, "`file` is wanted"),
        (MODEL + SOUND, KIND, "not whole"),
        (MODEL + SOUND[:-4], KIND, "not whole"),
        (MODEL + MODEL + SOUND + END, KIND, "`model` stands twice"),
        (field("prompt", b"a" * 65_537) + SOUND + END, KIND, "65536 bytes"),
        (field("a[]", b"a") * 40 + SOUND + END, KIND, "32 parts"),
        (b"--xxxxxxxx\r\nContent-Disposition: form-data; name=a b\r\n\r\na\r\n" + SOUND + END, KIND, "no plain name"),
        (b"--xxxxxxxx\r\n" + b"a: b\r\n" * 400 + b"\r\n" + END, KIND, "not whole"),
        # Its head's end is its own end.
        (MODEL + SOUND.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + END, KIND, "not whole"),
        (b"--xxxxxxxx\r\n" + b"a" * (64 << 20), KIND, "64 MiB"),
        (MODEL, b"multipart/form-data; boundary=x", "multipart/form-data"),
        (field("file", b"a") + MODEL + END, KIND, "`file` is wanted"),
    ],
)
def test_what_it_does_not_take(forms: Any, body: bytes, kind: bytes, why: str) -> None:
    assert why in forms.read(body, kind)


@pytest.mark.parametrize(
    "head",
    [
        b'form-data; filename="a.wav"; name="file"',
        b'form-data; name="file"; filename="a.wav"; size=3',
        b"form-data; name=\"file\"; filename*=UTF-8''" + b"%D0%B0" * 170,
    ],
)
def test_what_a_file_s_part_may_say_of_it(forms: Any, head: bytes) -> None:
    sound = b"--xxxxxxxx\r\nContent-Disposition: " + head + b"\r\n\r\nRIFF\r\n"
    assert forms.read(MODEL + sound + END, KIND)["file"] == 4


def test_a_part_has_one_name(forms: Any) -> None:
    second = b'\r\nContent-Disposition: form-data; name="prompt"; x'
    escaped = b'; x="\\\\"; y="; name=stream; z="'
    for more in (b'; name="model"', b"; name*=UTF-8''model", b"; a" * 9, second, escaped, b"\r\n folded"):
        sound = b'--xxxxxxxx\r\nContent-Disposition: form-data; name="file"; filename="a"' + more + b"\r\n\r\nRIFF\r\n"
        assert "no plain name" in forms.read(MODEL + sound + END, KIND)


def test_seconds_of_a_sound_are_no_tokens_and_its_size_counts() -> None:
    key = part("litellm", "door_keys").Key("a", "")
    visit = part("litellm", "door_limits").Visit(key, asked=1_480, was_asked=True)
    answer = part("litellm", "door_usage").Answer(visit, "/v1/audio/transcriptions", b"application/json")
    answer.pass_on(b'{"text": "a", "usage": {"type": "duration", "seconds": 2}}', False)
    assert visit.tokens == 1_480


def test_a_sound_is_counted_by_its_size(setup: Setup) -> None:
    """Before an engine says what it has cost, and where it does not say it in tokens."""
    body = sys.modules["door_body"]
    assert body._tokens(960_040, sys.modules["media"].Found(), 960_000) == 1_490


def test_no_form_keeps_the_loop_for_long(forms: Any) -> None:
    """64 MiB that are no form, almost one, and one that never ends."""
    for each in (
        b"\r\n--xxxx",
        b"\r\n--xxxxxxxx\r\n",
        b"\0",
        b'--xxxxxxxx\r\nContent-Disposition: form-data; name="a[]"\r\n\r\n\r\n',
    ):
        body = MODEL + SOUND[:60] + each * ((63 << 20) // len(each))
        began = time.process_time()
        assert isinstance(forms.read(body, KIND), str)
        assert time.process_time() - began < 0.5


def test_the_same_form_is_the_same_whatever_its_boundary(forms: Any) -> None:
    body = MODEL + SOUND + END
    other = body.replace(b"xxxxxxxx", b"yyyyyyyyyyyy")
    assert forms.pieces(body, KIND) == forms.pieces(other, b"multipart/form-data; boundary=yyyyyyyyyyyy")
    assert forms.pieces(body, KIND) != forms.pieces(body.replace(b"\x00", b"\x01"), KIND)


def test_what_is_in_a_form_is_found_in_no_time_whatever_is_in_its_file(forms: Any) -> None:
    """64 MiB of what looks like a boundary: nothing is copied."""
    mark = b"-" * 70
    began = time.process_time()
    for kept in (b"-" * (32 << 20), (b"\r\n--" + mark[:-1]) * 400_000):
        body = b"--" + mark + b"\r\n\r\n" + kept + b"\r\n--" + mark + b"--\r\n"
        assert len(forms.pieces(body, b"multipart/form-data; boundary=" + mark)) < 40
    # 0.05 s; a machine that does more.
    assert time.process_time() - began < 0.5
