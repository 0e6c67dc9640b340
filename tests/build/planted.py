"""Made-up secrets and personal data of every detector, and the disguises they are planted in."""

import base64
import gzip
import html
import json
import quopri
import random
import string
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from urllib.parse import quote
from zlib import crc32

from tracegrade.sensitive.check_digits import luhn_sum
from tracegrade.sensitive.detectors.national_ids import _DNI_LETTERS, _ODD

_LETTERS, _DIGITS = string.ascii_letters, string.digits
_HEX = "0123456789abcdef"
_BASE62 = _DIGITS + string.ascii_uppercase + string.ascii_lowercase

Make = Callable[[random.Random], str]


def _of(signs: str, length: int, chance: random.Random) -> str:
    return "".join(chance.choice(signs) for _ in range(length))


def _token(begin: str, length: int, chance: random.Random, signs: str = _LETTERS + _DIGITS) -> str:
    return begin + _of(signs, length, chance)


def _checked(begin: str, chance: random.Random) -> str:
    body = _of(_LETTERS + _DIGITS, 30, chance)
    number, end = crc32(body.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        end = _BASE62[digit] + end
    return begin + body + end


def _card(chance: random.Random) -> str:
    body = chance.choice(("4", "51", "2221", "6011")).ljust(6, "7") + _of(_DIGITS, 9, chance)
    return body[:15] + str(-luhn_sum(body[:15] + "0") % 10)


def _iban(chance: random.Random) -> str:
    country, length = chance.choice((("DE", 22), ("NL", 18), ("FR", 27), ("PL", 28)))
    bank = "".join(chance.choice(string.ascii_uppercase) for _ in range(4)) if country == "NL" else ""
    body = bank + _of(_DIGITS, length - 4 - len(bank), chance)
    rest = int("".join(str(int(sign, 36)) for sign in body + country + "00")) % 97
    return f"{country}{98 - rest:02}{body}"


def _email(chance: random.Random) -> str:
    name, last, host = (_of(string.ascii_lowercase, chance.randint(3, 9), chance) for _ in range(3))
    return f"{name}.{last}@{host}.{chance.choice(('com', 'io', 'co.uk'))}"


def _jwt(chance: random.Random) -> str:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": _of(_DIGITS, 10, chance), "name": "Ann Lee"}]
    written = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*written, _of(_LETTERS + _DIGITS, 43, chance)])


def _private_key(chance: random.Random) -> str:
    body = _of(_LETTERS + _DIGITS + "+/", 120, chance)
    return f"-----BEGIN PRIVATE KEY-----\n{body[:64]}\n{body[64:]}\n-----END PRIVATE KEY-----"


def _dni(chance: random.Random) -> str:
    number = _of(_DIGITS, 8, chance)
    return number + _DNI_LETTERS[int(number) % 23]


def _fiscal(chance: random.Random) -> str:
    body = _of(string.ascii_uppercase, 6, chance) + "85T10A5" + _of(_DIGITS, 2, chance)
    values = [int(sign, 36) - (0 if sign.isdigit() else 10) for sign in body]
    return body + chr(ord("A") + (sum(values[1::2]) + sum(_ODD[value] for value in values[::2])) % 26)


def _nir(chance: random.Random) -> str:
    body = f"2850914{_of(_DIGITS, 6, chance)}"
    return f"{body}{97 - int(body) % 97:02}"


