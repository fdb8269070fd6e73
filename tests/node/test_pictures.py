"""How large a picture is once it is unpacked. What is written here is what Pillow reads of such a file."""

from __future__ import annotations

import base64
import struct
import time
import zlib
from typing import Any

import pytest

from tests.node.shipped import part

bounds, media, pictures = part("litellm", "door_bounds"), part("litellm", "media"), part("litellm", "pictures")


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width: int, height: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))


def png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IDAT", b"x" * 9) + chunk(b"IEND", b"")


def segment(marker: int, data: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(data) + 2) + data


def frame(width: int, height: int, marker: int = 0xC0) -> bytes:
    return segment(marker, struct.pack(">BHHB", 8, height, width, 3) + b"x" * 9)


def jpeg(*segments: bytes) -> bytes:
    return b"\xff\xd8" + b"".join(segments) + segment(0xDA, b"x" * 10) + b"pixels"


def gif(width: int, height: int, *blocks: bytes) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"x" * 6 + b"".join(blocks) + b";"


def first(left: int, top: int, width: int, height: int) -> bytes:
    return b"," + struct.pack("<HHHHB", left, top, width, height, 0)


def webp(kind: bytes, data: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 99) + b"WEBP" + kind + struct.pack("<I", len(data)) + data


EXTENSION = b"!\xfe\x03abc\x02de\x00"
PHOTO = segment(0xE1, b"Exif" + b"x" * 60_000)


@pytest.mark.parametrize(
    ("data", "pixels"),
    [
        (png(header(13_370, 13_370)), 13_370**2),
        (png(chunk(b"tEXt", b"x" * 5_000), header(30, 20)), 600),
        # The last one that comes before the pixels is taken.
        (png(header(1, 1), header(13_370, 13_370)), 13_370**2),
        (jpeg(PHOTO, frame(4_000, 3_000)), 12_000_000),
        (jpeg(frame(4_000, 3_000, marker=0xC2)), 12_000_000),
        (jpeg(frame(1, 1), PHOTO, frame(4_000, 3_000)), 12_000_000),
        (jpeg(b"\xff" * 600, frame(40, 30), b"junk"), 1_200),
        (gif(1, 1, b"!\xff" + (b"\x50" + b"x" * 80) * 740 + b"\x00", first(0, 0, 300, 200)), 60_000),
        (gif(300, 200, EXTENSION, first(0, 0, 300, 200)), 60_000),
        (gif(1, 1, first(0, 0, 13_000, 13_000)), 13_000**2),
        # Bytes between the blocks are skipped.
        (gif(30, 20, b"\0\0\0", first(0, 0, 30, 20)), 600),
        # Pillow takes what follows for a further part.
        (gif(1, 1, b"!\xf9\0", first(0, 0, 1, 1)), None),
        (gif(1, 1, b"!\xff\x0bNETSCAPE2.0\0", first(0, 0, 1, 1)), None),
        (gif(1, 1, b"!\xff\x0cNETSCAPE2.0X\0", first(0, 0, 1, 1)), None),
        (gif(30, 20, b"!\xff\x0bNETSCAPE2.0\x03\1\0\0\0", first(0, 0, 30, 20)), 600),
        (gif(1, 1), None),
        (webp(b"VP8X", b"x" * 4 + (3_999).to_bytes(3, "little") + (2_999).to_bytes(3, "little")), 12_000_000),
        (webp(b"VP8L", b"\x2f" + (3_999 | 2_999 << 14).to_bytes(4, "little")), 12_000_000),
        (webp(b"VP8 ", b"x" * 6 + struct.pack("<HH", 4_000, 3_000)), 12_000_000),
        # Nobody can tell.
        (png(*[chunk(b"tEXt", b"")] * 600, header(1, 1)), None),
        (jpeg(*[segment(0xFE, b"")] * 600, frame(1, 1)), None),
        (jpeg(b"junk" * 600, frame(1, 1)), None),
        (jpeg(segment(0xC8, frame(4_000, 3_000)), frame(1, 1)), None),
        (gif(1, 1, b"!\xfe" + b"\x01a" * 2_100 + b"\x00", first(0, 0, 1, 1)), None),
        (gif(1, 1, b"?"), None),
        (webp(b"ALPH", b"x" * 20), None),
        (b"BM" + b"x" * 60, None),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"", None),
    ],
)
def test_pixels_are_read_from_the_beginning_of_a_picture(data: bytes, pixels: int | None) -> None:
    assert pictures.pixels(base64.b64encode(data).decode()) == pixels


def test_base64_may_have_lines_and_nothing_else() -> None:
    data = png(chunk(b"tEXt", b"x" * 500), header(30, 20))
    assert pictures.pixels(base64.encodebytes(data).decode()) == 600
    text = base64.b64encode(data).decode()
    assert pictures.pixels(text.rstrip("=")) == 600
    for odd in (text[:90] + "!" + text[90:], text + "é", "=" + text, text[:8] + "=" + text[8:]):
        assert pictures.pixels(odd) is None


def test_a_large_photo_is_read_in_a_moment() -> None:
    text = base64.b64encode(jpeg(PHOTO, frame(4_000, 3_000)) + b"x" * (20 << 20)).decode()
    began = time.process_time()
    assert pictures.pixels(text) == 12_000_000
    assert time.process_time() - began < 1


def asked(*data: bytes, kind: str = "image/png", name: str = "image_url") -> Any:
    urls = [f"data:{kind};base64,{base64.b64encode(each).decode()}" for each in data]
    return {"messages": [{"content": [{"type": name, name: {"url": url}} for url in urls]}]}


def wrong(asked: dict[str, Any]) -> str:
    return str(bounds.wrong("chat/completions", asked, media.find(asked)))


def test_pictures_that_would_end_an_engine_for_memory_are_refused() -> None:
    small, bomb = png(header(1_000, 1_000)), png(header(13_370, 13_370))
    assert wrong(asked(*[small] * 90)) == ""
    assert "100 million pixels" in wrong(asked(*[png(header(8_000, 6_000))] * 3))
    assert "100 million pixels" in wrong(asked(bomb))
    # What it is said to be is not looked at by engines.
    assert "100 million pixels" in wrong(asked(bomb, kind="text/plain"))
    assert "more than 100 pictures" in wrong(asked(*[png(header(1, 1))] * 101))
    assert "a picture is a PNG, JPEG, GIF or WebP" in wrong(asked(b"II*\x00" + b"x" * 60))
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(bomb).decode()}
    assert "100 million pixels" in wrong({"messages": [{"content": [{"type": "image", "source": source}]}]})
    assert "100 million pixels" in wrong(
        {"messages": [{"content": [{"type": "image", "source": source | {"type": "text"}}]}]}
    )
    said = {"type": "input_image", "image_url": f"data:;base64,{base64.b64encode(bomb).decode()}"}
    assert "100 million pixels" in wrong({"input": [{"content": [said]}]})


def test_a_film_of_pictures_has_pictures_and_others_are_not_looked_at() -> None:
    frames = ",".join(base64.b64encode(png(header(8_000, 6_000))).decode() for _ in range(3))
    film = {"type": "video_url", "video_url": {"url": f"data:video/JPEG;base64,{frames}"}}
    assert "100 million pixels" in wrong({"messages": [{"content": [film]}]})
    assert wrong(asked(b"any film", kind="video/mp4", name="video_url")) == ""
