from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from build import each
from tracegrade.document.document import Document
from tracegrade.document.duration import duration_text
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.problem import FileError, Problem, did_you_mean, dotted
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import parse, read


def mistakes(text: str, model: type[FileModel] | None = None, **options: Any) -> list[str]:
    """Everything that is wrong with `text`, without the file's name."""
    try:
        document = parse(text, "f.yaml", **options)
        if model is not None:
            validate(document, model)
    except FileError as error:
        return [str(problem).removeprefix("f.yaml:") for problem in error.problems]
    return []


@each(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("no", "no"),
        ("True", True),
        ("~", None),
        ("0o14", 12),
        ("012", 12),
        ("0x1f", 31),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("2020-01-01", "2020-01-01"),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("", None),
    ],
)
def test_values_are_typed_as_in_yaml_1_2(text: str, value: object) -> None:
    found = parse(text, "f.yaml").value
    assert found == value
    assert type(found) is type(value)


CLOSE = "; close the bracket, or quote a text that has brackets or commas in it"


@each(
    ("text", "message"),
    [
        ("a: [1", f"1:6: not YAML: did not find expected ',' or ']'{CLOSE}"),
        ("ü: [ü\n\n", f"1:6: not YAML: did not find expected ',' or ']'{CLOSE}"),
        ("a: 1\nb: \x00", "2:4: not YAML: control characters are not allowed"),
        (
            "a: 1\n\tb: 1",
            "2:1: not YAML: found a tab character that violates indentation; indent with spaces, not with tabs",
        ),
        (
            "a: 1\n---\nb: 2",
            "2:1: not YAML: expected a single document in the stream but found another document; "
            "remove '---': a file holds one",
        ),
        ("a: 1\na : 2", "2:1: duplicate key 'a'"),
        ("a:\n  b: 1\n  'b': 2", "3:3: duplicate key 'b'"),
        ("a: &x [1]\nb: *x", "1:4: an alias (*name) is not allowed here; write the value out"),
        ("a: &x\n  - *x", "1:4: an alias (*name) is not allowed here; write the value out"),
        ("a: *x", "1:4: not YAML: found undefined alias; quote a text that begins with '*'"),
        ("1: a", "1:1: expected a text as key, found '1'; quote it"),
        ("? [a]\n: 1", "1:3: expected a text as key, found a sequence; quote it"),
        ("a: .inf", "1:4: expected a finite number, found '.inf'; quote it if it is a text"),
        ("a: 1e999", "1:4: expected a finite number, found '1e999'; quote it if it is a text"),
        ("a: " + "9" * 5000, f"1:4: cannot read {'9' * 80!r} as int"),
        ("a: !!int x", "1:4: cannot read 'x' as int"),
        ("a: !!python/object:os.system ls", "1:4: cannot read 'ls' as os.system"),
        ("a: !!set {x}", "1:4: expected a plain object or list, found the tag 'tag:yaml.org,2002:set'; remove it"),
        ("a: !secret x", "1:4: cannot read 'x' as !secret"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_where_it_stands(text: str, message: str) -> None:
    assert mistakes(text) == [message]


@pytest.mark.parametrize("depth", [66, 5_000, 300_000])
def test_deep_nesting_is_refused_and_never_exhausts_the_stack(depth: int) -> None:
    assert mistakes("[" * depth + "]" * depth) == ["1:66: nested more than 64 deep"]


def test_the_deepest_nesting_allowed_is_read() -> None:
    assert mistakes("[" * 65 + "]" * 65) == []


def test_too_many_values_are_refused() -> None:
    assert mistakes("[" + "1," * 200_001 + "]")[0].endswith("more than 200000 values in one file")


class TestEnvironment:
    def expand(self, text: str, **environment: str) -> object:
        return parse(text, "f.yaml", expand_env=True, environment=environment).value

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("${env:PORT}", 4317),
            ("'${env:PORT}'", "4317"),
            ("host:${env:PORT}", "host:4317"),
            ("${env:UNSET:-5}", 5),
            ("${env:UNSET:-}", None),
            ("${env:UNSET:-a}-${env:PORT}", "a-4317"),
            ("$$", "$"),
            ("$${env:PORT}", "${env:PORT}"),
            ("cost: 5$", {"cost": "5$"}),
        ],
    )
    def test_references_are_replaced_and_a_whole_one_is_typed(self, text: str, value: object) -> None:
        assert self.expand(text, PORT="4317") == value

    def test_an_environment_value_cannot_smuggle_in_structure(self) -> None:
        assert self.expand("${env:EVIL}", EVIL="{a: 1}") == "{a: 1}"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "a: ${env:UNSET}",
                "1:4: environment variable UNSET is not set; set it, or give a default: ${env:UNSET:-default}",
            ),
            (
                "a: ${PORT}",
                "1:4: expected ${env:NAME} or ${env:NAME:-default}, found '${PORT}'; write $$ for a dollar",
            ),
        ],
    )
    def test_a_reference_that_cannot_be_resolved_is_refused(self, text: str, message: str) -> None:
        assert mistakes(text, expand_env=True, environment={}) == [message]

    def test_without_expansion_a_reference_is_text(self) -> None:
        assert parse("${env:PORT}", "f.yaml").value == "${env:PORT}"


