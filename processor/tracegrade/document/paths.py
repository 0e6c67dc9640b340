"""Paths in settings files: relative to the folder of the file that names them.

A model validated with `Paths` in its context (see `context_of`) has every `FilePath` in it absolute. Without, and where
a default holds, a path stays what it is: relative to the working directory.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from pydantic import AfterValidator, ValidationInfo

_PATHS = "paths"
_SQLITE = re.compile(r"(?P<scheme>sqlite(?:\+\w+)?:///)(?P<path>(?!file:|:memory:)[^?]+)(?P<query>\?.*)?", re.DOTALL)
_OF_LIBPQ = frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "passfile"})
_NO_PATHS_OF_LIBPQ = frozenset({"", "system"})


@dataclass(frozen=True, slots=True)
class Paths:
    """How the paths of one settings file are read.

    ``absolute`` makes one of them absolute. Each file that must be readable is opened only if ``opened``: whoever lists
    results may not be allowed to read a server's key.
    """

    absolute: Callable[[str], str]
    opened: bool


def context_of(paths: Paths) -> Mapping[str, Any]:
    """The context for validating a model by `paths`."""
    return {_PATHS: paths}


def read_as_path(is_path: Callable[[str], bool] = lambda _: True) -> AfterValidator:
    """Make a text that `is_path` absolute by the folder of the settings file."""

    def resolved(text: str, info: ValidationInfo) -> str:
        return resolved_path(text, info) if is_path(text) else text

    return AfterValidator(resolved)


def resolved_path(path: str, info: ValidationInfo) -> str:
    """`path` as an absolute one by the folder of the settings file; for validators."""
    paths = _paths(info)
    return path if paths is None else paths.absolute(path)


def is_opened(info: ValidationInfo) -> bool:
    """Whether files that must be readable are opened; for validators."""
    paths = _paths(info)
    return paths is None or paths.opened


def _paths(info: ValidationInfo) -> Paths | None:
    return (info.context or {}).get(_PATHS)


def _database_url(url: str, info: ValidationInfo) -> str:
    if found := _SQLITE.fullmatch(url):
        return f"{found['scheme']}{resolved_path(found['path'], info)}{found['query'] or ''}"
    address, mark, query = url.partition("?")
    if not url.startswith("postgresql") or _OF_LIBPQ.isdisjoint(name for name, _ in parse_qsl(query)):
        return url
    given = [
        (name, resolved_path(value, info) if name in _OF_LIBPQ and value not in _NO_PATHS_OF_LIBPQ else value)
        for name, value in parse_qsl(query, keep_blank_values=True)
    ]
    return f"{address}{mark}{urlencode(given, safe='/')}"


FilePath = Annotated[str, read_as_path()]
"""A file or folder."""

DatabaseUrl = Annotated[str, AfterValidator(_database_url)]
"""The URL of a database: of a file, or with files of certificates in it."""
