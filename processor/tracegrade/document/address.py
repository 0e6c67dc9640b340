"""Addresses in settings files."""

from ipaddress import ip_address

from pydantic import BeforeValidator


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; names other than localhost are not looked up."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def address_text(example: str) -> BeforeValidator:
    """Refuse what is no text, such as a port alone, in words that say what an address is, such as `example`."""

    def checked(found: object) -> object:
        if isinstance(found, str):
            return found
        raise ValueError(f"expected host:port such as {example!r}, found {found!r}")

    return BeforeValidator(checked)
