"""``models.yaml``: which models there are, where each is asked, with which key, how often, and what it costs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from tracegrade.display import without_secrets
from tracegrade.document.document import Document
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.document.problem import Problem, UnsetError, did_you_mean
from tracegrade.document.unset import Unset
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import read
from tracegrade.model.errors import WrongValue
from tracegrade.rule.prices import Price, Prices
from tracegrade.suites.headers import HEADER_NAME, SentHeaders, is_sendable

SEPARATOR = "::"
"""Between the name of a provider and a model's id."""

_PROVIDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_OWN_HEADERS = frozenset({"authorization", "content-length", "content-type", "host", "user-agent"})
_OWN_MEMBERS = frozenset({"messages", "model", "n", "stream", "temperature", "tool_choice", "tools"})


def _base_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"expected http://HOST/PATH or https://HOST/PATH, found {without_secrets(url)!r}")
    if parts.query or parts.fragment:
        raise ValueError("expected an address without '?' and '#'; /chat/completions is added to it")
    return url.rstrip("/")


def _only_text(value: object) -> object:
    """Refuse what is no text without showing it: it may be a key of digits alone."""
    if not isinstance(value, str | SecretStr):
        raise ValueError('expected a text, found something else, which is not shown: put quotes, "${env:NAME}"')
    return value


def _sendable(secret: SecretStr) -> SecretStr:
    if not is_sendable(secret.get_secret_value()):
        raise ValueError("expected printable ASCII, found something else, which is not shown: it is a secret")
    return secret


def _headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name in headers:
        if not HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a header: expected letters, digits, '-', '_' and '.'")
        if name.lower() in _OWN_HEADERS:
            instead = "; write the key as api_key" if name.lower() == "authorization" else "; remove it"
            raise ValueError(f"header {name!r} is set by TraceGrade itself{instead}")
    return headers


def _body(body: dict[str, Any]) -> dict[str, Any]:
    for name in body:
        if name in _OWN_MEMBERS:
            raise ValueError(f"{name!r} is set by the run itself; remove it here")
    return body


def _provider_name(name: str) -> str:
    if not _PROVIDER_NAME.fullmatch(name):
        raise ValueError(f"expected letters, digits, '_', '-' and '.' as the name of a provider, found {name!r}")
    return name


_Secret = Annotated[SecretStr, BeforeValidator(_only_text), AfterValidator(_sendable)]
_ExtraBody: TypeAlias = Annotated[dict[str, Any], AfterValidator(_body)]


class ModelSettings(FileModel):
    """One model; ``{}`` where nothing is to be said of it."""

    price: Price | None = Field(
        None, description="What a million of its tokens cost; without it, as the setting traces.prices says"
    )
    extra_body: _ExtraBody = Field(
        default_factory=dict, description="Members to add to each request, over those of the provider"
    )
    sends_temperature: bool = Field(True, description="false: for models that refuse a temperature")


class ProviderSettings(FileModel):
    """One place where models are asked."""

    base_url: Annotated[str, AfterValidator(_base_url)] = Field(
        description="Its address, such as https://api.example.com/v1; /chat/completions is added"
    )
    api_key: _Secret | None = Field(
        None, description="Sent as bearer token; write ${env:NAME}, so that it is in no file. Never shown"
    )
    headers: Annotated[dict[str, _Secret], AfterValidator(_headers)] = Field(
        default_factory=dict, description="Sent with every request; values are never shown"
    )
    extra_body: _ExtraBody = Field(default_factory=dict, description="Members to add to each request")
    timeout: Duration = Field(60.0, gt=0, description="An attempt without a whole answer for this long has failed")
    attempts: int = Field(4, ge=1, le=20, description="How often a request is made when answers are worth another try")
    at_a_time: int = Field(4, ge=1, le=256, description="Most requests under way at a time")
    a_minute: int | None = Field(None, ge=1, description="Most requests begun in a minute, evenly spread; null: any")
    models: dict[Annotated[str, Field(min_length=1)], ModelSettings] = Field(
        min_length=1, description="Its models by their ids, as the provider calls them"
    )

    def without_secrets(self, text: str) -> str:
        """`text`, often an answer, with a mask wherever it repeats the key or the value of a header."""
        known = {**self.headers, **({} if self.api_key is None else {"authorization": self.api_key})}
        return SentHeaders({name: secret.get_secret_value() for name, secret in known.items()}).masked_in(text)


class ModelsFile(FileModel):
    """All of a ``models.yaml``."""

    providers: dict[Annotated[str, AfterValidator(_provider_name)], ProviderSettings] = Field(
        min_length=1, description="Providers by names of your choice"
    )


@dataclass(frozen=True, slots=True)
class Target:
    """One model of one provider; ``key`` is ``provider::model``."""

    provider_name: str
    provider: ProviderSettings
    model_id: str
    model: ModelSettings
    price: Price | None = None  # of its tokens

    @property
    def key(self) -> str:
        """Its name here."""
        return f"{self.provider_name}{SEPARATOR}{self.model_id}"


def load_models(path: Path, prices: Mapping[str, Price] | None = None) -> list[Target]:
    """All models of the file, in its order.

    Those of a provider that names unset environment variables are among them, and cannot be asked: see `to_ask`.

    Args:
        path: the file.
        prices: those of the setting ``traces.prices``, for models of which the file states none.

    Raises:
        FileError: every mistake with its line and column; no secret is shown.
    """
    document = read(path, expand_env=True, allow_unset=True)
    unset = _without_unset(document)
    found = validate(document, ModelsFile)
    otherwise = Prices(prices or {})
    return [
        Target(name, unset.get(name, provider), model_id, model, model.price or otherwise.of_model(model_id))
        for name, provider in found.providers.items()
        for model_id, model in provider.models.items()
    ]


def _without_unset(document: Document) -> dict[str, Any]:
    """Take fields of providers that name unset variables out of the document; what stands for each such provider.

    Raises:
        UnsetError: what is unset is no field of a provider, or its models.
    """
    found: dict[str, list[Problem]] = {}
    for place, problem in document.unset.items():
        match place:
            case ("providers", str(name), str(field), *_) if field != "models":
                found.setdefault(name, []).append(problem)
                provider: Any = document.at(("providers", name))
                provider.pop(field, None)
                if field == "base_url":  # which may not lack
                    provider[field] = _NO_ADDRESS
            case _:
                raise UnsetError([problem])
    return {name: Unset(problems) for name, problems in found.items()}


_NO_ADDRESS = "http://unset.invalid"  # nobody sees it


def to_ask(targets: Sequence[Target]) -> Sequence[Target]:
    """`targets`, each of which can be asked.

    Raises:
        UnsetError: the provider of one names environment variables that are not set.
    """
    for target in targets:
        if isinstance(target.provider, Unset):
            target.provider.refuse()
    return targets


def chosen_models(known: Sequence[Target], names: Sequence[str], said: str = "--model") -> list[Target]:
    """The models of these names, each once: ``provider::model``, or a model's id that one provider alone has.

    Errors begin with `said`, which is where the names are from.

    Raises:
        WrongValue: none has the name, or several have it.
    """
    found: dict[str, Target] = {}
    for name in names:
        fits = [target for target in known if name in (target.key, target.model_id)]
        if not fits:
            hint = did_you_mean(name, [target.key for target in known])
            raise WrongValue(f"{said}: no model {name!r} in the file of models{hint}")
        if len(fits) > 1:
            keys = " or ".join(target.key for target in fits)
            raise WrongValue(f"{said}: several providers have {name!r}; write {keys}")
        found[fits[0].key] = fits[0]
    return list(found.values())
