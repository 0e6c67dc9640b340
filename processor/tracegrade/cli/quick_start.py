"""What lets commands that do one thing and end do it sooner: most of what they take is importing."""

import atexit
import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

# SQLAlchemy imports both, and of us only those that are asynchronous or look for plug-ins need them: with all that they
# import in turn, an eighth of what showing stored results would take.
_SELDOM_NEEDED = ("asyncio", "importlib.metadata")
_GARBAGE_AFTER = 50_000


def start_quickly() -> None:
    """Leave out what a short run does for nothing: modules nobody uses, looking for garbage in those that stay.

    The latter would be a tenth of such a run, most of it at the end.
    """
    for name in _SELDOM_NEEDED:
        sys.modules.setdefault(name, _Later(name))
    gc.set_threshold(_GARBAGE_AFTER)
    atexit.register(gc.freeze)


class _Later(ModuleType):
    """Stands for a module until something of it is used.

    Not `importlib.util.LazyLoader`: what that made is loaded by the next ``import`` of it.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module(), name)

    def iscoroutine(self, value: object) -> bool:
        """That of `asyncio`: SQLAlchemy looks it up when it is imported."""
        found: bool = self._module().iscoroutine(value)
        return found

    def _module(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return import_module(self.__name__)
