"""When a certificate ends: the one field that operators watch, read from its DER (RFC 5280, section 4.1)."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"
_VERSION = 0xA0  # the tag of the version, the one member before the serial number, which may be left out
_VALIDITY = 3  # its place after the serial number: signature algorithm, issuer, validity
_UTC_TIME = 0x17


def certificate_end(chain: bytes) -> datetime:
    """When the first certificate of a PEM chain, the server's own, is no longer valid.

    Raises:
        ValueError: there is none, or it is damaged.
    """
    text = chain.decode("ascii", "replace")
    begin = text.find(_BEGIN)
    end = text.find(_END, begin)
    if begin < 0 or end < 0:
        raise ValueError("no certificate in PEM")
    try:
        members = [*_members(_content(_content(ssl.PEM_cert_to_DER_cert(text[begin : end + len(_END)]))))]
        fields = members[1:] if members[0][0] == _VERSION else members
        _, (tag, value) = _members(fields[_VALIDITY][1])
        year = "%y" if tag == _UTC_TIME else "%Y"
        return datetime.strptime(value.decode("ascii"), f"{year}%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"a damaged certificate: {error}") from None


def _content(value: bytes) -> bytes:
    """The content of the one DER value that `value` begins with."""
    return next(_members(value))[1]


def _members(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The tag and the content of each DER value in `content`."""
    at = 0
    while at < len(content):
        tag, length, at = content[at], content[at + 1], at + 2
        if length > 0x7F:  # so many bytes of length follow
            at, length = at + length - 0x80, int.from_bytes(content[at : at + length - 0x80], "big")
        if at + length > len(content):
            raise IndexError("it ends too early")
        yield tag, content[at : at + length]
        at += length
