import fnmatch
from typing import Any
from weakref import WeakSet

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from build import each
from tracegrade.evaluate.criteria.regular_expressions import glob_expression
from tracegrade.model.agent_run import normalised_prompt
from tracegrade.rule.patterns import AttributeValues, Names, Patterns, Prompts, scalar_key

NAMES: TypeAdapter[Patterns] = TypeAdapter(Names)
PROMPTS: TypeAdapter[Patterns] = TypeAdapter(Prompts)
ATTRIBUTES: TypeAdapter[Patterns] = TypeAdapter(AttributeValues)


@each(
    ("glob", "text", "matches"),
    [
        ("shop-*", "shop-eu", True),
        ("shop-*", "shop-", True),
        ("shop-*", "my-shop-eu", False),
        ("shop-*", "Shop-eu", False),
        ("*", "", True),
        ("*", "two\nlines", True),
        ("sho?", "shop", True),
        ("sho?", "sho", False),
        ("sho?", "shoö", True),
        ("a[bc]d", "abd", True),
        ("a[b-d]e", "ace", True),
        ("a[!b]c", "abc", False),
        ("a[!b]c", "axc", True),
        ("a[]]c", "a]c", True),
        ("a[!]]c", "a]c", False),
        ("[*]", "*", True),
        ("[*]", "x", False),
        ("[[]x]", "[x]", True),
        ("[^a]", "^", True),
        (r"a[\]b", r"a\b", True),
        ("a.b", "axb", False),
        ("a+(b)|c$*", "a+(b)|c$d", True),
        ("plain", "plain", True),
        ("plain", "plainer", False),
        ("", "", True),
        ("", "x", False),
    ],
)
def test_names_are_compared_as_globs_over_the_whole_text(glob: str, text: str, matches: bool) -> None:
    assert NAMES.validate_python(glob).match(text) is matches


@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="abc", max_size=8))
def test_stars_and_question_marks_mean_what_the_shell_means(glob: str, text: str) -> None:
    assert (glob_expression(glob).search(text.encode()) is not None) == fnmatch.fnmatchcase(text, glob)


def test_a_list_means_any_of() -> None:
    patterns = NAMES.validate_python(["create_order", "refund_*"])
    assert [patterns.match(name) for name in ("create_order", "refund_all", "lookup")] == [True, True, False]


@each("value", [None, 5, True, 1.5])
def test_what_is_no_text_matches_no_name(value: Any) -> None:
    assert not NAMES.validate_python(["*", "5", "1.5"]).match(value)


def test_a_lone_surrogate_in_a_value_is_harmless() -> None:
    assert NAMES.validate_python("a*").match("a\ud800")
    assert not NAMES.validate_python("b*").match("a\ud800")


def test_prompts_are_exact_texts_and_never_globs() -> None:
    assert PROMPTS.validate_python("What time is it?").match("What time is it?")
    assert not PROMPTS.validate_python("What*").match("What time is it?")


def test_prompts_are_kept_with_their_whitespace_normalised() -> None:
    assert PROMPTS.validate_python("  order\n two ").exact == {"order two"}
    assert normalised_prompt("\torder \n two ") == "order two"


def test_a_prompt_expression_is_found_anywhere() -> None:
    patterns = PROMPTS.validate_python({"$regex": "(?i)order [0-9]+"})
    assert patterns.regexes
    assert patterns.match("Please ORDER 12 pens")
    assert not patterns.match("Please order pens")


@each(
    ("expected", "value", "matches"),
    [
        ("gold", "gold", True),
        ("g*", "gold", True),
        (5, 5, True),
        (5, 5.0, True),
        (5, "5", False),
        ("5", 5, False),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (False, 0, False),
        (2**53 + 1, 2**53 + 1, True),
        (2**53 + 1, float(2**53), False),
        ({"$regex": "^g"}, "gold", True),
        ({"$regex": "5"}, 5, False),
        (["gold", 5], 5, True),
        ("gold", ["silver", "gold"], True),
        ("gold", ["silver"], False),
        ("*", None, False),
        ("*", {"a": 1}, False),
    ],
)
def test_attributes_are_compared_as_json_scalars(expected: Any, value: Any, matches: bool) -> None:
    assert ATTRIBUTES.validate_python(expected).match(value) is matches


@given(st.one_of(st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, 1.0, 0.5]), st.sampled_from(["0", "1"])))
def test_two_scalars_share_a_key_exactly_when_they_are_equal_as_json(value: Any) -> None:
    for other in (True, False, 0, 1, 2, 0.0, 1.0, 0.5, "0", "1"):
        same = value == other and isinstance(value, bool) == isinstance(other, bool)
        assert (scalar_key(value) == scalar_key(other)) is same


def test_a_pattern_made_to_explode_stays_linear() -> None:
    # A backtracking engine needs 2**5000 steps here; pytest's timeout is the assertion.
    assert not PROMPTS.validate_python({"$regex": "^(a+)+$"}).match("a" * 5000 + "b")
    assert not NAMES.validate_python("*a" * 40 + "c").match("a" * 5000)


class Text(str):
    """A text that is seen to go: a `str` itself takes no weak references."""


def test_remembered_values_are_bounded() -> None:
    patterns = NAMES.validate_python("agent-*")
    remembered: WeakSet[Text] = WeakSet()
    for number in range(10_000):
        remembered.add(name := Text(f"agent-{number}"))
        assert patterns.match(name)
        del name
    assert 0 < len(remembered) <= 4096


def test_patterns_are_shown_as_they_were_written() -> None:
    assert NAMES.dump_python(NAMES.validate_python(["a", "b*"])) == ["a", "b*"]
    assert repr(NAMES.validate_python("a*")) == "Patterns('a*')"
