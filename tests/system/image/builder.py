"""Builds the targets of ``deploy/Containerfile`` with buildah over a base that debootstrap makes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
BASE = "localhost/python-of-debian"
SUITE = "bookworm"
_CACHE = Path(os.environ.get("TRACEGRADE_TEST_CACHE", Path.home() / ".cache" / "tracegrade-tests"))


def lacking() -> str:
    """What this machine lacks to build and run an image; empty where it lacks nothing."""
    if os.geteuid() != 0:
        return "needs to be root, for buildah's chroot isolation and for mounts"
    missing = [name for name in ("buildah", "debootstrap", "ip", "nsenter", "setpriv") if shutil.which(name) is None]
    return f"needs {', '.join(missing)}: apt-get install buildah debootstrap iproute2 util-linux" if missing else ""


class Builder:
    """Images in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        """Make the base; `folder` holds all images."""
        self._folder = folder
        self._policy = folder / "policy.json"
        self._policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
        context = folder / "base"
        context.mkdir()
        shutil.copy(_base_archive(), context / "base.tar")
        (context / "Containerfile").write_text("FROM scratch\nADD base.tar /\n")
        self._build(context, BASE)

    def target(self, name: str) -> None:
        """Build a target of the checkout's Containerfile, as ``localhost/tracegrade:NAME``, without the network."""
        context = self._folder / "context"
        if not context.exists():
            _copy_context(context)
        options = ["-f", "deploy/Containerfile", "--target", name, "--pull-never"]
        options += ["--build-arg", f"PYTHON_IMAGE={BASE}", "--build-arg", "PIP_NO_INDEX=1"]
        options += ["--build-arg", "VERSION=1.2.3", "--build-arg", "REVISION=abc"]
        self._build(context, f"localhost/tracegrade:{name}", *options)

    def root_of(self, image: str) -> Path:
        """The file system of a container that is made from an image."""
        container = self._run("from", "--pull-never", "--signature-policy", str(self._policy), image).strip()
        return Path(self._run("mount", container).strip())

    def configuration(self, image: str) -> dict[str, object]:
        """What the image says of user, ports, entry point, environment and labels."""
        found: dict[str, object] = json.loads(self._run("inspect", "--type", "image", image))["OCIv1"]["config"]
        return found

    def _build(self, context: Path, image: str, *options: str) -> None:
        isolated = ["--isolation", "chroot", "--signature-policy", str(self._policy)]
        self._run("bud", *isolated, *options, "-t", image, ".", cwd=context)

    def _run(self, command: str, *arguments: str, cwd: Path | None = None) -> str:
        storage = ["--root", str(self._folder / "images"), "--runroot", str(self._folder / "run")]
        line = ["nice", "-n", "5", "buildah", *storage, "--storage-driver", "vfs", command, *arguments]
        done = subprocess.run(line, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(line)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


def _copy_context(context: Path) -> None:
    """The wheel, and the packages that it needs with their hashes, for the Python of the base."""
    shutil.copytree(ROOT / "deploy", context / "deploy")
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", context / "dist", ROOT], check=True)
    pins = [f"-r{ROOT / 'deploy' / 'requirements' / name}" for name in ("slim.txt", "extras.txt")]
    version = ["--python-version", "3.11", "--only-binary", ":all:", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "download", "-q", *version, "-d", context / "dist", *pins], check=True)


def _base_archive() -> Path:
    """A small Debian with Python and venv; made once, in minutes, and taken from the cache later."""
    archive = _CACHE / f"debian-{SUITE}-python.tar"
    if not archive.exists():
        made = _CACHE / f"debian-{SUITE}-python"
        shutil.rmtree(made, ignore_errors=True)
        included = "--include=python3-venv,ca-certificates"
        subprocess.run(
            ["nice", "-n", "5", "debootstrap", "--variant=minbase", included, SUITE, made],
            check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        left_out = ["--exclude=./var/cache/apt", "--exclude=./var/lib/apt/lists"]
        part = archive.with_suffix(".part")
        subprocess.run(["tar", "-C", made, *left_out, "-cf", part, "."], check=True)
        part.rename(archive)
        shutil.rmtree(made)
    return archive
