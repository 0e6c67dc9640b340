"""``redaction:``: what is looked for and where, and what becomes of it."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, model_validator

from tracegrade.document.file_model import FileModel
from tracegrade.document.paths import FilePath, read_as_path
from tracegrade.document.problem import did_you_mean

Action: TypeAlias = Literal["drop", "mask", "hash", "keep", "detect"]
FoundAction: TypeAlias = Literal["drop", "mask", "hash"]
Kind: TypeAlias = Literal["arguments", "outputs", "messages", "events"]

KINDS: tuple[Kind, ...] = ("arguments", "outputs", "messages", "events")
SHORTEST_KEY = 32
PRESIDIO = "presidio"
"""The detector of what Presidio recognises."""


def _checked_key(key: SecretStr) -> SecretStr:
    length = len(key.get_secret_value())
    if length < SHORTEST_KEY:
        # Its length is all that may be shown.
        raise ValueError(
            f"expected at least {SHORTEST_KEY} characters, such as 'openssl rand -hex 32' prints, found {length}"
        )
    return key


def _checked_path(path: str) -> str:
    parts = path.split(".")
    if not all(parts) or "$" in path or "[" in path:
        raise ValueError(
            "expected names of members with dots between them, such as customer.email, and * for any name; items of "
            f"lists have no name; found {path!r}"
        )
    return path


def _checked_patterns(patterns: dict[str, str]) -> dict[str, str]:
    from tracegrade.redact.scan.custom import pattern_detector  # what needs RE2, where there are some alone

    for name, pattern in patterns.items():
        pattern_detector(name, pattern)
    return patterns


Globs = Annotated[list[str], Field(min_length=1)]
JsonPath = Annotated[str, AfterValidator(_checked_path)]


class PlaceSettings(FileModel):
    """One place, and what becomes of the values there. The first place of the list that a value is at decides."""

    attribute: str | None = Field(
        None, description="Attributes with these keys (glob), of spans, events, links, log records, scopes, resources"
    )
    path: JsonPath | None = Field(None, description="Only these members of the JSON that the attribute holds")
    arguments: JsonPath | None = Field(None, description="Members of arguments of tools: customer.email; * for all")
    outputs: JsonPath | None = Field(None, description="Members of outputs of tools; * for all")
    messages: JsonPath | None = Field(None, description="Members of messages to and from models; * for all")
    events: str | None = Field(None, description="Attributes of span events and log records, and `body` (glob)")
    tenant: Globs | None = Field(None, description="Only of these tenants (globs)")
    service: Globs | None = Field(None, description="Only of these services (globs)")
    action: Action = Field(
        description="drop, mask, hash, keep (detectors do not look either), or detect (detectors alone decide)"
    )

    @property
    def kind(self) -> Kind | None:
        """What kind of values it names; None: attributes by their keys."""
        return next((kind for kind in KINDS if getattr(self, kind) is not None), None)

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        named = [name for name in ("attribute", *KINDS) if getattr(self, name) is not None]
        if len(named) != 1:
            raise ValueError(f"expected one of attribute, {', '.join(KINDS)}, found {' and '.join(named) or 'none'}")
        if self.path is not None and self.attribute is None and self.events is None:
            raise ValueError(f"path belongs to attribute or events; {named[0]} takes the path itself")
        return self


class PresidioSettings(FileModel):
    """Names of people, places and more in running text, by Presidio; needs the extra ``tracegrade[presidio]``."""

    model: Annotated[str, read_as_path(lambda text: "/" in text or "\\" in text)] = Field(
        description="The spaCy model that reads the language: its name, or the path of a folder, which has a '/' in "
        "it; nothing is fetched"
    )
    language: str = Field("en", description="The language that it reads, by its two letters")
    entities: list[str] = Field(["PERSON"], min_length=1, description="What is looked for, by Presidio's names")
    min_score: float = Field(0.5, ge=0, le=1, description="How sure Presidio must be")


class RedactionSettings(FileModel):
    """``redaction:``. Applied once, before anything is written; there is no way past it."""

    detectors: Literal["all"] | list[str] = Field("all", description="What is looked for: all, or names; [] for none")
    action: FoundAction = Field("mask", description="What becomes of what a detector finds")
    actions: dict[str, FoundAction] = Field(
        default_factory=dict, description="The same by detector, own patterns included"
    )
    patterns: Annotated[dict[str, str], AfterValidator(_checked_patterns)] = Field(
        default_factory=dict, description="Own detectors: a name and a regular expression (RE2) each"
    )
    names_file: FilePath | None = Field(
        None,
        description="A file with one name of a person, or other word, per line; they are looked for whatever "
        "`detectors` says",
    )
    presidio: PresidioSettings | None = Field(
        None, description="Names of people and more in running text: every text is read by a model, which takes long"
    )
    places: list[PlaceSettings] = Field(
        default_factory=list, description="What is known by where it stands; the first that fits decides"
    )
    default: Literal["keep", "allow_listed"] = Field(
        "keep",
        description="What becomes of values at no place of the list: left to the detectors, or masked but for what "
        "traces are put together from",
    )
    key: Annotated[SecretStr, AfterValidator(_checked_key)] | None = Field(
        None, description="For hash: 32 characters or more; each tenant gets one of its own from it"
    )
    key_file: FilePath | None = Field(None, description="A file that holds the key, instead of `key`")

    @property
    def hashes(self) -> Iterator[str]:
        """Where the settings ask for hashes."""
        if self.action == "hash":
            yield "action"
        yield from (f"actions.{name}" for name, action in self.actions.items() if action == "hash")
        yield from (f"places[{number}]" for number, place in enumerate(self.places) if place.action == "hash")

    @model_validator(mode="after")
    def _hashes_have_a_key(self) -> Self:
        if self.key is not None and self.key_file is not None:
            raise ValueError("expected key or key_file, found both")
        if self.key is None and self.key_file is None and (asking := next(self.hashes, None)):
            raise ValueError(f"{asking} is hash, which needs key or key_file; 'openssl rand -hex 32' makes one")
        return self

    @model_validator(mode="after")
    def _actions_name_detectors(self) -> Self:
        if self.detectors == "all" and not self.actions and not self.patterns:
            return self
        from tracegrade.redact.scan.custom import NAME
        from tracegrade.sensitive.registry import DETECTORS

        if doubled := sorted({*DETECTORS, NAME, PRESIDIO} & self.patterns.keys()):
            raise ValueError(f"pattern {doubled[0]!r} is called as a detector is; give it another name")
        known = [*DETECTORS, NAME, *self.patterns, *([PRESIDIO] if self.presidio is not None else [])]
        named = [*([] if self.detectors == "all" else self.detectors), *self.actions]
        if unknown := [name for name in named if name not in known]:
            near = did_you_mean(unknown[0], known) or f"; there are {', '.join(sorted(known))}"
            raise ValueError(f"no detector {unknown[0]!r}{near}")
        if NAME in named and self.names_file is None:
            raise ValueError(f"the detector {NAME!r} finds what names_file lists; give one, or leave {NAME!r} out")
        return self

    @property
    def changes_nothing(self) -> bool:
        """Whether nothing is looked for, at no place."""
        looks = self.detectors or self.patterns or self.names_file or self.presidio
        return not looks and not self.places and self.default == "keep"
