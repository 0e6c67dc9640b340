"""The faster build: ``TRACEGRADE_COMPILE=1 pip install .`` compiles the modules that every span passes, with mypyc.

Needs a C compiler. Without the variable, and in an editable install, nothing is compiled and this does nothing. The
sources stay in the wheel: Python takes the compiled module where both are there, and shows the source in tracebacks.
"""

import ast
import os
import shutil
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Below processor/. Only what was measured to gain, and nothing that pydantic reads: mypyc keeps no annotations. Nor
# classes that modules which are not compiled derive from, such as evaluators' own criteria: compiled ones refuse it.
# Nor scores: other packages' evaluators make them too, and what is wrong with those is said by what checks them.
COMPILED = (
    "tracegrade/extract/*.py",
    "tracegrade/extract/dialects/*.py",
    "tracegrade/model/*.py",
    "tracegrade/semconv.py",
    "tracegrade/judge.py",
    "tracegrade/match/facts.py",
    "tracegrade/match/index.py",
    "tracegrade/match/select.py",
    "tracegrade/evaluate/call_by_call.py",
    "tracegrade/evaluate/calls.py",
    "tracegrade/evaluate/data_flow.py",
    "tracegrade/evaluate/errors.py",
    "tracegrade/evaluate/expected.py",
    "tracegrade/evaluate/gate.py",
    "tracegrade/evaluate/matcher.py",
    "tracegrade/evaluate/matchers.py",
    "tracegrade/evaluate/outputs.py",
    "tracegrade/evaluate/pairing.py",
    "tracegrade/evaluate/seen.py",
    "tracegrade/evaluate/subsequence.py",
    "tracegrade/evaluate/text_matchers.py",
    "tracegrade/evaluate/value_matchers.py",
    "tracegrade/evaluate/values.py",
    "tracegrade/evaluate/work.py",
    "tracegrade/assemble/closed_traces.py",
    "tracegrade/assemble/completion.py",
    "tracegrade/assemble/content.py",
    "tracegrade/assemble/decode.py",
    "tracegrade/assemble/live_traces.py",
    "tracegrade/deliver/carriers.py",
    "tracegrade/deliver/events.py",
    "tracegrade/deliver/results.py",
    "tracegrade/otlp/encode.py",
    "tracegrade/pipeline/judged_trace.py",
    "tracegrade/pipeline/record_judge.py",
    "tracegrade/store/judged.py",
    "tracegrade/store/kept_spans.py",
)
_TOOLS = ("mypy[mypyc]>=2.4,<2.5", "types-protobuf>=6.32")
# Modules that are not compiled are read for their types; their mistakes, if any, are the type check's business.
_MYPY_OPTIONS = ("--follow-imports=silent", "--ignore-missing-imports", "--config-file=mypy.ini")
_MYPY_INI = "[mypy]\nplugins = pydantic.mypy\n"


class CompiledBuild(BuildHookInterface[Any]):
    """Adds the compiled modules to the wheel, where they are asked for."""

    def dependencies(self) -> list[str]:
        """What the build needs: the compiler, and the packages whose types it reads."""
        return [*_TOOLS, *self.metadata.core.dependencies] if _is_asked() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, in a folder outside of the checkout."""
        if not _is_asked() or version == "editable":
            return
        self._folder = TemporaryDirectory(prefix="tracegrade-compiled-")
        folder = Path(self._folder.name)
        package = folder / "tracegrade"
        shutil.copytree(Path(self.root) / "processor" / "tracegrade", package)
        compile_in(folder)
        for library in (*folder.glob("*.*"), *package.rglob("*.*")):
            if library.suffix in (".so", ".pyd"):
                build_data["force_include"][str(library)] = str(library.relative_to(folder))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove that folder."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _is_asked() -> bool:
    return os.environ.get("TRACEGRADE_COMPILE") == "1"


def compile_in(folder: Path) -> None:
    """Compile the modules of the package in `folder`, beside their sources."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    with chdir(folder):
        sources = sorted(
            path for pattern in COMPILED for path in map(str, Path().glob(pattern)) if not path.endswith("__init__.py")
        )
        for source in sources:
            path = Path(source)
            path.write_text(with_written_inits(path.read_text()))
        Path("mypy.ini").write_text(_MYPY_INI)
        modules = mypycify([*_MYPY_OPTIONS, *sources], opt_level="2", debug_level="0", group_name="tracegrade")
        command = Distribution({"name": "tracegrade", "ext_modules": modules}).get_command_obj("build_ext")
        command.inplace = True
        command.ensure_finalized()
        command.run()


def with_written_inits(text: str) -> str:
    """A module's text with an ``__init__`` written into each of its dataclasses.

    mypyc leaves those that `dataclasses` makes to the interpreter, which fills a compiled object more slowly than one
    of its own (https://github.com/mypyc/mypyc/issues/817); a written one becomes C.
    """
    lines = text.split("\n")
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and _is_plain_dataclass(node)]
    for node in reversed(classes):
        assert node.end_lineno is not None
        lines[node.end_lineno : node.end_lineno] = _init_of(node)
    return "\n".join(lines)


def _is_plain_dataclass(node: ast.ClassDef) -> bool:
    """Whether it is a dataclass without bases, not frozen, that is only filled: what is made for every span."""
    return (
        not node.bases
        and any(ast.unparse(decorator) == "dataclass(slots=True)" for decorator in node.decorator_list)
        and not any(isinstance(member, ast.FunctionDef) and member.name == "__post_init__" for member in node.body)
    )


def _init_of(node: ast.ClassDef) -> list[str]:
    parameters, body = ["self"], []
    for field in node.body:
        if not isinstance(field, ast.AnnAssign):
            continue
        name, kind = ast.unparse(field.target), ast.unparse(field.annotation).strip("'")
        value = name
        if field.value is None:
            parameters.append(f"{name}: {kind!r}")
        elif isinstance(field.value, ast.Call) and ast.unparse(field.value.func) == "field":
            options = {option.arg: ast.unparse(option.value) for option in field.value.keywords}
            value = options["default"] if "default" in options else f"{options['default_factory']}()"
            if options.get("init") != "False":
                value = f"{value} if {name} is None else {name}"
                parameters.append(f"{name}: '{kind} | None' = None")
        else:
            parameters.append(f"{name}: {kind!r} = {ast.unparse(field.value)}")
        body.append(f"        self.{name} = {value}")
    return [f"    def __init__({', '.join(parameters)}) -> None:", *body]
