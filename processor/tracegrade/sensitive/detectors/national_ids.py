"""Numbers by which states know persons and firms, of the countries in the table below.

A number that many other numbers look like counts only as it is laid out by custom, or behind its name: ``SSN``,
``Steuer-ID``, or a key that says so. One with a form or a check that few others have is found anywhere.

Sources: the issuers' own descriptions, named with each.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from tracegrade.sensitive.check_digits import NOT_BEHIND_NUMBERS, is_date, luhn_sum, mod_11_10, verhoeff, weighted
from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.likeness import is_likeness, likeness

_BEFORE = 32
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class _Form:
    """One kind of number.

    ``laid_out`` is how it stands anywhere, ``plain`` how it stands behind one of its ``names`` or under such a key;
    both without edges of words, and None where there is no such form. ``is_right`` is told digits and letters alone,
    in capitals.
    """

    name: str
    laid_out: str | None
    plain: str | None
    names: str
    is_right: Callable[[str], bool]
    cuts: tuple[str, ...] = ()


def _ssn(number: str) -> bool:
    """Social Security Administration: areas 000, 666 and 900 to 999, groups 00 and serials 0000 are not given."""
    return number[:3] not in ("000", "666") and number[0] != "9" and number[3:5] != "00" and number[5:] != "0000"


def _nhs(number: str) -> bool:
    """NHS Data Dictionary: modulus 11."""
    return (11 - weighted(number[:9], range(10, 1, -1)) % 11) % 11 == int(number[9]) and len(set(number)) > 1


def _nino(number: str) -> bool:
    """HM Revenue & Customs, NIM39110: prefixes that are not given."""
    return number[:2] not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")


def _de_tax(number: str) -> bool:
    """Bundeszentralamt für Steuern: of the first ten digits one comes twice or three times; ISO 7064, mod 11, 10."""
    times = sorted(number[:10].count(digit) for digit in set(number[:10]))
    return number[0] != "0" and times[-1] in (2, 3) and set(times[:-1]) == {1} and mod_11_10(number)


def _fr_nir(number: str) -> bool:
    """INSEE: sex, month and department; the key is 97 less the remainder by 97, with Corsica's letters as 19 and 18."""
    body = number[:13].replace("2A", "19").replace("2B", "18")
    month = int(number[3:5])
    known_month = 1 <= month <= 12 or 20 <= month <= 42 or month >= 50
    return body.isdigit() and known_month and 97 - int(body) % 97 == int(number[13:])


_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"


def _es_dni(number: str) -> bool:
    """Ministerio del Interior: the letter is that of the remainder by 23; X, Y and Z of foreigners are 0, 1 and 2."""
    first = {"X": "0", "Y": "1", "Z": "2"}.get(number[0], number[0])
    return _DNI_LETTERS[int(first + number[1:8]) % 23] == number[8]


_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)


def _it_fiscal(number: str) -> bool:
    """Decreto ministeriale of 23 December 1976: values of odd places by table, of even ones by the alphabet."""
    values = [int(sign, 36) - (0 if sign.isdigit() else 10) for sign in number]
    return (sum(values[1:15:2]) + sum(_ODD[value] for value in values[0:15:2])) % 26 == values[15]


