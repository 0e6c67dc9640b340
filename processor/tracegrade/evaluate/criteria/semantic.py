"""The meaning of texts, by a model of embeddings that is set before rules are read.

There is one model in a process, chosen by `use` before rules are read, and never replaced by something else: without
it, a rule that needs it is refused.
"""

from typing import Protocol

from tracegrade.model.errors import TraceGradeError


class NoModel(TraceGradeError):
    """There is no model; the message says what to install or to set."""


class Model(Protocol):
    """Compares texts."""

    @property
    def version(self) -> str:
        """Stands for all that its answers depend on."""

    def similarity(self, left: str, right: str) -> float:
        """How near two texts are in meaning: the cosine of their embeddings, -1 to 1."""


_chosen: list[Model] = []


def use(model: Model | None) -> None:
    """Have all rules from now on compare meaning by `model`; None for by none."""
    _chosen[:] = [] if model is None else [model]


def model() -> Model:
    """The model in use.

    Raises:
        NoModel: there is none.
    """
    if not _chosen:
        raise NoModel(
            "$semantic needs a model of text embeddings: pip install 'tracegrade[semantic]', "
            "and name a folder with a model2vec model in the setting rules.semantic_model"
        )
    return _chosen[0]
