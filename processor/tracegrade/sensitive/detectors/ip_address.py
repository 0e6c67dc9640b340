"""IP addresses of hosts: those of examples, of the host itself and of groups are nobody's, and left.

Four numbers with dots are also how versions are written: behind a word that says so, or a slash or a dash as in
``Chrome/120.0.0.0``, they are left.

Source: RFC 791, RFC 4291; addresses for special purposes, of which those for documentation, by RFC 6890.
"""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from tracegrade.sensitive.check_digits import NOT_BEHIND_NUMBERS
from tracegrade.sensitive.detector import Detector, Part

_NUMBER = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_V4 = re.compile(rf"(?<![\w.+\-^~]){_NUMBER}(?:\.{_NUMBER}){{3}}(?![\w\-])(?!\.\d)", re.ASCII)
# Behind a colon only where that stands behind a word, as in ``ip:2a02::17``, and not within a longer row of digits.
_V6 = re.compile(
    r"(?:(?<![\w:.])|(?<=[G-Zg-z]:))(?:[0-9A-Fa-f]{1,4}:|:){2,8}[0-9A-Fa-f]{0,4}(?![\w:])(?!\.\w)", re.ASCII
)
_V4_ALONE = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{3}}", re.ASCII)
_V6_BEGIN = re.compile(r"[0-9A-Fa-f]{0,4}:")
_VERSION = re.compile(r"(?:version|release|\bv|ver\.?|rev|build|chrome|safari|edge?|electron)\W{0,3}$", re.IGNORECASE)
_VERSION_KEY = re.compile(r"version|release|build|user.?agent", re.IGNORECASE)
_SCHEME = re.compile(r"://(?:[^\s/@]*@)?$")
_BEFORE = 24
_SIX_GROUPS = 4  # fewer hexadecimal groups with no :: between are times, or addresses of network cards
_NOBODY = tuple(
    map(ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "0.0.0.0/8", "192.0.0.0/24"))
)
_STAND_INS_V4 = 254


def _find(text: str, key: str) -> Iterator[Part]:
    if "." in text and not (key and _VERSION_KEY.search(key)):
        for match in _V4.finditer(text):
            if _is_somebody(match.group()) and not _is_version(text, match.start()):
                yield match.span()
    if ":" in text:
        for match in _V6.finditer(text):
            start, end = match.span()
            if text[end - 1] == ":" and text[end - 2] != ":":
                end -= 1  # of the sentence
            if _is_six(text[start:end]) and _is_somebody(text[start:end]):
                yield start, end


def _is_version(text: str, start: int) -> bool:
    before = text[max(0, start - _BEFORE) : start]
    if before.endswith(("==", "~=", ">=", "<=", "!=")):
        return True
    if before.endswith("/"):
        return _SCHEME.search(before) is None
    return _VERSION.search(before) is not None


def _is_six(text: str) -> bool:
    groups = [group for group in text.split(":") if group]
    has_digit = any(map(str.isdigit, text))  # ``def:abc::d`` is code
    return len(groups) == 8 or ("::" in text and len(groups) >= _SIX_GROUPS - 1 and has_digit)


def _is_somebody(text: str) -> bool:
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        return False
    if address.is_loopback or address.is_multicast or address.is_unspecified or str(address) == "255.255.255.255":
        return False
    if address.version == 4 and (text.startswith(("1.0.", "0.")) or text.endswith(".0.0")):
        return False  # versions and networks
    return not any(address in network for network in _NOBODY if network.version == address.version)


def _stand_in(value: str, number: int) -> str:
    """An address for documentation."""
    if ":" in value:
        return f"2001:db8::{number:x}"
    network, host = divmod(number - 1, _STAND_INS_V4)
    if network > 2:
        return f"192.0.0.{number}"  # no address any more, and another for each
    return ("192.0.2.", "198.51.100.", "203.0.113.")[network] + str(host + 1)


def _may_be(text: str) -> bool:
    """Whether an address of somebody is in `text`, whatever stands around it."""
    if _V6_BEGIN.match(text):
        return True
    # The first digits may be the length of the text on the wire, behind its tag, or the end of an escaped character.
    found = [_V4_ALONE.match(text, start) for start in range(4)]
    return any(_is_somebody(match.group()) for match in found if match is not None)


DETECTOR = Detector(
    "ip_address",
    _find,
    _stand_in,
    identity=str.lower,
    signs=(
        r"\n?\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}",
        r"[0-9A-Fa-f]{0,4}::[0-9A-Fa-f]{1,4}:",
        r"(?:[0-9A-Fa-f]{1,4}:){3}",
        r"[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}::[0-9A-Fa-f]",
    ),
    may_be=_may_be,
    first=(
        r"\d\.\d{1,3}\.\d{1,3}\.\d",
        r"::[0-9A-Fa-f]{1,4}:",
        r"[0-9A-Fa-f](?::[0-9A-Fa-f]{1,4}){2}:",
        r"[0-9A-Fa-f]:[0-9A-Fa-f]{1,4}::[0-9A-Fa-f]",
    ),
    not_behind=NOT_BEHIND_NUMBERS + "^~",
    joins=False,
)
