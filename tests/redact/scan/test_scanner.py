"""Many texts searched at once."""

import pytest

from build import each
from tracegrade.redact.scan import Found, Scanner
from tracegrade.sensitive.registry import all_detectors


def _found(scanner: Scanner, *texts: str, keys: tuple[str, ...] = ()) -> list[tuple[int, str, str]]:
    found = scanner.find(texts, keys or ("",) * len(texts))
    assert found == sorted(found)
    return [(one.text, texts[one.text][one.start : one.end], one.detector) for one in found]


def test_what_detectors_find_is_found_in_each_text_with_its_key() -> None:
    scanner = Scanner(all_detectors(), (), {})
    assert _found(scanner, "ask ann@acme.io", "fine", "hunter2!", keys=("", "", "password")) == [
        (0, "ann@acme.io", "email"),
        (2, "hunter2!", "named_secret"),
    ]
    assert scanner.find(["ask ann@acme.io"], [""]) == [Found(0, 4, 15, "email")]


def test_names_of_a_dictionary_are_found_as_whole_words() -> None:
    scanner = Scanner((), ["Ann Lee", "Müller", "Ann"], {})
    assert _found(scanner, "ANN LEE (é) met Frau MÜLLER; Annual. ann Leeds") == [
        (0, "ANN LEE", "name"),
        (0, "MÜLLER", "name"),
        (0, "ann", "name"),
    ]


def test_own_patterns_are_found() -> None:
    scanner = Scanner((), (), {"employee": r"\b(X)?E-\d{6}\b"})
    assert _found(scanner, "é: E-123456 E-1234567") == [(0, "E-123456", "employee")]


@each(
    ("names", "patterns", "message"),
    [
        ((), {"all": ".*"}, "pattern 'all': '.*' finds the empty text; write one that needs a character"),
        ((), {"all": r"\w+"}, r"pattern 'all': '\\w+' finds something in every text; write a narrower one"),
        ((), {"all": "[a-z]{3,}"}, "pattern 'all': '[a-z]{3,}' finds something in every text; write a narrower one"),
        ((), {"all": "."}, "pattern 'all': '.' finds something in every text; write a narrower one"),
        ((), {"bad": "("}, "RE2 refuses the regular expression '(': missing ): ("),
        ((), {"email": "x@"}, "pattern 'email' is called as a detector is; give it another name"),
        (("A",), {}, "name 'A' would be found everywhere; expected 2 characters or more"),
    ],
)
def test_what_would_find_everything_is_refused(names: tuple[str, ...], patterns: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the message is compared as a whole
        Scanner(all_detectors(), names, patterns)
    assert str(error.value) == message
