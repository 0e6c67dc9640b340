"""Coverage-guided fuzzing of everything that reads what senders and users write.

    pip install 'tracegrade[fuzz]'
    python tests/system/fuzz/run.py [TARGET ...] [-- libFuzzer options, such as -max_total_time=600, and corpus folders]

Without a target all take turns, chosen by the first byte of each input. A finding ends the run and is written to the
working folder as crash-*; `python tests/system/fuzz/run.py TARGET -- crash-...` shows it again.
"""

import sys
from pathlib import Path

import atheris

sys.path.extend(map(str, Path(__file__).parents[1:3]))

with atheris.instrument_imports(include=["tracegrade"]):
    from fuzz.targets import TARGETS


def main() -> None:
    """Fuzz the targets named, or all."""
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    targets = [TARGETS[name] for name in arguments[:cut] or TARGETS]

    def run(data: bytes) -> None:
        if len(targets) == 1:
            targets[0](data)
        elif data:
            targets[data[0] % len(targets)](data[1:])

    atheris.Setup([sys.argv[0], *arguments[cut + 1 :]], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