SECRETS: dict[str, Make] = {
    "aws_access_key": partial(_token, "AKIA", 16, signs=string.ascii_uppercase + "234567"),
    "github_token": partial(_checked, "ghp_"),
    "npm_token": partial(_checked, "npm_"),
    "tracegrade_token": partial(_checked, "tgr_"),
    "gitlab_token": partial(_token, "glpat-", 20),
    "slack_token": lambda chance: f"xoxb-{_of(_DIGITS, 12, chance)}-{_of(_LETTERS, 24, chance)}",
    "anthropic_key": partial(_token, "sk-ant-api03-", 60),
    "openai_key": partial(_token, "sk-proj-", 48),
    "stripe_key": partial(_token, "sk_live_", 24),
    "google_api_key": partial(_token, "AIza", 35),
    "hugging_face_token": partial(_token, "hf_", 34),
    "sendgrid_key": lambda chance: f"SG.{_of(_LETTERS, 22, chance)}.{_of(_LETTERS, 43, chance)}",
    "digitalocean_token": partial(_token, "dop_v1_", 64, signs=_HEX),
    "shopify_token": partial(_token, "shpat_", 32, signs=_HEX),
    "telegram_token": lambda chance: f"{_of('123456789', 9, chance)}:AA{_of(_LETTERS + _DIGITS, 33, chance)}",
    "twilio_key": partial(_token, "SK", 32, signs=_HEX),
    "pypi_token": partial(_token, "pypi-AgEIcHlwaS5vcmc", 60),
    "groq_key": partial(_token, "gsk_", 52),
    "jwt": _jwt,
    "private_key": _private_key,
    "email": _email,
    "phone": lambda chance: f"+49301{_of('123456789', 7, chance)}",
    "card": _card,
    "iban": _iban,
    "ip_address": lambda chance: ".".join(str(chance.randint(20, 120)) for _ in range(4)),
    "es_dni": _dni,
    "it_codice_fiscale": _fiscal,
    "fr_nir": _nir,
    "url_password": lambda chance: f"postgres://shop:{_of(_LETTERS, 12, chance)}@db-7/orders",
}


def _quoted_printable(text: str) -> str:
    return quopri.encodestring("".join(f"={ord(sign):02X}" for sign in text).encode()).decode().replace("=3D", "=")


def _in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _spaced(text: str, sign: str) -> str:
    return sign.join(text[place : place + 4] for place in range(0, len(text), 4))


