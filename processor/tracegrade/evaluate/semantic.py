"""The meaning of texts, by static embeddings: an extra, with a model folder that the user names.

There is one model in a process, chosen by `use` before rules are read; it is never downloaded, and never replaced by
something else: without it, a rule that needs it is refused.
"""

from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from tracegrade.model.errors import TraceGradeError

_REMEMBERED = 4096
_READ_BYTES = 1 << 20
_MAX_CHARACTERS = 20_000  # of a text; what follows is not read


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


def use(folder: str | None) -> None:
    """Read the model at `folder` for all rules from now on; None for none.

    Raises:
        NoModel: there is no model2vec model in that folder, or the extra is not installed.
    """
    _chosen[:] = [] if folder is None else [_StaticModel(folder)]


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


class _StaticModel:
    def __init__(self, folder: str) -> None:
        if not Path(folder).is_dir():
            raise NoModel(f"rules.semantic_model: no folder {folder!r}; expected one with a model2vec model")
        try:
            from model2vec import StaticModel
        except ImportError:
            raise NoModel("rules.semantic_model needs an extra: pip install 'tracegrade[semantic]'") from None
        try:
            self._model: Any = StaticModel.from_pretrained(folder)
        except Exception as error:  # whatever its readers raise: the folder holds no such model
            raise NoModel(f"rules.semantic_model: no model2vec model in {folder!r}: {error}") from None
        self._embedded = lru_cache(maxsize=_REMEMBERED)(self._embed)
        self._folder = Path(folder)

    @cached_property
    def version(self) -> str:
        """16 hex digits over the files of the folder."""
        digest = blake2b(digest_size=8)
        for path in sorted(path for path in self._folder.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(self._folder).as_posix()}\0{path.stat().st_size}\0".encode())
            with path.open("rb") as file:
                while part := file.read(_READ_BYTES):
                    digest.update(part)
        return digest.hexdigest()

    def _embed(self, text: str) -> Any:
        vector = self._model.encode([text.encode("utf-8", "replace").decode()])[0].astype("float64")
        length = float((vector * vector).sum()) ** 0.5
        return vector / length if length else vector

    def similarity(self, left: str, right: str) -> float:
        """As in `Model`; texts without any known word are like nothing."""
        return float((self._embedded(left[:_MAX_CHARACTERS]) * self._embedded(right[:_MAX_CHARACTERS])).sum())
