"""The rules at a path as they were at a revision of its git repository."""

import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from tracegrade.model.errors import TraceGradeError

_TIMEOUT_S = 60


@contextmanager
def rules_at_revision(paths: Sequence[str], revision: str) -> Iterator[tuple[str, list[str]]]:
    """The full hash of `revision`, and where the rules that were at `paths` then stand until the context ends.

    A path that did not exist at that revision is left out. Of a single rule file its whole folder is there, with what
    lies beside it.

    Raises:
        TraceGradeError: a path is in no git repository, or the repository has no such revision; there is no git.
    """
    with TemporaryDirectory(prefix="tracegrade-rules-") as folder:
        found: list[str] = []
        commit = ""
        for number, path in enumerate(paths):
            place = Path(path).absolute()
            repository = _repository_of(path, place, revision)
            commit = _commit(repository, revision)
            target = Path(folder, str(number))
            if (then := _extracted(repository, commit, place, target)) is not None:
                found.append(str(then))
        yield commit, found


def _repository_of(path: str, place: Path, revision: str) -> Path:
    inside = place if place.is_dir() else place.parent
    if path.startswith("builtin:") or not inside.is_dir():
        raise TraceGradeError(
            f"{path}: not a file or folder, so it has no revision {revision!r}; expected a path in git"
        )
    done = _git(inside, "rev-parse", "--show-toplevel")
    if done.returncode:
        raise TraceGradeError(
            f"--against {revision}: no folder of this name, and {path} is in no git repository, so it is no revision "
            "either; expected live, a folder of rules, or a git revision such as HEAD~1"
        )
    return Path(done.stdout.decode().rstrip("\n"))


def _commit(repository: Path, revision: str) -> str:
    done = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if done.returncode:
        raise TraceGradeError(
            f"--against {revision}: no folder of this name, and no revision of it in the git repository {repository}; "
            "'git log' and 'git branch -a' show those there are"
        )
    return done.stdout.decode().strip()


def _extracted(repository: Path, commit: str, place: Path, target: Path) -> Path | None:
    """Where `place` stands as it was at `commit`, below `target`; None when it did not exist."""
    relative = place.resolve().relative_to(repository.resolve())
    if _git(repository, "cat-file", "-e", f"{commit}:{_in_git(relative)}").returncode:
        return None
    folder = relative if place.is_dir() else relative.parent
    only = [f":(top,literal){inside}"] if (inside := _in_git(folder)) else []
    done = _git(repository, "archive", "--format=tar", commit, "--", *only)
    if done.returncode:
        raise TraceGradeError(f"git archive {commit} {folder}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        for member in archive:
            if (out := _written(archive, member, target)) is not None:
                raise TraceGradeError(f"--against: {commit} of {repository} cannot be taken out of git: {out}")
    return target / relative


def _written(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> str | None:
    """Write one file, folder or link below `target`; returns why not, for a link that leads out of the repository.

    By hand: `tarfile` has had filters since Python 3.11.4 only.
    """
    path = target / member.name
    if member.issym():
        if not (path.parent / member.linkname).resolve().is_relative_to(target.resolve()):
            return f"{member.name} is a link to {member.linkname}, outside the repository"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(member.linkname)
    elif (content := archive.extractfile(member) if member.isfile() else None) is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.read())
    elif member.isdir():
        path.mkdir(parents=True, exist_ok=True)
    return None


def _in_git(relative: Path) -> str:
    """What git calls a path from the top of the repository; the top itself has no name."""
    return "" if relative == Path() else relative.as_posix()


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(("git", *arguments), cwd=folder, capture_output=True, timeout=_TIMEOUT_S)
    except FileNotFoundError:
        raise TraceGradeError("there is no git on this machine; --against takes a folder of rules, too") from None
    except subprocess.TimeoutExpired:
        raise TraceGradeError(f"git {arguments[0]} took longer than {_TIMEOUT_S} s in {folder}") from None