# Each gives what stands in an attribute's value.
DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": lambda value: f"see {value} there",
    "json": lambda value: json.dumps({"note": f"it is {value}", "n": 1}),
    "json in json": lambda value: json.dumps({"inner": json.dumps({"list": [json.dumps({"x": value})]})}),
    "cut json": lambda value: json.dumps({"inner": json.dumps({"x": value})})[:-1],
    "u escapes": lambda value: '{"x": "' + "".join(f"\\u{ord(sign):04x}" for sign in value) + '"}',
    "u escapes, cut": lambda value: 'got {"x": "' + "".join(f"\\u{ord(sign):04x}" for sign in value),
    "x escapes": lambda value: "b'" + "".join(f"\\x{ord(sign):02x}" for sign in value) + "'",
    "percent": lambda value: f"https://shop.example/find?a=1&q={quote(value, safe='')}&b=2",
    "percent, all": lambda value: "q=" + "".join(f"%{ord(sign):02X}" for sign in value),
    "query": lambda value: f"https://shop.example/find?a=1&q={value}&b=2",
    "html": lambda value: "<p>" + "".join(f"&#{ord(sign)};" for sign in value) + "</p>",
    "html, hexadecimal": lambda value: f"<p>{html.escape(value).replace('@', '&commat;').replace('.', '&period;')}</p>",
    "html without semicolons": lambda value: "<p>" + "".join(f"&#{ord(sign)}" for sign in value) + "</p>",
    "html without semicolons, hexadecimal": lambda value: "".join(f"&#x{ord(sign):x}" for sign in value),
    "base64": lambda value: _in_base64(f"it is {value}, yes".encode()),
    "base64 of json": lambda value: "data=" + base64.urlsafe_b64encode(json.dumps({"x": value}).encode()).decode(),
    "base64 in lines": lambda value: base64.encodebytes((value + " and so on " * 20).encode()).decode(),
    "base64 of base64": lambda value: _in_base64(_in_base64(f"<{value}>".encode()).encode()),
    "gzip": lambda value: _in_base64(gzip.compress(json.dumps({"x": value, "pad": "y" * 300}).encode(), mtime=0)),
    "zlib": lambda value: _in_base64(zlib.compress(json.dumps({"x": value, "pad": "y" * 300}).encode())),
    "zlib, short": lambda value: f"id={base64.urlsafe_b64encode(zlib.compress(value.encode(), 9)).decode()}",
    "zlib, fast": lambda value: _in_base64(zlib.compress(f"it is {value}".encode(), 1)),
    "utf-16": lambda value: _in_base64(f" {value} ".encode("utf-16-le")),
    "hexadecimal": lambda value: f"0x{f'it is {value}'.encode().hex()}",
    "data url": lambda value: f"![x](data:text/plain;base64,{_in_base64(value.encode() + b' ' * 12)})",
    "error": lambda value: f'Traceback (most recent call last):\n  File "x.py", line 3\nValueError: {value!r}',
    "code": lambda value: f"Try:\n```python\nx = '{value}'\n```\n",
    "unseen": lambda value: "\u200b".join(value),
    "soft hyphens": lambda value: f"x: {value[:3]}\u00ad{value[3:9]}\u00ad\u2060{value[9:]}",
    "full width": lambda value: "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in value),
    "tags": lambda value: "nice weather" + "".join(chr(0xE0000 + ord(sign)) for sign in value) + "\U000e007f today",
    "tags in cut json": lambda value: json.dumps({"x": "".join(chr(0xE0000 + ord(sign)) for sign in value)})[:-1],
    "tags between": lambda value: "\U000e0041\U000e0001".join(value),
    "quoted-printable": _quoted_printable,
}
FOR_NUMBERS: dict[str, Callable[[str], str]] = {
    "spaces": lambda value: f"no {_spaced(value, ' ')}.",
    "dashes": lambda value: f"no {_spaced(value, '-')}.",
    "arabic digits": lambda value: "".join(chr(0x660 + int(sign)) if sign.isdigit() else sign for sign in value),
    "no-break spaces": lambda value: f"no {_spaced(value, chr(0xA0))}.",
}
NUMBERS = ("card", "iban")


def _in_lines(value: str, number: int) -> str:
    length = -(-len(value) // number)
    return "\n".join(value[start : start + length] for start in range(0, len(value), length))


# As terminals and mails wrap lines.
FOR_TOKENS: dict[str, Callable[[str], str]] = {
    "line ends": lambda value: f"key: {_in_lines(value, 2)}\nand so on",
    "line ends, json": lambda value: json.dumps({"x": _in_lines(value, 3).replace("\n", "\r\n    ", 1)}),
    "line ends, cut json": lambda value: json.dumps({"x": _in_lines(value, 2)})[:-1],
}
TOKENS = (
    *("aws_access_key", "github_token", "npm_token", "tracegrade_token", "gitlab_token", "slack_token"),
    *("anthropic_key", "openai_key", "stripe_key", "google_api_key", "hugging_face_token", "sendgrid_key"),
    *("digitalocean_token", "shopify_token", "pypi_token", "groq_key", "jwt", "card"),
)
ALL = DISGUISES | FOR_NUMBERS | FOR_TOKENS


def names_for(disguise: str) -> Sequence[str]:
    """The secrets that a disguise is for."""
    return NUMBERS if disguise in FOR_NUMBERS else TOKENS if disguise in FOR_TOKENS else sorted(SECRETS)


def pieces_of(value: str, chance: random.Random, number: int) -> list[str]:
    """`value` cut at random into `number` pieces; of two, with other text before and behind by chance."""
    cuts = [0, *sorted(chance.sample(range(1, len(value)), number - 1)), len(value)]
    pieces = [value[start:end] for start, end in pairwise(cuts)]
    return [f"x {pieces[0]}", *pieces[1:-1], f"{pieces[-1]} y"] if chance.random() < 0.5 else pieces
