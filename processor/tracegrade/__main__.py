"""``python -m tracegrade`` is the ``tracegrade`` command."""

from tracegrade.cli import main

if __name__ == "__main__":
    main()
