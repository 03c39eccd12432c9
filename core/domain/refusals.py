"""What a server's refusal means: SQLSTATEs of any server, the words by which a login is refused, what to do. Pure.

The SQL standard's codes with those that PostgreSQL adds; DWS, "Setting Account Security Policies"; libpq, "SSL
Support".
"""

from __future__ import annotations

from slotkeeper.core.errors import AccessRefused, LoginRefused

NO_RIGHT = "42501"
"""insufficient_privilege: about one object, where the codes of a login that is refused are about all."""
PASSWORDS = (
    "password authentication failed",
    "login denied",
    "account has been locked",
    "(using password: yes)",
    "account is blocked",
)
"""Words of a server that counts the refusal against the account. DWS: "Invalid username/password,login denied", "The
account has been locked"; MySQL, errors 1045 and 3955."""
LOCKED = PASSWORDS[2]
CLOSED = "permission denied for database"
_TLS = (
    (
        ("does not support ssl",),
        'Switch TLS on at the server, or write sslmode = "disable" where the network is trusted.',
    ),
    (
        ("authentication method requirement",),
        'Write sslmode = "require" or above: the server asks for the password in clear text, which only TLS may carry.',
    ),
    (
        ("certificate verify failed",),
        "Renew the server's certificate if it has expired, else name its authority in sslrootcert: openssl x509.",
    ),
    (
        ("does not match host name",),
        "Write a host that the server's certificate names, or have the certificate issued for this host.",
    ),
    (
        ("private key file", "certificate file", "could not get server's host name"),
        "Check sslrootcert, sslcert and sslkey: the key belongs to the certificate and has mode 0600; for an encrypted "
        "key, sslpassword_file (or _env, _command) has its password.",
    ),
    (
        ("alert certificate", "alert bad certificate", "alert unknown ca", "alert unsupported certificate"),
        "Set sslcert and sslkey: the server wants a client certificate that it knows.",
    ),
    (
        ("alert handshake failure", "alert protocol version", "unsupported protocol"),
        "Upgrade the server's TLS, or allow it a cipher that this host has: TLS 1.2 is the least.",
    ),
)
"""Words by which libpq and OpenSSL refuse a line, and what to do. What they say of a line that was lost is not here."""
REFUSED = (
    *PASSWORDS,
    *(word for words, _ in _TLS for word in words),
    "no password supplied",
    "none of the server's sasl",
    "authentication method",
    "no pg_hba.conf entry",
    "pg_hba.conf rejects",
    "is not permitted to log in",
    CLOSED,
)
"""Words of any refused login; psycopg2 brings no SQLSTATE with an error at login."""


REFERENCE = "check user and password reference (password_file, password_env or password_command of that server)"


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


def error_of(text: str) -> type[AccessRefused]:
    """The class of a refused login: by its password, for which another one may come, or by anything else.

    >>> error_of("FATAL:  password authentication failed").__name__, error_of("no pg_hba.conf entry").__name__
    ('LoginRefused', 'AccessRefused')
    """
    return LoginRefused if said(text, PASSWORDS) else AccessRefused


def of_line(text: str) -> bool:
    """Whether it is the line that was refused, by us or by the server, before any password."""
    return any(said(text, words) for words, _ in _TLS)


def tls_act(text: str) -> str:
    """What to do about a line that was refused; "" where it is no such sentence."""
    return next((act for words, act in _TLS if said(text, words)), "")


def cure(text: str) -> str:
    """What to do about a refused login.

    >>> cure("FATAL:  The account has been locked.")
    'an administrator unlocks it (ALTER USER <user> ACCOUNT UNLOCK); then see that the password is right'
    >>> cure("server does not support SSL, but SSL was required").partition(",")[0]
    'Switch TLS on at the server'
    """
    if act := tls_act(text):
        return act
    if said(text, (CLOSED,)):
        return "GRANT CONNECT ON DATABASE to this user: `slotkeeper doctor` prints all rights"
    if said(text, (LOCKED,)):
        return "an administrator unlocks it (ALTER USER <user> ACCOUNT UNLOCK); then see that the password is right"
    if said(text, PASSWORDS[:1]):  # PostgreSQL's words; a DWS says "login denied"
        return REFERENCE
    return f"{REFERENCE}; a DWS user needs an MD5 password for psycopg2 (see README)"
