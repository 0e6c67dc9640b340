"""Which processes of this machine are under way."""

from pathlib import Path


def processes_with(word: str) -> list[str]:
    """The commands under way of which `word` is an argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has ended
        if word in words:
            found.append(" ".join(words))
    return found
