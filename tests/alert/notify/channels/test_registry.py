from pathlib import Path

from tracegrade.alert.notify import channels as folder
from tracegrade.alert.notify.channels.registry import CHANNELS
from tracegrade.alert.notify.settings import KINDS


def test_every_file_is_a_kind_that_settings_know() -> None:
    files = {path.stem for path in Path(folder.__file__).parent.glob("*.py")} - {"__init__", "registry"}
    assert files == CHANNELS.keys() == set(KINDS)
