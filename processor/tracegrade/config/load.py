"""A settings file to a `Config`; file < environment < flags.

One YAML file in the collector's words; ``${env:NAME:-default}`` is replaced before typing, and paths are relative to
the file. Everything is checked at start: an unknown key, a wrong value, one address for two listeners or an exporter
that points at the own receiver stops it with file:line:column.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracegrade.config.checks import CHECKS, WARNINGS
from tracegrade.config.config import Config
from tracegrade.document.document import Document
from tracegrade.document.file_model import write_durations
from tracegrade.document.paths import Paths, context_of
from tracegrade.document.problem import FileError, Location, Problem, UnsetError
from tracegrade.document.unset import leave_out_unset, put_in_place
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import parse, read
from tracegrade.part import NeedsPart, missing

_NOTIFIED: tuple[Location, ...] = (("alerts", "channels"), ("alerts", "routes"))
"""Needed to notify alone; what else is in the section is read by others."""


def load_config(path: Path | None, *, data_dir: str | None = None, allow_unset: bool = False) -> Config:
    """Read and check the settings.

    Args:
        path: the YAML file, or None for the defaults. Paths in it are relative to its folder.
        data_dir: a flag's value, which wins over the file's; relative to the working directory.
        allow_unset: refuse sections that name unset environment variables only when they are looked into, and open no
            file that they name: for commands that use some of the settings.

    Raises:
        FileError: every mistake with its line and column.
    """
    document = read(path, expand_env=True, allow_unset=allow_unset) if path is not None else parse("", "settings")
    if data_dir is not None and (document.value is None or isinstance(document.value, dict)):
        document.value = {**(document.value or {}), "data_dir": os.path.abspath(data_dir)}
        document.unset.pop(("data_dir",), None)
    _refuse_missing_parts(document)
    warnings = _with_new_names(document)
    left_out = leave_out_unset(document, [_NOTIFIED])
    config = validate(document, Config, context=None if path is None else _paths_in(path, opened=not allow_unset))
    put_in_place(config, left_out)
    config._document = document
    config._warnings.extend(warnings)
    for look in WARNINGS:
        with suppress(UnsetError):
            config._warnings.extend(look(config))
    problems: list[Problem] = []
    for check in CHECKS:
        with suppress(UnsetError):  # what the check is about is not there
            problems += check(document, config)
    if problems:
        raise FileError(problems)
    return config


def _refuse_missing_parts(document: Document) -> None:
    sections = document.value if isinstance(document.value, dict) else {}
    problems = [
        document.problem((name,), str(NeedsPart(f"the section {name!r}", part)))
        for name in sections
        if (part := missing(setting=str(name))) is not None
    ]
    if problems:
        raise FileError(problems)


def _paths_in(file: Path, *, opened: bool) -> Mapping[str, Any]:
    folder = file.absolute().parent

    def absolute(path: str) -> str:
        found = folder / path
        return str(found.resolve() if ".." in found.parts else found)

    return context_of(Paths(absolute, opened))


def settings_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the settings file; defaults as one would write them."""
    schema = Config.model_json_schema()
    write_durations(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _with_new_names(document: Document) -> list[str]:
    """Read keys that were renamed by their new names; a warning for each that the file still calls by the old one."""
    found = [document.rename_key(("alerts",), "receivers", "channels")]
    alerts = document.value.get("alerts") if isinstance(document.value, dict) else None
    routes = alerts.get("routes") if isinstance(alerts, dict) else None
    for number in range(len(routes) if isinstance(routes, list) else 0):
        found.append(document.rename_key(("alerts", "routes", number), "receivers", "channels"))
    return [str(warning) for warning in found if warning is not None]
