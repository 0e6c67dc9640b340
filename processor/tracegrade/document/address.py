"""Addresses in settings files."""

from pydantic import BeforeValidator


def address_text(example: str) -> BeforeValidator:
    """Refuse what is no text, such as a port alone, in words that say what an address is, such as `example`."""

    def checked(found: object) -> object:
        if isinstance(found, str):
            return found
        raise ValueError(f"expected host:port such as {example!r}, found {found!r}")

    return BeforeValidator(checked)
