"""The words by which a server refuses a login, and what to do about it. Pure.

DWS, "Setting Account Security Policies". Next door: `core.drivers.logins` counts the refusals; the console's remedies
ask here.
"""

from __future__ import annotations

PASSWORDS = ("password authentication failed", "login denied", "account has been locked")
"""Words of a server that counts the refusal against the account. DWS: "Invalid username/password,login denied", "The
account has been locked"."""
LOCKED = PASSWORDS[2]
REFUSED = (
    *PASSWORDS,
    "no password supplied",
    "none of the server's sasl",
    "authentication method",
    "no pg_hba.conf entry",
    "pg_hba.conf rejects",
    "is not permitted to log in",
)
"""Words of any refused login; psycopg2 brings no SQLSTATE with an error at login."""


def said(text: str, words: tuple[str, ...]) -> bool:
    """Whether a server's sentence holds one of these words, in any case.

    >>> said("FATAL:  Invalid username/password,login denied.", REFUSED)
    True
    """
    lower = text.lower()
    return any(one in lower for one in words)


def refusal(code: str, text: str) -> bool:
    """Whether an error is a refused login; a sentence about a row may hold the same words, so its class counts, too.

    >>> refusal("22P02", 'invalid input: "the account has been locked"'), refusal("08006", "login denied.")
    (False, True)
    """
    return code[:2] in ("", "08", "28") and said(text, REFUSED)


def cure(text: str) -> str:
    """What to do about a refused login.

    >>> cure("FATAL:  The account has been locked.")
    'an administrator unlocks it (ALTER USER <user> ACCOUNT UNLOCK); then see that the password is right'
    """
    if said(text, (LOCKED,)):
        return "an administrator unlocks it (ALTER USER <user> ACCOUNT UNLOCK); then see that the password is right"
    return "check user and password reference; a DWS user needs an MD5 password for psycopg2 (see README)"
