"""What an answer names that can be looked for: numbers, amounts, percentages, dates, ids, addresses and given names."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from tracegrade.evaluate.criteria.occurrences import folded, holds_words
from tracegrade.evaluate.grounding.dates import DATE
from tracegrade.evaluate.grounding.numbers import NUMBER, SCALE, readings
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work

Kind: TypeAlias = Literal["number", "amount", "percent", "date", "id", "url", "name"]
KINDS: tuple[Kind, ...] = ("number", "amount", "percent", "date", "id", "url", "name")

_CURRENCIES = "USD|EUR|GBP|JPY|CHF|INR|CNY|AUD|CAD|SEK|NOK|DKK|PLN|CZK|BRL|euros?|dollars?|pounds?"
_CURRENCY = rf"[$€£¥₹]|\b(?:US|A|C)\$|\b(?:{_CURRENCIES})\b"
# What is read ahead is bounded, so that an answer of any length is read in one go.
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<url>(?:https?://|www\.)[^\s<>\"'()\[\]]+)",
            r"(?<![\w.])(?P<address>[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,4})",
            rf"(?<![\w./-])(?P<date>{DATE})(?![\w/-])",
            r"(?<![\w:])(?P<time>\d{1,2}:\d{2}(?::\d{2})?)(?![\w:])",
            r"(?<!\w)(?P<id>#\d[\w-]{0,64}"  # #1042
            r"|(?=[^\W\d_][\w-]{0,63}\d)\w{1,65}(?:[-_]\w{1,64}){0,8}"  # ORD-1042, A1B2
            r"|(?=\d[\da-f-]{0,63}[a-f])[\da-f]{4,65}(?:-[\da-f]{1,64}){0,8}"  # 9f86d081
            r"|\d{2,64}(?:-\d{2,64}){2,8})(?!\w)",  # 978-3-16
            rf"(?<![\w.,])(?:(?:{_CURRENCY})\s?(?P<amount>{NUMBER}{SCALE}?)|(?P<paid>{NUMBER}{SCALE}?)\s?(?:{_CURRENCY}))",
            rf"(?<![\w.,])(?P<percent>{NUMBER})\s?(?:%|percent\b|Prozent\b)",
            rf"(?<![\w.,])(?P<number>{NUMBER}{SCALE}?)",
        )
    ),
    re.IGNORECASE,
)
# None of these goes over two white spaces, nor is without one of what `_SIGN` finds: long prose has few such parts.
_APART = re.compile(r"\s\s+")
_SIGN = re.compile(r"[\d@]|www\.|https?://", re.IGNORECASE)
_SHORTEST_ID = 4
# What `_TOKEN` takes of a text in which it may find something, whatever the text; and what it finds takes.
_STEPS_OF_A_CHARACTER = 6
_STEPS_OF_A_TOKEN = 22
_VERB = re.compile(r"\bmay\b")  # 5 may be late


class Claim(NamedTuple):
    """One value that an answer names, as it is written."""

    kind: Kind
    text: str


def claims(answer: str, work: Work) -> Iterator[Claim]:
    """The values that `answer` names, each once, in its order.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    seen: set[Claim] = set()
    for claim in _found(answer, work):
        if claim not in seen:
            seen.add(claim)
            yield claim


def names_in(answer: str, names: Sequence[str], work: Work) -> Iterator[Claim]:
    """Those of `names` that stand in `answer`, each once.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    text = folded(answer) if names else ""
    for name in dict.fromkeys(names):
        work.spend(1 + len(text) // CHARACTERS_READ_PER_STEP)
        if holds_words(text, folded(name), work):
            yield Claim("name", name)


def _tokens(text: str, work: Work) -> Iterator[re.Match[str]]:
    work.spend(1 + len(text) // CHARACTERS_READ_PER_STEP)
    for part in _APART.split(text):
        work.spend()
        if _SIGN.search(part):
            work.spend(len(part) * _STEPS_OF_A_CHARACTER)
            for token in _TOKEN.finditer(part):
                work.spend(_STEPS_OF_A_TOKEN)
                yield token


def _found(answer: str, work: Work) -> Iterator[Claim]:
    for token in _tokens(answer, work):
        match token.lastgroup:
            case "url":
                yield Claim("url", token["url"].rstrip(".,;:!?*_"))
            case "date":
                if not _VERB.search(token["date"]):
                    yield Claim("date", token["date"].rstrip("., "))
            case "id":
                text = token["id"].lstrip("#")
                if len(text) >= _SHORTEST_ID or token["id"].startswith("#"):
                    yield Claim("id", text)
            case "amount" | "paid":
                yield Claim("amount", (token["amount"] or token["paid"]).strip())
            case "percent":
                yield Claim("percent", token["percent"])
            case "number":
                text = token["number"].strip()
                yield Claim("number" if readings(text) else "id", text)  # 1.2.3 is the name of a version
            case _:  # e-mail addresses, which are looked for as ids, and times of day, which are not judged
                if token["address"]:
                    yield Claim("id", token["address"])
