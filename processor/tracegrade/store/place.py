"""The place of the store when the settings name no database."""

from pathlib import Path

DATA_DIR = "./tracegrade-data"


def sqlite_url(folder: Path) -> str:
    """The URL of the SQLite file in a data folder."""
    return f"sqlite:///{folder / 'tracegrade.db'}"
