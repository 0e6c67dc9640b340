"""An S3 server of the test's own: moto's, as a process on loopback; may be stopped and started again."""

import socket
import subprocess
import sys
from typing import Any
from urllib.request import urlopen

import pytest

from waiting import eventually

pytest.importorskip("moto", reason="needs moto[server]; '.ci/long parquet' runs these")
fs = pytest.importorskip("pyarrow.fs", reason="needs the extra tracegrade[parquet]; '.ci/long parquet' runs these")

BUCKET = "agent-results"


class S3Server:
    """Answers under a port of its own, with one bucket; everything is gone when it stops."""

    def __init__(self) -> None:
        self.prefix = "some/prefix"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers, "the S3 server", 60)
        self.files().create_dir(BUCKET)

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/moto-api/"):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def section(self) -> dict[str, Any]:
        """The section ``parquet`` of settings that write here."""
        s3 = {
            "endpoint": f"http://127.0.0.1:{self.port}",
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
        }
        return {"url": f"s3://{BUCKET}/{self.prefix}", "s3": s3}

    def files(self) -> Any:
        """What is in it, by pyarrow."""
        return fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            region="us-east-1",
            access_key="test",
            secret_key="test",
            allow_bucket_creation=True,
        )

    def path(self, name: str) -> str:
        """The path of an object of that name below the prefix."""
        return f"{BUCKET}/{self.prefix}/{name}"

    def names(self) -> list[str]:
        """The names of all objects below the prefix."""
        chosen = fs.FileSelector(self.path("").rstrip("/"), recursive=True, allow_not_found=True)
        found = [item.path for item in self.files().get_file_info(chosen) if item.is_file]
        return sorted(path.removeprefix(self.path("")) for path in found)
