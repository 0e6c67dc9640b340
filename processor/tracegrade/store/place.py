"""The place of the store when the settings name no database."""

from pathlib import Path

DATA_DIR = "./tracegrade-data"
_FILE = "tracegrade.db"


def sqlite_url(folder: Path) -> str:
    """The URL of the SQLite file in a data folder, with its absolute path."""
    return f"sqlite:///{folder.absolute() / _FILE}"


def is_absent(url: str) -> bool:
    """Whether `url` names an SQLite file that is not there; False where only the database's driver can tell."""
    path = url.removeprefix("sqlite:///")
    return path != url and "?" not in path and not Path(path).exists()


def holds_data(folder: Path) -> bool:
    """Whether `folder` is a data folder in which something was received or stored."""
    return any((folder / name).exists() for name in (_FILE, "instance_id", "journal"))


def sqlite_path(url: str) -> Path | None:
    """The SQLite file that `url` names; None for a database server."""
    from sqlalchemy.engine import make_url

    parsed = make_url(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None
