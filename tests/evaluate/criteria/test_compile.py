from typing import Any

import pytest

from build import each
from tracegrade.evaluate.criteria.compile import LITERALLY, MAX_DEPTH, compile_expected, compile_object
from tracegrade.evaluate.criteria.expected import Difference, LiteralValue, MatcherError, differences
from tracegrade.evaluate.criteria.registry import MATCHERS_BY_WORD
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.work import Work


@each(
    ("criterion", "actual", "matches"),
    [
        ({"$regex": "^ORD-[0-9]+$"}, "ORD-17", True),
        ({"$regex": "[0-9]+"}, "order 17 of today", True),  # found anywhere
        ({"$regex": "^ord"}, "ORD-17", False),
        ({"$regex": "(?i)^ord"}, "ORD-17", True),
        ({"$regex": "^42$"}, 42, True),
        ({"$regex": "^1.5$"}, 1.5, True),
        ({"$regex": "^true$"}, True, True),
        ({"$regex": "null"}, None, False),
        ({"$regex": "a"}, ["a"], False),
        ({"$regex": ".*"}, {}, False),
        ({"$regex": "^日本$"}, "日本", True),
        ({"$regex": "^.$"}, "\ud800", True),  # a lone surrogate is a character like any other
        ({"a": {"$regex": "^x"}, "b": 1}, {"a": "xy", "b": 1.0}, True),
        ({"a": {"$regex": "^x"}, "b": 1}, {"a": "xy"}, False),
        ({"a": {"$regex": "^x"}}, {"a": "xy", "b": 1}, False),  # nested objects are compared whole
        ([1, {"$regex": "^x"}], [1, "xy"], True),
        ([1, {"$regex": "^x"}], [1, "xy", 2], False),
        ([{"$regex": "^x"}], {"0": "x"}, False),
        ({"$literal": {"$regex": "a"}}, {"$regex": "a"}, True),
        ({"$literal": {"$regex": "a"}}, "a", False),
        ({"$literal": "a", "$regex": "b"}, "a", False),  # several keys: all hold
        ({"$literal": "ab", "$regex": "b"}, "ab", True),
        ({}, {}, True),
        ({}, {"a": 1}, False),
        ({"$glob": "ORD-*"}, "ORD-17", True),
        ({"$glob": "ord-*"}, "ORD-17", False),
        ({"$glob": "RD-*"}, "ORD-17", False),  # the whole text
        ({"$glob": "4?"}, 42, True),
        ({"$case_insensitive": "Paris"}, "pARIS", True),
        ({"$case_insensitive": "Paris"}, " Paris", False),
        ({"$case_insensitive": 1}, 1.0, True),
        ({"$case_insensitive": 1}, True, False),
        ({"$case_insensitive": "5"}, 5, False),
        ({"$case_insensitive": ["A"]}, ["a"], False),  # only where both are texts
        ({"$contains": "PARIS"}, "to Paris, please", True),
        ({"$contains": "to Paris, please"}, "Paris", False),  # not the other way round
        ({"$contains": 1}, 210, True),
        ({"$contains": "null"}, None, False),
        ({"$contains": "a"}, {"a": 1}, False),
        ({"$contains": 2}, [1, 2], True),
        ({"$contains": {"$gte": 3}}, [1, 2], False),
        ({"$contains": {"$gte": 2}}, [1, 2], True),
        ({"$contains": {"sku": {"$regex": "^A"}}}, [{"sku": "A1"}], True),
        ({"$similarity": "check_inventory"}, "check_inventry", True),  # 1 edit, 1 - 1/15
        ({"$similarity": {"text": "abcd", "at_least": 0.75}}, "abcx", True),  # 1 - 1/4
        ({"$similarity": {"text": "abcd", "at_least": 0.76}}, "abcx", False),
        ({"$similarity": ""}, "", True),
        ({"$similarity": "a"}, None, False),
        ({"$numeric_tolerance": 10}, 10.01, True),
        ({"$numeric_tolerance": 10}, "10.005", True),
        ({"$numeric_tolerance": 1.0}, 1.01, False),  # a hundredth in binary is a little more than 0.01
        ({"$numeric_tolerance": {"value": 10, "epsilon": 2}}, 12, True),
        ({"$numeric_tolerance": {"value": 10, "epsilon": 2}}, 12.5, False),
        ({"$numeric_tolerance": {"value": 2**53, "epsilon": 0}}, 2**53 + 1, False),  # integers are exact
        ({"$numeric_tolerance": 10**400}, 10**400, True),
        ({"$numeric_tolerance": 10**400}, 1.0, False),
        ({"$numeric_tolerance": 1}, True, False),
        ({"$numeric_tolerance": 1}, "one", False),
        ({"$numeric_tolerance": 1}, "nan", False),
        ({"$gte": 0}, 0, True),
        ({"$gte": 0}, -0.5, False),
        ({"$gt": 0}, 0, False),
        ({"$lte": 5}, 5, True),
        ({"$lt": 5}, 5, False),
        ({"$lt": 5}, 2**70, False),
        ({"$gte": 0}, "5", False),  # a text is no number
        ({"$gt": 100}, "1e309", True),  # as decoding keeps a number that no float can hold
        ({"$gt": 100}, "-1e309", False),
        ({"$lt": 0}, "-Infinity", True),
        ({"$gt": 100}, "9" * 5000, True),
        ({"$lte": 100}, "Infinity", False),
        ({"$gt": 100}, "NaN", False),
        ({"$gt": 100}, "1e308", False),
        ({"$gte": 0}, True, False),
        ({"$gte": "2026-01-01"}, "2026-03-01", True),
        ({"$lt": "2026-01-01"}, "2026-03-01", False),
        ({"$gte": 1, "$lte": 3}, 2, True),
        ({"$gte": 1, "$lte": 3}, 4, False),
        ({"$type": "integer"}, 1.0, True),
        ({"$type": "integer"}, 1.5, False),
        ({"$type": "integer"}, 10**40, True),
        ({"$type": "number"}, True, False),
        ({"$type": "boolean"}, True, True),
        ({"$type": ["string", "null"]}, None, True),
        ({"$type": "object"}, [], False),
        ({"$type": "array"}, [], True),
        ({"$type": "string"}, "1", True),
        ({"$length": 2}, "日本", True),
        ({"$length": 2}, ["a"], False),
        ({"$length": {"$gte": 1}}, {"a": 1}, True),
        ({"$length": 1}, 5, False),
        ({"$schema": {"type": "integer", "minimum": 10**40}}, 10**40, True),
        ({"$schema": {"type": "integer", "minimum": 10**40}}, 10**40 - 1, False),
        ({"$schema": {"required": ["a"]}}, {"b": 1}, False),
        ({"$schema": {"pattern": "^.$"}}, "\ud800", True),
        ({"$schema": {"$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}}, None, True),
        ({"$schema": False}, 1, False),
        ({"$one_of": ["a", {"$gte": 5}]}, 7, True),
        ({"$one_of": ["a", {"$gte": 5}]}, "b", False),
        ({"$any": True}, None, True),
        ({"a": {"$any": True}}, {}, False),
        ({"a": {"$absent": True}}, {}, True),
        ({"a": {"$absent": True}}, {"a": None}, False),  # null is there
        ({"a": {"$absent": True}}, {"b": 1}, False),
        ({"a": {"$absent": True}, "b": 1}, {"b": 1}, True),
        ({"a": {"$one_of": [5, {"$absent": True}]}}, {}, True),
        ({"a": {"$one_of": [5, {"$absent": True}]}}, {"a": 5}, True),
        ({"a": {"$one_of": [5, {"$absent": True}]}}, {"a": 6}, False),
    ],
)
def test_a_criterion_matches(criterion: Any, actual: Any, matches: bool) -> None:
    assert compile_expected(criterion).matches(actual, Work()) is matches


def test_without_matchers_everything_is_literal() -> None:
    criterion = {"a": {"$regex": "x"}, "$gte": 1}
    assert compile_expected(criterion, matchers=False).matches(criterion, Work())


@each(
    ("criterion", "path", "message"),
    [
        ({"a": [{"$regex": "x", "b": 1}]}, ("a", 0), "is beside 'b'"),
        ({"$regx": "x"}, ("$regx",), r"no matcher '\$regx'; did you mean '\$regex'\?"),
        ({"a": {"$regex": "("}}, ("a", "$regex"), r"RE2 refuses the regular expression '\('"),
        ({"$regex": "(?=a)"}, ("$regex",), "RE2 refuses"),  # look-ahead is not linear
        ({"$regex": "\ud800"}, ("$regex",), "RE2 refuses"),
        ({"$regex": "((a{100}){100}){100}"}, ("$regex",), "RE2 refuses"),  # larger than its memory bound
        ({"$regex": 7}, ("$regex",), "expected a regular expression as text, found 7"),
        ({"$glob": "[a"}, ("$glob",), r"'\[' without '\]' in the glob"),
        ({"$glob": None}, ("$glob",), "found null"),
        ({"$similarity": {"text": "a", "at_leest": 1}}, ("$similarity",), r"expected a text, or \{text: TEXT"),
        ({"$similarity": {"text": "a", "at_least": 80}}, ("$similarity", "at_least"), "a number from 0 to 1, found 80"),
        ({"$similarity": 5}, ("$similarity",), "expected a text"),
        ({"$semantic": "hello"}, ("$semantic",), r"pip install 'tracegrade\[semantic\]'.*rules.semantic_model"),
        ({"$numeric_tolerance": "1"}, ("$numeric_tolerance",), 'expected a number, or .*, found "1"'),
        (
            {"$numeric_tolerance": {"value": 1, "epsilon": -1}},
            ("$numeric_tolerance", "epsilon"),
            "at least 0, found -1",
        ),
        ({"$gte": True}, ("$gte",), "expected a number or a text, found true"),
        ({"$type": "str"}, ("$type",), "expected a JSON type, found \"str\"; did you mean 'string'"),
        ({"$type": []}, ("$type",), "expected a JSON type"),
        ({"$length": -1}, ("$length",), "expected a whole number"),
        ({"$length": "a"}, ("$length",), "expected a whole number"),
        ({"$schema": {"type": "strin"}}, ("$schema",), "no JSON Schema: "),
        ({"$schema": []}, ("$schema",), "expected a JSON Schema"),
        ({"$schema": {"$ref": "http://127.0.0.1/x.json"}}, ("$schema",), "no JSON Schema: .*Retrieval is disabled"),
        ({"$schema": {"$ref": "file:///etc/hostname"}}, ("$schema",), "no JSON Schema: "),
        ({"$schema": {"pattern": "(?=a)b"}}, ("$schema",), "no JSON Schema: "),
        ({"$one_of": []}, ("$one_of",), "a list of at least one criterion"),
        ({"$one_of": [1, {"$gte": None}]}, ("$one_of", 1, "$gte"), "expected a number or a text, found null"),
        ({"$any": False}, ("$any",), "expected true, found false"),
        ({"$absent": 1}, ("$absent",), "expected true, found 1"),
        ({"a": {"$absent": True, "$any": True}}, ("a",), r"\$absent never holds together with other matchers"),
        ([{"$absent": True}], (0,), "here there is always a value"),
        ({"$from": "check"}, ("$from",), "expected 'prompt', 'TOOL.output'"),
        ({"$from": "check.output["}, ("$from",), "where PATH is"),
        ({"$from": {"source": "prompt", "call": "next"}}, ("$from", "call"), "expected any, first or last"),
        ({"$from": []}, ("$from",), "at least one source"),
    ],
)
def test_a_wrong_criterion_is_refused_with_its_place(criterion: Any, path: Any, message: str) -> None:
    with pytest.raises(MatcherError, match=message) as error:
        compile_expected(criterion)
    assert error.value.path == path


@each("word", sorted({*MATCHERS_BY_WORD, LITERALLY}))
def test_every_matcher_beside_a_plain_key_is_refused(word: str) -> None:
    with pytest.raises(MatcherError, match="is beside 'plain'"):
        compile_expected({word: 1, "plain": 2})


def test_nesting_is_bounded() -> None:
    criterion: Any = 1
    for _ in range(MAX_DEPTH):
        criterion = [criterion]
    assert compile_expected(criterion).matches(criterion, Work())
    with pytest.raises(MatcherError, match="nested more than 64 deep"):
        compile_expected([criterion])


def test_a_criterion_without_matchers_is_one_literal() -> None:
    assert isinstance(compile_expected({"a": [1, {"b": 2}]}), LiteralValue)


@each("value", [[1], "x", None, {"$regex": "a"}])
def test_arguments_are_an_object(value: Any) -> None:
    with pytest.raises(MatcherError, match="expected an object of argument names"):
        compile_object(value)


def test_arguments_named_with_a_dollar_are_written_as_a_literal() -> None:
    assert compile_object({"$literal": {"$filter": 1}}).matches({"$filter": 1}, Work())


def test_differences_are_placed() -> None:
    criterion = compile_expected({"a": {"b": [1, 2, {"c": 3}]}, "d": {"$regex": "^x"}, "e": 5, "same": {"x": 1}})
    actual = {"a": {"b": [1, 0], "n": None}, "d": "y", "same": {"x": 1.0}, "f": 6}
    assert list(differences(criterion, actual, Work())) == [
        Difference(("a", "b", 1), "different", 2, 0),
        Difference(("a", "b", 2), "missing", {"c": 3}),
        Difference(("a", "n"), "unexpected", found=None),
        Difference(("d",), "different", {"$regex": "^x"}, "y"),
        Difference(("e",), "missing", 5),
        Difference(("f",), "unexpected", found=6),
    ]


def test_further_members_are_no_difference_when_only_a_part_is_expected() -> None:
    criterion = compile_object({"a": {"b": 1}})
    found = list(differences(criterion, {"a": {"b": 1, "c": 2}, "d": 3}, Work(), partly=True))
    assert found == [Difference(("a", "c"), "unexpected", found=2)]


def test_matching_costs_work() -> None:
    with pytest.raises(EvaluatorError, match="steps"):
        compile_expected({"$regex": "x"}).matches("y" * 1000, Work(10))


def test_a_member_that_may_be_missing_is_no_difference() -> None:
    criterion = compile_object({"a": {"$absent": True}, "b": {"$one_of": [1, {"$absent": True}]}, "c": 1})
    assert list(differences(criterion, {"a": 5}, Work())) == [
        Difference(("a",), "different", {"$absent": True}, 5),
        Difference(("c",), "missing", 1),
    ]


def test_a_schema_is_not_asked_about_what_is_nested_too_deep() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert not compile_expected({"$schema": {"items": {"$ref": "#"}}}).matches(value, Work())
