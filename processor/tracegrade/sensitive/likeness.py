"""Stand-ins for values of which only the form is known: letters for letters, digits for digits, the rest as it is.

Letters are of a to f and digits of 2 to 7 alone, so that a stand-in for a hexadecimal or base32 value is one itself.
"""

_LETTERS = "abcdef"
_DIGITS = "234567"
_NUMBERED = 6  # places, from the end, that tell stand-ins of one form apart


def likeness(value: str, number: int) -> str:
    """A text of the form of `value`: another for each number, as far as its last letters and digits can tell."""
    found = []
    for character in reversed(value):
        if not character.isalnum():
            found.append(character)
            continue
        number, place = divmod(number, len(_DIGITS)) if number else (0, 0)
        alike = _DIGITS[place] if character.isdigit() else _LETTERS[place]
        found.append(alike.upper() if character.isupper() else alike)
    return "".join(reversed(found))


def is_likeness(value: str) -> bool:
    """Whether `value` is as `likeness` writes it."""
    known = [character.lower() for character in value if character.isalnum()]
    head, tail = known[:-_NUMBERED], known[-_NUMBERED:]
    return set(head) <= {"a", "2"} and set(tail) <= {*_LETTERS, *_DIGITS}
