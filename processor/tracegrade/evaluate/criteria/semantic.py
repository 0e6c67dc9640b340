"""The meaning of texts, by a model of embeddings that is named where criteria are read.

`comparing_by` says which model the criteria that are read within it ask. They keep it: what is read later, with another
model or none, changes nothing for them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from tracegrade.model.errors import WrongValue


class Model(Protocol):
    """Compares texts."""

    @property
    def version(self) -> str:
        """Stands for all that its answers depend on."""

    def similarity(self, left: str, right: str) -> float:
        """How near two texts are in meaning: the cosine of their embeddings, -1 to 1."""


class _NotLoaded:
    version = ""

    def similarity(self, left: str, right: str) -> float:
        raise WrongValue("the model of text embeddings is not loaded: these criteria were read to be shown or stored")


NOT_LOADED: Model = _NotLoaded()
"""In place of any model, for criteria that are shown or stored and never judge."""

_named: ContextVar[Model | None] = ContextVar("the model of text embeddings", default=None)


@contextmanager
def comparing_by(model: Model | None) -> Iterator[None]:
    """Have criteria that are read within compare meaning by `model`; with None, those that would are refused."""
    token = _named.set(model)
    try:
        yield
    finally:
        _named.reset(token)


def model() -> Model:
    """The model for criteria that are being read.

    Raises:
        WrongValue: there is none.
    """
    if (named := _named.get()) is None:
        raise WrongValue(
            "$semantic needs a model of text embeddings: pip install 'tracegrade[semantic]', "
            "and name a folder with a model2vec model in the setting rules.semantic_model"
        )
    return named
