"""What each detector finds, what it leaves, and what stands in for it."""

import json
import pkgutil
import re
from functools import lru_cache
from importlib import import_module
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

import tracegrade.sensitive.detectors as folder
from build import each
from tracegrade.evaluate.criteria.compile import compile_expected
from tracegrade.evaluate.work import WORK_LIMIT, Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import MASK
from tracegrade.redact.scan import Scanner
from tracegrade.sensitive.check_digits import luhn_sum
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.detectors import card, national_ids, tokens
from tracegrade.sensitive.registry import DETECTORS, SECRETS, all_detectors

_JWT_HEADER = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
_KEY_LINES = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MhgHcTz6sE2I2yPB"


def _checked(begin: str, body: str) -> str:
    """A token whose end is the CRC-32 of `body` in base 62."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    number, end = crc32(body.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        end = digits[digit] + end
    return begin + body + end


GITHUB = _checked("ghp_", "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ")
TRACEGRADE = _checked("tgr_", "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ")

FOUND = [
    ("email", "ask Ann.Lee+x@acme.co.uk now", "", "Ann.Lee+x@acme.co.uk"),
    ("email", "<o'neil@acme.io>", "", "o'neil@acme.io"),
    ("email", r"'first line\nann@acme.io'", "", "ann@acme.io"),
    ("email", "jürgen@müller.de", "", "jürgen@müller.de"),
    ("email", "ann@vip.163.com", "", "ann@vip.163.com"),
    ("email", "ann@cs.x.edu", "", "ann@cs.x.edu"),
    ("email", "_ann@acme.io_", "", "_ann@acme.io"),
    ("email", "ann@acme.io--bye", "", "ann@acme.io"),
    ("phone", "call +49 30 1234567.", "", "+49 30 1234567"),
    ("phone", "tel:+14155552671", "", "+14155552671"),
    ("phone", "or (415) 555-2671!", "", "(415) 555-2671"),
    ("phone", "4155552671", "mobileNumber", "4155552671"),
    ("phone", "0171 2345678", "customer_phone", "0171 2345678"),
    ("card", "paid by 4111 1111 1111 1111.", "", "4111 1111 1111 1111"),
    ("card", "378282246310005", "", "378282246310005"),
    ("card", "5555-5555-5555-4444", "", "5555-5555-5555-4444"),
    ("aws_access_key", "id=AKIAIOSFODNN7EXAMPLE;", "", "IOSFODNN7EXAMPLE"),
    ("github_token", GITHUB, "", GITHUB[4:]),
    ("github_token", f"x{GITHUB}y", "", GITHUB[4:]),  # within a word, where its checksum is right
    ("slack_token", "xoxb-123456789012-abcDEF", "", "123456789012-abcDEF"),
    ("openai_key", "sk-proj-abcDEF1234567890abcd", "", "abcDEF1234567890abcd"),
    ("openai_key", "sk-svcacct-abcDEFghijklmnopqrs81", "", "abcDEFghijklmnopqrs81"),
    ("anthropic_key", "sk-ant-api03-abcDEF1234567890", "", "api03-abcDEF1234567890"),
    ("stripe_key", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "", "4eC39HqLyjWDarjtT1zdp7dc"),
    ("google_api_key", "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"),
    (
        "jwt",
        f"{_JWT_HEADER}.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN",
        "",
        "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN",
    ),
    (
        "private_key",
        f"-----BEGIN RSA PRIVATE KEY-----\n{_KEY_LINES}\n-----END RSA PRIVATE KEY-----",
        "",
        f"\n{_KEY_LINES}\n",
    ),
    ("private_key", rf"-----BEGIN PRIVATE KEY-----\n{_KEY_LINES}", "", rf"\n{_KEY_LINES}"),
    ("url_password", "postgres://shop:s3cret@db/orders", "", "s3cret"),
    ("tracegrade_token", TRACEGRADE, "", TRACEGRADE[4:]),
    (
        "telegram_token",
        "bot 123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1",
        "",
        "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1",
    ),
    (
        "discord_token",
        "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
        "",
        "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    ),
    ("twilio_key", "SK0123456789abcdef0123456789abcdef", "", "0123456789abcdef0123456789abcdef"),
    ("azure_secret", "abc8Q~defghijklmnopqrstuvwxyz0123456789", "", "abc8Q~defghijklmnopqrstuvwxyz0123456789"),
    (
        "azure_signature",
        "https://x/y?sv=1&sig=abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG%3D",
        "",
        "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG%3D",
    ),
    ("iban", "to DE89 3704 0044 0532 0130 00 now", "", "DE89 3704 0044 0532 0130 00"),
    ("iban", "gb29nwbk60161331926819", "", "gb29nwbk60161331926819"),
    ("ip_address", "from 84.23.11.9:443", "", "84.23.11.9"),
    ("ip_address", "https://84.23.11.9/x", "", "84.23.11.9"),
    ("ip_address", "peer 2a02:908:1b:c2e0::17 left", "", "2a02:908:1b:c2e0::17"),
    ("ip_address", "peer 2606:4700::1111", "", "2606:4700::1111"),
    ("ip_address", "It was 2a02:908:1b:c2e0:1:2:3:17.", "", "2a02:908:1b:c2e0:1:2:3:17"),
    ("ip_address", "dial 2a02:908:1b:c2e0:1:2:3:17: refused", "", "2a02:908:1b:c2e0:1:2:3:17"),
    ("ip_address", "ip:2a02:908:1b:c2e0:1:2:3:17", "", "2a02:908:1b:c2e0:1:2:3:17"),
    ("us_ssn", "SSN 078-05-1120.", "", "078-05-1120"),
    ("us_ssn", "078051120", "customerSSN", "078051120"),
    ("uk_nhs_number", "NHS number 943 476 5919", "", "943 476 5919"),
    ("uk_nino", "AB 12 34 56 C", "", "AB 12 34 56 C"),
    ("de_tax_id", "Steuer-ID: 86095742719", "", "86095742719"),
    ("fr_nir", "2 55 08 14 168 025 38", "", "2 55 08 14 168 025 38"),
    ("es_dni", "DNI 12345678Z", "", "12345678Z"),
    ("it_codice_fiscale", "rssmra85t10a562s", "", "rssmra85t10a562s"),
    ("nl_bsn", "111222333", "bsn", "111222333"),
    ("pl_pesel", "PESEL 44051401359", "", "44051401359"),
    ("br_cpf", "111.444.777-35", "", "111.444.777-35"),
    ("br_cnpj", "11.222.333/0001-81", "", "11.222.333/0001-81"),
    ("in_aadhaar", "2341 2341 2346", "", "2341 2341 2346"),
    ("cn_resident_id", "11010519491231002X", "", "11010519491231002X"),
    ("se_personnummer", "811228-9874", "", "811228-9874"),
    ("se_personnummer", "701063-2391", "", "701063-2391"),  # of somebody who does not live there
    ("fi_henkilotunnus", "131052-308T", "", "131052-308T"),
    ("no_fodselsnummer", "15076500565", "", "15076500565"),
    ("dk_cpr", "CPR 211062-5629", "", "211062-5629"),
    ("be_rijksregisternummer", "93.05.18-223.61", "", "93.05.18-223.61"),
    ("ca_sin", "SIN number 193-456-787", "", "193-456-787"),
    ("au_tfn", "TFN 123 456 782", "", "123 456 782"),
    ("ch_ahv", "756.9217.0769.85", "", "756.9217.0769.85"),
    ("named_secret", "hunter2!", "password", "hunter2!"),
    ("named_secret", "a1b2c3d4", "clientSecret", "a1b2c3d4"),
    ("named_secret", "Bearer a1b2c3d4", "http.request.header.authorization", "a1b2c3d4"),
    ("named_secret", "connect --api_key=a1b2c3d4 now", "", "a1b2c3d4"),
    ("named_secret", "Authorization: Bearer abcdefgh", "", "abcdefgh"),
    ("named_secret", "PGPASSWORD=letmein! psql -h db", "", "letmein!"),
    ("named_secret", "export DB_PASS='letmein!'", "", "letmein!"),
    ("named_secret", "mysql --password hunter2! shop", "", "hunter2!"),
    ("named_secret", "{'password': 'letmein!'}", "", "letmein!"),
    ("named_secret", r'["{\"password\": \"letmein!\", \"x', "", "letmein!"),
    ("named_secret", "correct horse battery staple", "wallet_passphrase", "correct horse battery staple"),
]

LEFT = [
    ("email", "user7@example.com git@github.com:acme/shop.git @ann ann@ a@b"),
    ("phone", "1795310022046634930 2026-11-23T09:00:00+0000 10.0.0.1 3.14159265358 +1 400 000 0001"),
    ("phone", "order 4155552671 for 123-456-7890"),
    ("card", "4111 1111 1111 1112 1795310022046634930 4111111111111111.5 a4111111111111111"),
    ("aws_access_key", "AKIA AKIAshort"),
    ("github_token", f"x{GITHUB[:-1]}_y ghp_ghp_"),
    ("openai_key", "sk-short task-list-of-the-whole-department"),
    ("jwt", "eyJub3QiOiJhIGhlYWRlciJ9.eyJzdWIiOiIxIn0.abc"),
    ("private_key", "-----BEGIN PUBLIC KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJ\n-----END PUBLIC KEY-----"),
    ("url_password", "http://db:5432/orders postgres://shop:${PASSWORD}@db"),
    ("iban", "DE88370400440532013000 DE8937040044053201300 XX89370400440532013000 xDE89370400440532013000"),
    ("ip_address", "127.0.0.1 192.0.2.7 0.0.0.0 1.2.3.4.5 300.1.1.1 v1.2.3.4 Chrome/120.0.6099.71 version 8.8.4.4"),
    (
        "ip_address",
        "12:30:45 2001:db8::17 aa:bb:cc:dd:ee:ff std::vec 2001:db8:0:0:0:0:0:17: x 2606:4700:1111 def:abc::d",
    ),
    ("ip_address", "SHA1: 9f:86:d0:81:88:4c:7d:65:9a:2f:ea:a0:c5:5a:d0:15:a3:bf:4f:1b"),
    ("us_ssn", "000-12-3456 666-12-3456 078051120 order-078-05-1120"),
    ("uk_nhs_number", "NHS number 111 111 1111"),
    ("de_tax_id", "86095742718 86095742719"),
    ("nl_bsn", "111222333 bsn 111222334"),
    ("es_dni", "12345678A"),
    ("cn_resident_id", "110105194912310021"),
    ("named_secret", "the password: please change it; secret=<hidden>"),
    ("named_secret", "give --password option, then tests_pass=120000 and PASS=compiled"),
]


def _found(name: str, text: str, key: str = "") -> list[str]:
    return [text[slice(*part)] for detector in DETECTORS[name] for part in detector.find(text, key)]


@each(("name", "text", "key", "value"), FOUND)
def test_a_value_is_found(name: str, text: str, key: str, value: str) -> None:
    assert _found(name, text, key) == [value]


@each(("name", "text", "key", "value"), FOUND)
def test_a_value_is_known_by_its_signs(name: str, text: str, key: str, value: str) -> None:
    """What a detector finds, the scanner finds, and its look at the bytes does not miss."""
    scanner = _scanner(name)
    found = [text[one.start : one.end] for one in scanner.find([text], [key])]
    assert len(found) == 1
    assert value in found[0]
    span = Span()
    span.attributes.add(key=key).value.string_value = text
    assert scanner.may_hold(span.SerializeToString())
    span.attributes[0].key = "x"
    span.attributes[0].value.string_value = json.dumps({"inner": json.dumps({key: text})})
    assert scanner.may_hold(span.SerializeToString())


@lru_cache
def _scanner(name: str) -> Scanner:
    return Scanner(DETECTORS[name], (), {})


@each(("name", "text"), LEFT)
def test_what_only_looks_like_one_is_left(name: str, text: str) -> None:
    assert _found(name, text) == []


@each(("name", "text", "key", "value"), FOUND)
def test_a_stand_in_is_not_found_again_and_differs_with_its_number(name: str, text: str, key: str, value: str) -> None:
    (detector, *_) = [one for one in DETECTORS[name] if list(one.find(text, key))]
    stand_ins = [detector.stand_in(value, number) for number in range(1, 200)]
    assert len(set(stand_ins)) == len(stand_ins)
    for stand_in in stand_ins[:20]:
        replaced = text.replace(value, stand_in)
        assert not [one.name for one in all_detectors() if list(one.find(replaced, key))], replaced


_OF_PERSONS = {"email", "phone", "card", "iban", "ip_address", *(one.name for one in national_ids.DETECTORS)}


def test_the_matcher_of_secrets_means_what_redaction_does() -> None:
    """Both ask these detectors, so that a secret is one to both, and a stand-in, or what is personal, is none."""
    secret = compile_expected({"$secret": True})
    wrong = []
    for name, text, key, value in FOUND:
        (detector, *_) = [one for one in DETECTORS[name] if list(one.find(text, key))]
        stand_in = text.replace(value, detector.stand_in(value, 1))
        for shown in (text, stand_in, text.replace(value, MASK)):
            placed = {key: [shown]} if key else [shown]
            ways = (placed, {key or "a": shown}, {"a": placed}, json.dumps([json.dumps(placed)]))
            is_met = [secret.matches(each, Work()) for each in ways]
            if is_met != [shown == text and name not in _OF_PERSONS] * len(ways):
                wrong.append((name, placed, is_met))
    assert wrong == []
    assert secret.matches({"AKIAIOSFODNN7EXAMPLE": 1}, Work())  # a name can be one
    assert {detector.name for detector in SECRETS} == DETECTORS.keys() - _OF_PERSONS


@each(
    ("value", "at_least"),
    [
        ([0] * 1000, 1000),
        (json.dumps([0] * 8000), 9000),  # the values, and the text that they are read from
        ({"x" * 16_000: 0}, 1000),
        ({"x" * 100: ["y"] * 100}, 10_000),  # a name is looked at for each text
        ("note: " + "y" * 16_000, 1000),
        ("password: " + "y" * 1000, 4000),  # all detectors are asked
    ],
)
def test_the_matcher_of_secrets_counts_all_that_it_reads(value: JsonValue, at_least: int) -> None:
    work = Work()
    compile_expected({"$secret": True}).matches(value, work)
    assert WORK_LIMIT - work.left >= at_least


def test_a_secret_is_found_wherever_it_stands_among_many_texts() -> None:
    secret = compile_expected({"$secret": True})
    for place in (0, 1, 30, 63, 64, 65, 199):
        assert secret.matches(["note"] * place + [GITHUB] + ["note"] * (199 - place), Work()), place


def test_texts_that_hold_a_secret_only_together_hold_none() -> None:
    secret = compile_expected({"$secret": True})
    for text in ("the password: letmein1", "AKIAIOSFODNN7EXAMPLE"):
        assert secret.matches(text, Work())
        for cut in range(5, len(text) - 5):
            assert not secret.matches([text[:cut], text[cut:]], Work()), cut


def test_a_stand_in_has_the_form_of_the_value() -> None:
    (github, aws, private) = (DETECTORS[name][0] for name in ("github_token", "aws_access_key", "private_key"))
    assert re.fullmatch("[A-Za-z0-9]{36}", github.stand_in(GITHUB[4:], 3))
    assert re.fullmatch("[A-Z2-7]{16}", aws.stand_in("IOSFODNN7EXAMPLE", 3))
    assert private.stand_in("\\nAb/1=\\n", 1) == "\\nAa/3=\\n"
    assert DETECTORS["phone"][0].stand_in("+49 (30) 123-4567", 12) == "+49 (30) 000-0012"


@given(st.from_regex(card._ISSUED, fullmatch=True), st.integers(1, 9999))
def test_a_stand_in_of_a_card_is_of_the_same_issuer_and_has_a_right_check_digit(digits: str, number: int) -> None:
    stand_in = card.DETECTOR.stand_in(digits, number)
    assert (len(stand_in), stand_in[:2]) == (len(digits), digits[:2])
    assert luhn_sum(stand_in) % 10 == 0
    assert not list(card.DETECTOR.find(stand_in, ""))


def test_the_check_digit_of_cards_is_that_of_luhn() -> None:
    """7992739871x: the example of the algorithm, whose check digit is 3."""
    assert [digit for digit in range(10) if luhn_sum(f"7992739871{digit}") % 10 == 0] == [3]


def test_a_token_with_a_wrong_checksum_is_found_by_itself_alone() -> None:
    wrong = GITHUB[:-1] + ("a" if GITHUB[-1] != "a" else "b")
    assert _found("github_token", f"token {wrong}") == [wrong[4:]]
    assert _found("github_token", f"x{wrong}y") == []
    assert _found("github_token", f"x{GITHUB}y") == [GITHUB[4:]]


def test_every_file_of_detectors_is_in_the_registry() -> None:
    in_files: set[Detector] = {*tokens.DETECTORS, *national_ids.DETECTORS}
    for found in pkgutil.iter_modules(folder.__path__):
        module = import_module(f"{folder.__name__}.{found.name}")
        if hasattr(module, "DETECTOR"):
            in_files.add(module.DETECTOR)
        else:
            assert module in (tokens, national_ids), found.name
    assert set(all_detectors()) == in_files
    assert all(detector.name == name for name, some in DETECTORS.items() for detector in some)


@pytest.mark.parametrize("length", [5_000, pytest.param(200_000, marks=pytest.mark.long)])
@each("detector", all_detectors(), ids=lambda detector: detector.name)
def test_the_time_of_a_detector_grows_with_the_text_alone(detector: Detector, length: int) -> None:
    """By what a regular expression would step back over: long runs of what values begin with."""
    for piece in (
        "a",
        "a.",
        "1 ",
        "+1",
        "eyJ",
        "a@",
        "://:",
        "-----BEGIN PRIVATE KEY-----",
        "password=",
        "sk-",
        "ghp_",
    ):
        text = piece * (length // len(piece))
        list(detector.find(text, ""))
        list(detector.find(text, "password"))
        list(detector.find(text, "phone"))
