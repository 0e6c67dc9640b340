"""Has wheels and source distributions say which commit they are made from: see processor/tracegrade/build.py."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Adds the file ``build.txt`` to the package, unless a source distribution has brought it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds; an editable installation asks git at each start."""
        package = Path(self.root, "processor", "tracegrade")
        if version == "editable" or (package / "build.txt").exists():
            return
        build = runpy.run_path(str(package / "build.py"))["checkout_version"](Path(self.root), self.metadata.version)
        self._folder = tempfile.TemporaryDirectory()  # gone with the hook
        carried = Path(self._folder.name, "build.txt")
        carried.write_text(f"{build}\n", encoding="utf-8")
        inside = "tracegrade/build.txt" if self.target_name == "wheel" else "processor/tracegrade/build.txt"
        build_data["force_include"][str(carried)] = inside

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling after it has built."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
