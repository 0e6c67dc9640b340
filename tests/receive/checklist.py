"""What an OTLP server has to do, line by line, and which tests hold this one to it.

Sources: the OTLP specification and, where it is silent, what widely used clients and servers do. A test names the lines
it shows by their numbers: ``test_16_19_a_full_journal_...`` shows lines 16 and 19.

    python tests/receive/checklist.py > tests/receive/OTLP.md
"""

import re
from pathlib import Path

CHECKLIST = {
    1: "Plain and gzip requests are taken over both transports, zstd and deflate over HTTP",
    2: "A request that holds nothing is a success, and nothing of it is kept",
    3: "Full success leaves `partial_success` unset",
    4: "Partly taken is a success that says how many were rejected, and why",
    5: "A warning over a fully taken request rejects 0 and has a message",
    6: "What is only temporary is never told by `partial_success`: clients do not send that again",
    7: "The size of a request is bounded, also once unpacked: 64 MiB by default, a setting",
    8: "The size of an answer is bounded: a long message is cut short",
    9: "Fields that this version does not know are passed over, and forwarded with the rest",
    10: "A request that comes again is taken again; its spans are counted as duplicates",
    11: "4317 for gRPC, 4318 for HTTP; protobuf and JSON share the latter",
    12: "A success means that the request is durable here, and no more than that",
    13: "Spans whose ids are of a wrong length, or all zero, are rejected alone",
    14: "The services for traces, logs and metrics are served; any other is `UNIMPLEMENTED`",
    15: "A gRPC request that is too large is `RESOURCE_EXHAUSTED` without a delay, which is final",
    16: "Passing trouble is `UNAVAILABLE`, with the delay after which to come back",
    17: "Bad data is `INVALID_ARGUMENT`, an own mistake `INTERNAL`; nothing is `UNKNOWN`",
    18: "A code that clients retry is answered exactly where a retry can help",
    19: "The delay is told in both trailers that clients look at",
    20: "Calls on one connection run side by side, as many as the setting allows",
    21: "There is a health service, pings have a least distance, old connections can be closed",
    22: "Stopping finishes what is in work and asks what comes to come back",
    23: "Each signal has its path, and takes POST",
    24: "The answer's media type is the request's, whose parameters are understood",
    25: "HTTP success is 200 with an empty response message",
    26: "Every HTTP refusal carries a `google.rpc.Status` in the request's encoding",
    27: "A body that cannot be decoded is 400",
    28: "A body that is too large, packed or unpacked, is 413",
    29: "Overload is 429 or 503 with `Retry-After` in whole seconds, at least 1",
    30: "Wrong method, media type, path: 405, 415, 404, all final",
    31: "Bodies in chunks, without a length, are read",
    32: "An unknown content encoding and broken gzip are told apart from mistakes of ours",
    33: "Connections are kept; slow headers, slow bodies and idle connections are cut off",
    34: "Browsers of other origins get no permission",
    35: "HTTP/2 is not needed: whoever asks for it is answered in HTTP/1.1",
    36: "JSON ids are hex in either case, never base64",
    37: "JSON keys are lowerCamelCase; those in snake_case are ignored with a warning",
    38: "JSON enums are integers; names are refused",
    39: "JSON keys that nobody knows are ignored",
    40: "64-bit integers in JSON are texts or numbers, and exact",
    41: "Bytes are base64, null is unset, doubles may be `NaN` and the infinities",
    42: "How deep JSON may be nested is bounded",
    43: "JSON to protobuf to JSON is equal field for field",
    44: "Text that is not UTF-8 is repaired, damaged bytes cost their span, and neither costs the request",
}

_HERE = Path(__file__).parent
_TEST = re.compile(r"^(?:async )?def test((?:_\d+)+)_(\w+)\(", re.MULTILINE)


def shown_by() -> dict[int, list[tuple[str, str]]]:
    """Line number -> (test file, what it shows) of the tests that carry the number."""
    found: dict[int, list[tuple[str, str]]] = {}
    for folder in ("receive", "otlp"):
        for path in sorted((_HERE.parent / folder).glob("test_*.py")):
            for numbers, name in _TEST.findall(path.read_text(encoding="utf-8")):
                for number in map(int, numbers.strip("_").split("_")):
                    found.setdefault(number, []).append((f"../{folder}/{path.name}", name.replace("_", " ")))
    return found


def page() -> str:
    """The whole table as Markdown."""
    shown = shown_by()
    lines = [
        "# OTLP, line by line",
        "",
        "What the OTLP specification asks of a server (and, where it is silent, what real clients need), with the",
        "tests that hold the receiver to it: `pytest tests/receive tests/otlp` runs them. A test fails when a line has",
        "none, or this page is out of date: `python tests/receive/checklist.py > tests/receive/OTLP.md` writes it.",
        "",
        "| line | what holds | shown by |",
        "| --- | --- | --- |",
    ]
    for number, what in CHECKLIST.items():
        links = [f"[{name}]({path})" for path, name in shown.get(number, ())]
        lines.append(f"| {number} | {what} | {'<br>'.join(links)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page())
