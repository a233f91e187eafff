"""The ledger service: everything that moves money goes through here."""

from acme.errors import AcmeError
from acme.ledger import Ledger
from acme.logging import log
from acme.result import Err, Ok, Result

MAX_TRANSFER_CENTS = 5_000_000


def is_open(account):
    """Tell whether an account may be used."""
    return account.closed_at is None and not account.frozen


def format_cents(cents):
    """Write an amount of money as people read it."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def transfer(