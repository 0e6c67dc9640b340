"""The model of text embeddings for ``$semantic``: an extra, read from the folder that the user names."""

from functools import cached_property, lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tracegrade.model.errors import WrongValue

_REMEMBERED = 4096
_READ_BYTES = 1 << 20
_MAX_CHARACTERS = 20_000  # of a text; what follows is not read


def model_in(folder: str | None) -> "StaticModel | None":
    """The model in `folder`, None without one; read once in a process, and again when its files have changed.

    Raises:
        WrongValue: as `StaticModel`.
    """
    return None if folder is None else _load_model(folder, _stamp(folder))


def _stamp(folder: str) -> tuple[object, ...]:
    statuses = [(str(path), path.stat()) for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    return tuple((path, status.st_mtime_ns, status.st_size, status.st_ino) for path, status in statuses)


@lru_cache(maxsize=1)
def _load_model(folder: str, stamp: tuple[object, ...]) -> "StaticModel":
    return StaticModel(folder)


def why_no_model(folder: str | None) -> str | None:
    """Why there can be no model in `folder`, None if there may be one; loads nothing."""
    if folder is None:
        return "name a folder with a model2vec model in the setting rules.semantic_model, which is not set"
    if not Path(folder).is_dir():
        return f"rules.semantic_model: no folder {folder!r}; expected one with a model2vec model"
    if find_spec("model2vec") is None:
        return "rules.semantic_model needs an extra: pip install 'tracegrade[semantic]'"
    return None


class StaticModel:
    """A model2vec model; never downloaded.

    Raises:
        WrongValue: there is no such model in `folder`, or the extra for it is not installed.
    """

    def __init__(self, folder: str) -> None:
        if (why := why_no_model(folder)) is not None:
            raise WrongValue(why)
        try:
            import model2vec

            self._model: Any = model2vec.StaticModel.from_pretrained(folder)
        except Exception as error:  # whatever its readers raise: the folder holds no such model
            raise WrongValue(f"rules.semantic_model: no model2vec model in {folder!r}: {error}") from None
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
        """See `semantic.Model`; texts without any known word are similar to none."""
        return float((self._embedded(left[:_MAX_CHARACTERS]) * self._embedded(right[:_MAX_CHARACTERS])).sum())
