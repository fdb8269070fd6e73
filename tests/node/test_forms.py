"""Forms with a sound in them, as far as the door reads them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.shipped import load

KIND = b"multipart/form-data; boundary=xx"


def part(name: str, value: bytes, more: str = "") -> bytes:
    return f'--xx\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value + b"\r\n"


SOUND = part("file", b"\r\n--x \x00", '; filename="a.wav"')
MODEL = part("model", b"m")
END = b"--xx--\r\n"


@pytest.fixture(name="forms", scope="module")
def the_module() -> Any:
    return load("litellm/forms.py")


def test_it_knows_fields_and_how_large_a_sound_is(forms: Any) -> None:
    many = part("timestamp_granularities[]", b"word") * 2
    asked = forms.read(MODEL + SOUND + part("stream", b"True") + many + END, KIND)
    assert asked == {"model": "m", "file": 7, "stream": True, "timestamp_granularities[]": "word"}
    assert forms.read(MODEL + SOUND + END, b'Multipart/Form-Data; boundary="xx"')["stream"] is False


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (b"{}", b"application/json", "multipart/form-data"),
        (b"{}", KIND, "multipart/form-data"),
        (MODEL + END, KIND, "`file` is wanted"),
        (MODEL + SOUND, KIND, "not whole"),
        (MODEL + SOUND[:-4], KIND, "not whole"),
        (MODEL + MODEL + SOUND + END, KIND, "`model` stands twice"),
        (part("prompt", b"a" * 65_537) + SOUND + END, KIND, "65536 bytes"),
        (part("a[]", b"a") * 40 + SOUND + END, KIND, "32 parts"),
        (b"--xx\r\nContent-Disposition: form-data; name=model\r\n\r\na\r\n" + SOUND + END, KIND, "no plain name"),
        (b"--xx\r\n" + b"a: b\r\n" * 400 + b"\r\n" + END, KIND, "not whole"),
        (part("file", b"a") + MODEL + END, KIND, "`file` is wanted"),
    ],
)
def test_what_it_does_not_take(forms: Any, body: bytes, kind: bytes, why: str) -> None:
    assert why in forms.read(body, kind)
