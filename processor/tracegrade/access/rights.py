"""Rights, and the roles that give them: a role has the name of its right, and gives what that implies.

=============== ======================================================================= ==============================
role            allows                                                                  implies
=============== ======================================================================= ==============================
``send``        to send spans, logs and metrics                                         nothing
``read``        to see what is stored, without values                                   nothing
``read-values`` to see arguments, outputs, messages and explanations too                ``read``
``run``         to run suites, pin baselines, label runs, write suites, backtest rules  ``read``
``review``      to acknowledge incidents, own them and comment on them                  ``read-values``
``admin``       to delete, and to accept and silence alerts                             ``run``, ``review``
=============== ======================================================================= ==============================

``all`` is all of them. Nothing else implies ``send``.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

Right: TypeAlias = Literal["send", "read", "read-values", "run", "review", "admin"]
Role: TypeAlias = Literal["send", "read", "read-values", "run", "review", "admin", "all"]

RIGHTS: tuple[Right, ...] = get_args(Right)
ROLES: tuple[Role, ...] = get_args(Role)
EVERYTHING = frozenset(RIGHTS)

_GIVES: dict[Role, frozenset[Right]] = {
    "send": frozenset({"send"}),
    "read": frozenset({"read"}),
    "read-values": frozenset({"read-values", "read"}),
    "run": frozenset({"run", "read"}),
    "review": frozenset({"review", "read-values", "read"}),
    "admin": frozenset({"admin", "run", "review", "read-values", "read"}),
    "all": EVERYTHING,
}


def rights_of(roles: Iterable[Role]) -> frozenset[Right]:
    """Everything that these roles allow together."""
    return frozenset(right for role in roles for right in _GIVES[role])
