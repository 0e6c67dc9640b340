"""What is written is its user's alone."""

import os


def make_files_private() -> None:
    """From here on, what this process and those that it starts make is their user's alone: prompts are in it."""
    os.umask(0o077)
