"""The redaction keys of a data folder: that of stand-ins for ids, and which key of hashes was used last."""

import time
from pathlib import Path
from secrets import token_hex
from typing import Any

import orjson

from tracegrade.display import time_text
from tracegrade.journal.files import replace_file

ID_KEY = "redaction.key"
NOTED = "redaction.json"


def id_key(data_path: Path) -> str:
    """The key of stand-ins for ids, made once for a data folder.

    Raises:
        OSError: the disk refuses.
    """
    path = data_path / ID_KEY
    if not path.exists():
        data_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, token_hex(32).encode(), 0o600)
    return path.read_text()


def note_key(data_path: Path, key_id: str, kept_s: float) -> str | None:
    """Note that hashes are made by the key of this id from now on.

    Args:
        data_path: the data folder.
        key_id: says which key it is, and nothing of it.
        kept_s: for how long, in s, hashes that were made before may still be stored.

    Returns:
        What is to be said of it: hashes by another key are still there; None where there are none.

    Raises:
        OSError: the disk refuses.
    """
    path = data_path / NOTED
    now_ns = time.time_ns()
    noted: dict[str, Any] = (
        orjson.loads(path.read_bytes()) if path.exists() else {"key": key_id, "since_ns": 0, "before": ""}
    )
    if noted["key"] != key_id:
        noted = {"key": key_id, "since_ns": now_ns, "before": noted["key"]}
    replace_file(path, orjson.dumps(noted), 0o600)
    if not noted["before"] or now_ns - noted["since_ns"] > kept_s * 1e9:
        return None
    return (
        f"redaction.key was changed on {time_text(noted['since_ns'])} UTC, from {noted['before']} to {key_id}: hashes "
        "made before are not equal to those made since, though their values are"
    )
