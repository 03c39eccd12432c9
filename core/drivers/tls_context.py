"""TLS contexts and TLS errors for connections that Python makes itself (HTTP, the MySQL protocol).

libpq has its own TLS (`login.parameters`). The sslmode values are those of libpq, without the values that allow a
fallback to plain text.
"""

from __future__ import annotations

import ssl

from slotkeeper.core.domain.endpoint import SAFEST, VERIFYING, Endpoint, secret_of
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import AccessRefused, SlotkeeperError

NO_KEY_PASSWORD = "none was given"  # noqa: S105
"""The key password used if none is configured; an unencrypted key needs none."""
_NO_TLS = ("wrong_version_number", "wrong version number", "record layer failure")
"""OpenSSL's errors for a server that answers a TLS ClientHello in plain text; a lost connection raises other errors."""
_HINTS = (
    (
        ("certificate_verify_failed", "certificate verify failed", "self-signed", "expired"),
        "the certificate has expired, is for another host, or was not issued by the authority in sslrootcert",
    ),
    (
        ("ssl is required", "doesn't support it", *_NO_TLS),
        'the server does not support TLS on this port: check the port, or set sslmode = "disable" in a trusted network',
    ),
    (("handshake failure", "protocol version", "unsupported protocol"), "the server must support TLS 1.2 or later"),
)


def context(endpoint: Endpoint) -> ssl.SSLContext | None:
    """Return the client's TLS context for an endpoint, or None for plain text. Raises AccessRefused for a bad file."""
    if endpoint.sslmode == "disable":
        return None
    try:
        made = ssl.create_default_context(cafile=endpoint.sslrootcert or None)
    except (OSError, ssl.SSLError) as error:
        what = f"sslrootcert {safe(endpoint.sslrootcert)}: {getattr(error, 'strerror', '') or 'no certificate'}"
        raise AccessRefused(what, "set sslrootcert to a PEM file with the authority's certificate") from error
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.check_hostname = endpoint.sslmode == SAFEST
    # with sslrootcert, `require` means verify-ca, as in libpq
    if endpoint.sslmode not in VERIFYING and not endpoint.sslrootcert:
        made.verify_mode = ssl.CERT_NONE
    if endpoint.sslcert:
        _show(made, endpoint)
    return made


def _show(made: ssl.SSLContext, endpoint: Endpoint) -> None:
    """Load the client's certificate, always with a key password; without a password, OpenSSL would wait at a prompt."""
    try:
        made.load_cert_chain(
            endpoint.sslcert, endpoint.sslkey or None, secret_of(endpoint.key_password).now() or NO_KEY_PASSWORD
        )
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "strerror", "") or "no certificate, or a key that does not match it"
        what = f"sslcert {safe(endpoint.sslcert)}, sslkey {safe(endpoint.sslkey)}: {safe(str(why), 100)}"
        raise AccessRefused(
            what, "set sslcert and sslkey to PEM files that match, and sslpassword_... for an encrypted key"
        ) from error


def refused(error: BaseException, place: str, where: str) -> SlotkeeperError | None:
    """Return the error, with a hint, for a connection that failed because of TLS; None if TLS is not the cause."""
    said = error.args[1] if len(error.args) > 1 else error
    text = str(getattr(error, "verify_message", "") or said)
    low = f"{error} {text}".lower()
    for words, hint in _HINTS:
        if any(word in low for word in words) and (isinstance(error, ssl.SSLError) or "ssl" in low):
            return AccessRefused(f"{place}: TLS: {safe(text, 200)}", hint, where=where)
    return None
