"""What base64 holds: texts, texts in the midst of other bytes, and pictures, which hold none."""

import random
from base64 import b64encode

from build import each
from tracegrade.redact.scan.encoded import pieces

PICTURE = random.Random(5).randbytes(60_000)


@each(
    ("raw", "text"),
    [
        (b"mail ann@corp.io today", "mail ann@corp.io today"),
        ("schreib an Jörg <ann@corp.io>, 日本".encode(), "schreib an Jörg <ann@corp.io>, 日本"),
        ("ann@corp.io and more".encode("utf-16-le"), "ann@corp.io and more"),
        (PICTURE[:300] + b"\xff ann@corp.io \xff" + PICTURE[300:600], " ann@corp.io "),
        (PICTURE[:9000] + b"\xff address 1.1.1.1\xff" + PICTURE[9000:], " address 1.1.1.1"),
        ("Grüße für Anna".encode("utf-16-le"), "r Anna"),
        ("CPF nº 11144477735".encode("latin-1"), "CPF n\ufffd 11144477735"),
        (("déjà vu, encore une fois, " * 500 + "à Anna").encode("latin-1"), "\ufffd Anna"),
    ],
)
def test_a_text_in_base64_is_found_also_between_other_bytes(raw: bytes, text: str) -> None:
    assert any(text in piece.text for piece in pieces(b64encode(raw).decode()))


def test_next_to_nothing_of_a_picture_is_searched() -> None:
    """Signs of everything turn up in random bytes; searching them took seconds of CPU for 100 KB."""
    searched = sum(len(piece.text) for piece in pieces(b64encode(PICTURE).decode()))
    assert searched < len(PICTURE) / 10