class Inner(FileModel):
    port: int = Field(default=1, ge=1, le=65535)
    ratio: float = Field(default=0.5, gt=0, lt=1)


class Grpc(FileModel):
    kind: Literal["grpc"]
    endpoint: str


class Http(FileModel):
    kind: Literal["http"]
    path: str = Field(default="/", pattern="^/")


class Settings(FileModel):
    name: str = Field(default="x", min_length=1, max_length=5)
    on: bool = True
    wait: Duration = 1.0
    level: Literal["low", "high"] = "low"
    inner: Inner = Inner()
    items: Annotated[list[Inner], Field(max_length=2)] = []  # noqa: RUF012 - pydantic copies defaults
    by_name: dict[str, Inner] = {}  # noqa: RUF012
    peer: Annotated[Grpc | Http, Field(discriminator="kind")] | None = None
    required: list[int] = Field(default=[0], min_length=1)
    aliased: int = Field(default=1, alias="with-dash")


@each(
    ("text", "messages"),
    [
        ("nmae: x", ["1:1: nmae: unknown key 'nmae'; did you mean 'name'?"]),
        ("with-dahs: 1", ["1:1: with-dahs: unknown key 'with-dahs'; did you mean 'with-dash'?"]),
        ("inner:\n  prot: 1", ["2:3: inner.prot: unknown key 'prot'; did you mean 'port'?"]),
        ("items:\n  - {prot: 1}", ["2:6: items[0].prot: unknown key 'prot'; did you mean 'port'?"]),
        ("by_name: {a: {prot: 1}}", ["1:15: by_name.a.prot: unknown key 'prot'; did you mean 'port'?"]),
        (
            "peer: {kind: grpc, endpont: x}",
            [
                "1:1: peer: key 'endpoint' is missing",
                "1:20: peer.endpont: unknown key 'endpont'; did you mean 'endpoint'?",
            ],
        ),
        ("name: 5", ["1:1: name: expected a text, found 5"]),
        ("name:", ["1:1: name: expected a text, found nothing"]),
        ("name: ''", ["1:1: name: expected a text of at least 1 characters, found ''"]),
        ("name: abcdef", ["1:1: name: expected a text of at most 5 characters, found 'abcdef'"]),
        ("on: 1", ["1:1: on: expected true or false, found 1"]),
        ("wait: 30", ["1:1: wait: expected a duration such as '30s', '500ms' or '1h30m', found 30"]),
        ("wait: 1 s", ["1:1: wait: expected a duration such as '30s', '500ms' or '1h30m', found '1 s'"]),
        ("level: mid", ["1:1: level: expected 'low' or 'high', found 'mid'"]),
        ("inner: [1]", ["1:1: inner: expected an object, found a list of 1"]),
        ("inner: {port: 0, ratio: 1}", [
            "1:9: inner.port: expected a number of at least 1, found 0",
            "1:18: inner.ratio: expected a number below 1, found 1",
        ]),
        ("inner: {port: 70000, ratio: 0}", [
            "1:9: inner.port: expected a number of at most 65535, found 70000",
            "1:22: inner.ratio: expected a number above 0, found 0",
        ]),
        ("inner: {port: '1'}", ["1:9: inner.port: expected a whole number, found '1'"]),
        ("inner: {ratio: x}", ["1:9: inner.ratio: expected a number, found 'x'"]),
        ("items: {}", ["1:1: items: expected a list, found an empty object"]),
        ("items: [{}, {}, {}]", ["1:1: items: expected a list of at most 2, found a list of 3"]),
        ("items:\n  - {}\n  - port: x", ["3:5: items[1].port: expected a whole number, found 'x'"]),
        ("required: []", ["1:1: required: expected a list of at least 1, found an empty list"]),
        ("required: [1, x, 2, y]", [
            "1:15: required[1]: expected a whole number, found 'x'",
            "1:21: required[3]: expected a whole number, found 'y'",
        ]),
        ("by_name: 5", ["1:1: by_name: expected an object, found 5"]),
        ("peer: {kind: http, path: x}", ["1:20: peer.path: expected a text of the form ^/, found 'x'"]),
        ("[]", ["1:1: expected an object, found an empty list"]),
        ("name: 5\non: 1", ["1:1: name: expected a text, found 5", "2:1: on: expected true or false, found 1"]),
    ],
)  # fmt: skip
def test_every_mistake_of_pydantic_is_placed_and_said_in_words(text: str, messages: list[str]) -> None:
    assert mistakes(text, Settings) == messages


