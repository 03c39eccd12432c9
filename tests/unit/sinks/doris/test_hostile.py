"""A hostile Doris, or another server in its place: its answers cause one named error, in time, and have no other
effect.

The server is a socket that gives every client the same answer.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from slotkeeper.core.domain.endpoint import Endpoint, Login, Place
from slotkeeper.core.errors import Refused, RowRefused, SlotkeeperError, Unreachable
from slotkeeper.core.sinks.doris import answers
from slotkeeper.core.sinks.doris.http import ANSWER_BYTES, DorisHttp, HttpAnswer

SECRET = "canary-4711"
HOST = "127.0.0.1"


@contextmanager
def saying(
    answer: bytes, for_ever: bytes = b"", told: Sequence[Place] = (), backends: tuple[str, ...] = ()
) -> Iterator[tuple[DorisHttp, list[bytes]]]:
    """A client of a server that sends `answer` and then repeats `for_ever`; and the requests that the server
    received.

    `told` contains the BEs listed by SHOW BACKENDS, `backends` those of the configuration.
    """
    server, asked = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                with client, suppress(OSError):
                    asked.append(client.recv(65_536))
                    client.sendall(answer)
                    while for_ever:
                        client.sendall(for_ever)

    threading.Thread(target=serve, daemon=True).start()
    port = server.getsockname()[1]
    endpoint = Endpoint("d", HOST, 1, "", "etl", sslmode="disable", http_port=port, backends=backends)
    try:
        yield DorisHttp(Login(endpoint, SECRET, "test"), lambda: told), asked
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def sent_on(place: str) -> bytes:
    return f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize(
    "place", ["http://u:p@127.0.0.1:99999/", "http://u:p@[::1/", "http://127.0.0.1:a/", "//x/", ""]
)
def test_a_location_that_is_not_a_url_is_rejected_without_its_text(place: str) -> None:
    with saying(sent_on(place)) as (http, asked):
        with pytest.raises(Refused) as refused:
            http.ask("PUT", "/api/a/b/_stream_load", {}, 5)
        assert "p@" not in str(refused.value) and str(refused.value).isprintable() and len(asked) == 1


@pytest.mark.parametrize("told", [(), ((HOST, 8040),), (("10.0.0.7", 8040),)])
def test_a_redirect_to_a_port_that_no_be_has_gets_no_password(told: Sequence[Place]) -> None:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (other, stolen):
        port = other.login.endpoint.http_port
        with saying(sent_on(f"http://{HOST}:{port}/api/a/b/_stream_load"), told=told) as (http, asked):
            with pytest.raises(Refused, match=f"redirects loads to {HOST}:{port}, a port of no known BE") as refused:
                http.ask("PUT", "/api/a/b/_stream_load", {}, 5)
            assert f'"{HOST}:{port}"' in refused.value.hint and SECRET not in str(refused.value)
            assert http.page(f"http://{HOST}:{port}/api/_load_error_log?file=a", 5) == ""
        assert len(asked) == 1 and not stolen


@pytest.mark.parametrize("known", ["told", "configured"])
def test_a_redirect_to_the_port_of_a_be_is_followed(known: str) -> None:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (other, asked):
        port = other.login.endpoint.http_port
        told = ((HOST, port),) if known == "told" else ()
        backends = (f"{HOST}:{port}",) if known == "configured" else ()
        with saying(sent_on(f"http://{HOST}:{port}/"), told=told, backends=backends) as (http, _):
            assert http.ask("PUT", "/api/a/b/_stream_load", {}, 5).json == {}
        assert len(asked) == 1


def test_a_be_that_moves_to_another_port_is_found_again() -> None:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (other, _):
        port = other.login.endpoint.http_port
        with saying(sent_on(f"http://{HOST}:{port}/")) as (http, _):
            answers_in_turn = [[(HOST, 9)], [(HOST, port)]]
            http.backends = lambda: answers_in_turn.pop(0)
            with pytest.raises(Refused):
                http.ask("PUT", "/api/a/b/_stream_load", {}, 5)
            assert http.ask("PUT", "/api/a/b/_stream_load", {}, 5).json == {}


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:{port}/rest/v2/manager/node/drop", "http://127.0.0.1:99999/api/_load_error_log", "?", ""]
)
def test_only_a_page_of_errors_is_asked_with_the_password(url: str) -> None:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno") as (http, asked):
        assert http.page(url.format(port=http.login.endpoint.http_port), 5) == ""
        assert not asked
        page = f"http://127.0.0.1:{http.login.endpoint.http_port}/api/_load_error_log?file=a"
        assert http.page(page, 5) == "no" and len(asked) == 1


def test_endlessly_nested_objects_are_rejected_as_an_answer() -> None:
    assert HttpAnswer(200, b'{"a":' * 200_000).json is None


@pytest.mark.parametrize("number", ["7", [7], {"a": 1}, None, 7.5, "x" * 9])
def test_a_number_of_rows_that_is_none_is_not_taken_for_one(number: object) -> None:
    answer = {"NumberFilteredRows": number, "NumberTotalRows": number}
    assert isinstance(answers.rejected("a.b", answer, "", "http://[x"), RowRefused)
    assert answers.counted(answer, "NumberFilteredRows") == 0


def test_a_body_without_end_is_read_to_its_most_and_no_further() -> None:
    with saying(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536) as (http, _):
        assert len(http.ask("GET", "/", {}, 20).data) == ANSWER_BYTES


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 ", b"\0" * 4096),
    ],
)
def test_a_head_without_end_ends_in_a_named_error(begin: bytes, piece: bytes) -> None:
    with saying(begin, piece) as (http, _), pytest.raises(Unreachable):
        http.ask("GET", "/", {}, 2)


def test_what_is_packed_is_not_unpacked() -> None:
    """A few bytes that would expand to gigabytes are not decompressed: the client never requests compressed answers."""
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
    with saying(head + b"\x1f\x8b\x08\0") as (http, asked):
        assert http.ask("GET", "/", {}, 5).json is None
        assert b"accept-encoding" not in asked[0].lower()


@pytest.mark.parametrize("message", ["\x1b[2J\x07 dropped", "a\r\nb\x00", "x" * 100_000])
def test_what_a_server_says_is_one_bounded_visible_line(message: str) -> None:
    error: SlotkeeperError = answers.refusal(json.loads(json.dumps(message)), "a.b")
    assert str(error).isprintable() and len(str(error)) < 1_000


@pytest.mark.parametrize("known", ["told", "configured"])
def test_a_backend_written_in_capitals_is_the_one_that_the_fe_names(known: str) -> None:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (other, asked):
        port = other.login.endpoint.http_port
        backends = (f"LocalHost:{port}",) if known == "configured" else ("LOCALHOST",)
        told = () if known == "configured" else (("LOCALHOST", port),)
        with saying(sent_on(f"http://LOCALhost:{port}/"), told=told, backends=backends) as (http, _):
            assert http.ask("PUT", "/api/a/b/_stream_load", {}, 5).json == {}
        assert len(asked) == 1


def test_the_fe_written_in_capitals_is_its_own_host() -> None:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (other, asked):
        port = other.login.endpoint.http_port
        with saying(sent_on(f"http://localhost:{port}/"), told=((HOST, 1), ("LocalHost", port))) as (http, _):
            http.login = replace(http.login, endpoint=replace(http.login.endpoint, host="LOCALHOST"))
            assert http.ask("PUT", "/api/a/b/_stream_load", {}, 5).json == {}
        assert len(asked) == 1
