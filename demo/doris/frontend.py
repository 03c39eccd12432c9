"""The FE of the stand-in: it redirects loads to the BE, and returns the state of a label.

Sources of requests and responses: LoadAction, RestBaseController and GetStreamLoadState of the FE (docs/adr/0041).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slotkeeper.demo.doris.faults import Call, Fault, Faults
from slotkeeper.demo.doris.http import LOOPBACK, Request
from slotkeeper.demo.doris.transactions import Transactions

DEAD_PORT = 1
"""A port without a server."""
_NO_BACKEND = "No backend load available, or there are no backends available"
_OF_FRONTEND = frozenset(
    {Fault.NO_BACKEND, Fault.SLOW_FRONTEND, Fault.DEAD_BACKEND, Fault.ELSEWHERE, Fault.PLAIN_BACKEND}
)


@dataclass
class Frontend:
    """The responses of the FE; `backend` returns the BE's port."""

    user: str
    faults: Faults
    transactions: Transactions
    backend: Callable[[], int]
    elsewhere: str = "doris-be.invalid"
    scheme: str = "http"

    def respond(self, request: Request) -> None:
        send = request.handler
        if request.user is None or request.user != self.user:
            send.send_text("Access denied", status=401, **{"WWW-Authenticate": 'Basic realm=""'})
            return
        match request.method, request.parts:
            case "PUT", ["api", _, _, "_stream_load"]:
                self._load(request)
            case "PUT", ["api", _, "_stream_load_2pc"] | ["api", _, _, "_stream_load_2pc"]:
                self._second_phase(request)
            case "GET", ["api", database, "get_load_state"]:
                self._state(request, database)
            case _:
                send.send_json({"msg": "not found", "code": 404, "data": None, "count": 0}, 404)

    def _load(self, request: Request) -> None:
        if request.headers.get("expect", "").lower() != "100-continue":
            failed(request, "There is no 100-continue header")
            return
        fault = self._of_frontend(Call.LOAD)
        if fault is Fault.NO_BACKEND:
            failed(request, _NO_BACKEND)
            return
        if fault is Fault.SLOW_FRONTEND:
            self.faults.ended.wait()
            return
        self._redirect(request, fault)

    def _second_phase(self, request: Request) -> None:
        fault = self._of_frontend(Call.TWO_PHASE)
        if fault is Fault.NO_BACKEND:
            failed(request, _NO_BACKEND)
            return
        self._redirect(request, fault)

    def _of_frontend(self, call: Call) -> Fault:
        """Return the fault that occurs in the FE; a fault of the BE is planned again for the BE."""
        fault = self.faults.next(call)
        if fault in _OF_FRONTEND:
            return fault
        if fault is not Fault.NONE:
            self.faults.give_back(call, fault)
        return Fault.NONE

    def _redirect(self, request: Request, fault: Fault) -> None:
        """Redirect with status 307 to a URL that contains the user and the password and ends with a question mark, as
        the FE does.
        """
        host = self.elsewhere if fault is Fault.ELSEWHERE else LOOPBACK
        port = DEAD_PORT if fault is Fault.DEAD_BACKEND else self.backend()
        scheme = "http" if fault is Fault.PLAIN_BACKEND else self.scheme
        where = f"{scheme}://{self.user}@{host}:{port}/{'/'.join(request.parts)}?"
        request.handler.send_text("", status=307, Location=where)

    def _state(self, request: Request, database: str) -> None:
        label = request.query.get("label", "")
        fault = self.faults.next(Call.STATE)
        if fault is Fault.LOST_BEFORE:
            request.handler.break_off()
        elif fault is Fault.HANG:
            self.faults.ended.wait()
        elif not label:
            request.handler.send_json({"msg": "No label selected.", "code": 400, "data": None, "count": 0}, 400)
        else:
            state = self.transactions.state(database, label).value
            request.handler.send_json({"msg": "success", "code": 0, "data": state, "count": 0})


def failed(request: Request, message: str) -> None:
    """Send the FE's response to a rejected load, with status 200."""
    request.handler.send_json({"status": "FAILED", "msg": message, "code": 1, "data": None, "count": 0})
