"""A package in place of model2vec, whose model compares the letters of texts."""

import sys
from pathlib import Path

import pytest

_PACKAGE = """
class Vector(tuple):
    def astype(self, kind):
        return self

    def __mul__(self, other):
        return Vector(one * two for one, two in zip(self, other))

    def __truediv__(self, length):
        return Vector(one / length for one in self)

    def sum(self):
        return sum(self)


class StaticModel:
    @classmethod
    def from_pretrained(cls, folder):
        return cls()

    def encode(self, texts):
        return [Vector(float(letter in text.lower()) for letter in "abcdefghijklmnopqrstuvwxyz") for text in texts]
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have it installed while a test runs; the folder of a model."""
    (folder / "packages" / "model2vec").mkdir(parents=True)
    (folder / "packages" / "model2vec" / "__init__.py").write_text(_PACKAGE)
    monkeypatch.syspath_prepend(str(folder / "packages"))
    monkeypatch.delitem(sys.modules, "model2vec", raising=False)
    model = folder / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"")
    return str(model)