def test_an_empty_file_is_all_defaults() -> None:
    assert validate(parse("# nothing yet\n", "f.yaml"), Settings) == Settings()


def test_a_part_of_a_file_is_validated_with_its_own_positions() -> None:
    document = parse("a: 1\ninner:\n  port: 0\n", "f.yaml")
    with pytest.raises(FileError, match=r"^f\.yaml:3:3: inner\.port: expected a number of at least 1, found 0$"):
        validate(document, Inner, ("inner",))


def test_a_missing_part_points_at_its_deepest_known_parent() -> None:
    document = parse("z: 1\n\n# no more than this\ny: {a: [5]}\n", "f.yaml")
    assert document.position(("y", "a", 0)) == (4, 9)
    assert document.position(("y", "a", 1, "c")) == (4, 5)
    assert document.position(("x", "a")) == (1, 1)
    assert document.holds(("y", "a", 0))
    assert not document.holds(("y", "a", 1))


def test_a_renamed_key_keeps_its_place_and_what_is_unset_in_it() -> None:
    document = parse("a:\n  old:\n    - ${env:UNSET}\n", "f.yaml", expand_env=True, environment={}, allow_unset=True)
    assert str(document.rename_key(("a",), "old", "new")).startswith("f.yaml:2:3: a.old: is now called 'new'")
    assert document.value == {"a": {"new": [None]}}
    assert document.position(("a", "new", 0)) == (3, 7)
    assert [str(problem).split(":")[1] for problem in document.unset.values()] == ["3"]
    assert list(document.unset) == [("a", "new", 0)]


def test_a_value_that_no_file_holds_has_the_place_of_its_document() -> None:
    part = Document("the request", {"a": [{"b": 1}]}).part(("a", 0, "tag", "b", "c"))
    assert part == (("a", 0, "b"), 1, 1, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "1:1: cannot be read: No such file or directory"), (b"a: \xff", "1:1: not UTF-8 at byte 3")],
)
def test_a_file_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "f.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError) as raised:
        read(path)
    assert str(raised.value) == f"{path}:{message}"


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse("\ufeffa: 1", "f.yaml").value == {"a": 1}


def test_every_problem_is_a_line_of_the_error() -> None:
    error = FileError([Problem("a.yaml", 1, 2, "one"), Problem("b.yaml", 3, 4, "two")])
    assert str(error) == "a.yaml:1:2: one\nb.yaml:3:4: two"


@each(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30.0), ("1h30m", 5400.0), ("7d", 604800.0), ("1.5s", 1.5), ("0s", 0.0), ("10us", 1e-5)],
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert validate(parse(f"wait: {text}", "f.yaml"), Settings).wait == seconds


@each(("seconds", "text"), [(90.0, "90s"), (3600.0, "1h"), (0.5, "500ms"), (0.0, "0s"), (86400.0, "1d"), (120.0, "2m")])
def test_a_duration_is_shown_in_its_largest_whole_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_settings_survive_their_own_json() -> None:
    dumped = Settings.model_validate({"wait": "1m"}).model_dump(by_alias=True, mode="json")
    assert dumped["wait"] == "1m"
    assert Settings.model_validate(dumped).wait == 60.0


def test_locations_read_like_paths() -> None:
    assert dotted(("a", 0, "b", "c.d", 12)) == "a[0].b.c.d[12]"


@each(
    ("name", "known", "hint"),
    [
        ("tool-call-ordr", ["tool-call-order", "tool-call-args"], "; did you mean 'tool-call-order'?"),
        ("zzz", ["b", "a"], "; expected one of a, b"),
        ("zzz", [], ""),
        ("zzz", [f"n{i}" for i in range(13)], ""),
    ],
)
def test_a_near_name_is_proposed_else_the_short_list_of_all(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, known) == hint