def _nl_bsn(number: str) -> bool:
    """Rijksdienst voor Identiteitsgegevens: the test by eleven, in which the last digit counts as -1."""
    return weighted(number, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0 and number.strip("0") != ""


def _pl_pesel(number: str) -> bool:
    """Ministerstwo Cyfryzacji: a date with the century in the month, weights 1, 3, 7 and 9."""
    known_date = is_date(int(number[4:6]), int(number[2:4]) % 20)
    return known_date and weighted(number, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def _by_11(digits: str, weights: range) -> int:
    rest = weighted(digits, weights) % 11
    return 0 if rest < 2 else 11 - rest


def _br_cpf(number: str) -> bool:
    """Receita Federal: two check digits, modulus 11."""
    checks = _by_11(number[:9], range(10, 1, -1)), _by_11(number[:10], range(11, 1, -1))
    return len(set(number)) > 1 and checks == (int(number[9]), int(number[10]))


def _br_cnpj(number: str) -> bool:
    """Receita Federal: as CPF, with weights 2 to 9 from the right, again and again."""
    found = []
    for length in (12, 13):
        rest = sum(int(digit) * (2 + place % 8) for place, digit in enumerate(reversed(number[:length]))) % 11
        found.append(0 if rest < 2 else 11 - rest)
    return len(set(number)) > 1 and found == [int(number[12]), int(number[13])]


def _cn_id(number: str) -> bool:
    """GB 11643: a date of birth; ISO 7064, mod 11, 2."""
    if not (number[6:8] in ("19", "20") and is_date(int(number[12:14]), int(number[10:12]))):
        return False
    return "10X98765432"[weighted(number, [2 ** (17 - place) % 11 for place in range(17)]) % 11] == number[17]


def _se_number(number: str) -> bool:
    """Skatteverket: a date (60 is added to the day of those who do not live there), Luhn."""
    number = number[-10:]
    day = int(number[4:6])
    return is_date(day - 60 if day > 60 else day, int(number[2:4])) and luhn_sum(number) % 10 == 0


def _fi_hetu(number: str) -> bool:
    """Digi- ja väestötietovirasto: a date, and the sign for the remainder by 31."""
    rest = int(number[:6] + number[-4:-1]) % 31
    return is_date(int(number[:2]), int(number[2:4])) and "0123456789ABCDEFHJKLMNPRSTUVWXY"[rest] == number[-1]


def _no_number(number: str) -> bool:
    """Skatteetaten: a date (40 is added to the day of D numbers), two check digits, modulus 11."""
    day = int(number[:2])
    first = weighted(number[:10], (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)) % 11 == 0
    second = weighted(number, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0
    return is_date(day - 40 if day > 40 else day, int(number[2:4])) and first and second


def _dk_cpr(number: str) -> bool:
    """CPR-kontoret: a date; since 2007 numbers are given without a check digit."""
    return is_date(int(number[:2]), int(number[2:4]))


def _be_number(number: str) -> bool:
    """Rijksregister: a date, 97 less the remainder by 97; a 2 stands before those born since 2000."""
    body, check = number[:9], int(number[9:])
    known_date = int(number[2:4]) <= 12 and int(number[4:6]) <= 31
    return known_date and check in (97 - int(body) % 97, 97 - int("2" + body) % 97)


def _ca_sin(number: str) -> bool:
    """Employment and Social Development Canada: Luhn; none begins with 0 or 8."""
    return number[0] not in "08" and luhn_sum(number) % 10 == 0


def _au_tfn(number: str) -> bool:
    """Australian Taxation Office: weights, modulus 11."""
    return weighted(number, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0 and len(set(number)) > 1


def _ch_ahv(number: str) -> bool:
    """Zentrale Ausgleichsstelle: 756, then as EAN-13."""
    return weighted(number, (1, 3) * 7) % 10 == 0


_FORMS = (
    _Form("us_ssn", r"\d{3}-\d{2}-\d{4}", r"\d{9}", r"ssn|social[_\- ]?security", _ssn),
    _Form("uk_nhs_number", None, r"\d{3}[ \-]?\d{3}[ \-]?\d{4}", r"nhs", _nhs),
    _Form(
        "uk_nino",
        r"(?i:[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D])",
        None,
        r"(?!)",
        _nino,
        (r"<[A-Za-z]? ?(?:\d ?){6}[A-Da-d]", r"[A-Za-z]{2} ?(?:\d ?){6}>"),
    ),
    _Form("de_tax_id", r"\d{2} \d{3} \d{3} \d{3}", r"\d{11}", r"tax[_\- ]?id|steuer|idnr", _de_tax),
    _Form(
        "fr_nir",
        r"[1-478] ?\d{2} ?\d{2} ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}",
        None,
        r"(?!)",
        _fr_nir,
    ),
    _Form(
        "es_dni",
        r"(?i:(?:\d{8}|[XYZ]-?\d{7})-?[TRWAGMYFPDXBNJZSQVHLCKE])",
        None,
        r"(?!)",
        _es_dni,
        (r"(?:\d|[XYZxyz]-?)\d{7}-?>", r"<-?\d{7}-?[A-Za-z]"),
    ),
    _Form(
        "it_codice_fiscale",
        r"(?i:[A-Z]{6}[\dL-NP-V]{2}[ABCDEHLMPRST][\dL-NP-V]{2}[A-Z][\dL-NP-V]{3}[A-Z])",
        None,
        r"(?!)",
        _it_fiscal,
        (
            r"<[A-Za-z]{0,5}\d\d[A-EHLMPRSTa-ehlmprst]\d",
            r"[A-Za-z]{6}\d{1,2}(?:[A-EHLMPRSTa-ehlmprst](?:\d{1,2}(?:[A-Za-z]\d{0,3})?)?)?>",
        ),
    ),
    _Form("nl_bsn", None, r"\d{9}|\d{4}\.\d{2}\.\d{3}", r"bsn|burgerservice|sofi", _nl_bsn),
    _Form("pl_pesel", None, r"\d{11}", r"pesel", _pl_pesel),
    _Form("br_cpf", r"\d{3}\.\d{3}\.\d{3}-\d{2}", r"\d{11}", r"cpf", _br_cpf),
    _Form("br_cnpj", r"\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2}", r"\d{14}", r"cnpj", _br_cnpj),
    # UIDAI: Verhoeff; none begins with 0 or 1.
    _Form("in_aadhaar", r"[2-9]\d{3} \d{4} \d{4}", r"[2-9]\d{3}[ \-]?\d{4}[ \-]?\d{4}", r"aadha?ar|uidai", verhoeff),
    _Form("cn_resident_id", r"[1-8]\d{16}[\dXx]", None, r"(?!)", _cn_id),
    _Form("se_personnummer", r"(?:19|20)?\d{6}[\-+]\d{4}", r"(?:19|20)?\d{10}", r"personn(?:umme)?r", _se_number),
    _Form(
        "fi_henkilotunnus",
        r"\d{6}[\-+A-FU-Y]\d{3}[\dA-FHJ-NPR-Y]",
        None,
        r"(?!)",
        _fi_hetu,
        (r"<[\-+A-FU-Y]\d{3}\w>", r"\d{6}[\-+A-FU-Y]\d{0,3}>"),
    ),
    _Form("no_fodselsnummer", r"\d{6} ?\d{5}", None, r"(?!)", _no_number),
    _Form("dk_cpr", None, r"\d{6}-?\d{4}", r"cpr", _dk_cpr),
    _Form(
        "be_rijksregisternummer", r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}", r"\d{11}", r"rijksregister|niss|insz", _be_number
    ),
    _Form("ca_sin", None, r"\d{3}[ \-]?\d{3}[ \-]?\d{3}", r"sin[_\- ]?(?:no|number)|social[_\- ]?insurance", _ca_sin),
    _Form("au_tfn", None, r"\d{3} ?\d{3} ?\d{3}", r"tfn|tax[_\- ]?file", _au_tfn),
    _Form("ch_ahv", r"756\.\d{4}\.\d{4}\.\d{2}", r"756\d{10}", r"ahv|avs|oasi", _ch_ahv),
)


def _detector(form: _Form) -> Detector:
    anywhere = _edged(form.laid_out) if form.laid_out else None
    named = _edged(form.plain) if form.plain else None
    names = re.compile(rf"(?<![A-Za-z])(?:{form.names})(?![a-z])" if form.plain else "(?!)", re.IGNORECASE)

    @lru_cache(maxsize=10_000)
    def is_named(key: str) -> bool:
        return len(key) <= 128 and names.search(_CAMEL_CASE.sub("_", key)) is not None

    laid_out = (form.laid_out,) if form.laid_out else ()
    # A run of backslashes counts once: the deeper in JSON a name stands, the more there are before its quote.
    near = rf"(?:[^\d\\]|\\+){{0,{_BEFORE}}}"
    behind = [rf"(?i:{form.names}){between}(?:{form.plain})" for between in (near, r"[^\d]*")]
    signs, first = ((*laid_out, sign) if form.plain else laid_out for sign in behind)
    known = re.compile("|".join(f"(?=({one}))" for one in (form.laid_out, form.plain) if one), re.ASCII)
    find = partial(_find, form, anywhere, named, names, is_named)
    return Detector(
        form.name,
        find,
        likeness,
        identity=_identity,
        in_numbers=True,
        cuts=form.cuts,
        signs=signs,
        may_be=lambda text: any(_is_one(form, match[match.lastindex or 0]) for match in known.finditer(text)),
        is_named=is_named if form.plain else None,
        first=first,
        not_behind=NOT_BEHIND_NUMBERS,
    )


def _edged(form: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.+\-])(?:{form})(?![\w\-])(?!\.\d)", re.ASCII)


def _find(
    form: _Form,
    anywhere: re.Pattern[str] | None,
    named: re.Pattern[str] | None,
    names: re.Pattern[str],
    is_named: Callable[[str], bool],
    text: str,
    key: str,
) -> Iterator[Part]:
    found = set()
    if anywhere is not None:
        found |= {match.span() for match in anywhere.finditer(text)}
    if named is not None and (by_key := bool(key) and is_named(key)) | (names.search(text) is not None):
        found |= {
            match.span()
            for match in named.finditer(text)
            if by_key or names.search(text, max(0, match.start() - _BEFORE), match.start())
        }
    yield from sorted(part for part in found if _is_one(form, text[slice(*part)]))


def _is_one(form: _Form, value: str) -> bool:
    number = _identity(value)
    return not is_likeness(number) and form.is_right(number)


def _identity(value: str) -> str:
    return "".join(filter(str.isalnum, value)).upper()


DETECTORS = tuple(map(_detector, _FORMS))
