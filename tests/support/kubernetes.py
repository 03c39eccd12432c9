"""A stand-in of the Kubernetes API whose pods are processes of this host: no scheduler, no kubelet, no network of pods.

It has what Spark's own scheduler backend asks for: pods and config maps of one namespace, with watches. An executor's
pod runs `docker/executor`, the entry point of the image. It shows how drivers and executors behave when pods and
answers are lost; it shows nothing about a real cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from slotkeeper.core.spark.java import find_java, shim_home
from tests.support.terminal import ROOT

ENTRY_POINT = ROOT / "docker" / "executor"
_CONTAINER = "spark-kubernetes-executor"
Pod = dict[str, Any]


@dataclass
class _Watch:
    selector: dict[str, str]
    events: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False


class Api:
    """The stand-in; `close` ends it and all pods."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._java = shim_home(find_java(), (folder,))
        self.pods: dict[str, Pod] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._watches: list[_Watch] = []
        self._changed = threading.Condition()
        self._version = 1
        self._server: ThreadingHTTPServer | None = None
        self._open: set[Any] = set()
        self.port = 0
        self.ended = False
        self.serve()
        threading.Thread(target=self._see, name="kubelet", daemon=True).start()

    @property
    def url(self) -> str:
        return f"k8s://http://127.0.0.1:{self.port}"

    def serve(self) -> None:
        """Answer, at the same address as before."""
        api = self

        class Handler(_Handler):
            it = api

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="api", daemon=True).start()

    def away(self) -> None:
        """Refuse all connections until `serve`; pods continue."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        with self._changed:
            for watch in self._watches:
                watch.ended = True
            self._changed.notify_all()
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(2)

    def running(self) -> list[str]:
        """The names of the executors' pods whose process is running."""
        return [name for name, process in list(self.processes.items()) if process.poll() is None]

    def kill(self, name: str) -> None:
        """Kill a pod's process, as an out-of-memory kill does."""
        self.processes[name].kill()
        self.processes[name].wait()

    def evict(self, name: str) -> None:
        """End a pod as the kubelet does when its node lacks memory: the pod remains, Failed."""
        with self._changed:
            self.pods[name]["status"] |= {"reason": "Evicted", "message": "The node was low on resource: memory."}
        self.processes[name].terminate()
        self.processes[name].wait()

    def expire(self) -> None:
        """End all watches: their versions are too old (410 Gone)."""
        gone = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
        with self._changed:
            for watch in self._watches:
                watch.events.append({"type": "ERROR", "object": gone})
                watch.ended = True
            self._changed.notify_all()

    def close(self) -> None:
        self.ended = True
        self.away()
        for process in self.processes.values():
            process.kill()
            process.wait()

    # -- pods

    def create(self, pod: Pod) -> Pod:
        name = pod["metadata"]["name"]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        pod["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now, "namespace": "default"}
        pod["status"] = {"phase": "Running", "podIP": "127.0.0.1", "startTime": now}
        self.pods[name] = pod
        self._status(pod, {"running": {"startedAt": now}})
        container = pod["spec"]["containers"][0]
        env = {one["name"]: one.get("value", "127.0.0.1") for one in container.get("env", [])}
        env |= {"SPARK_EXECUTOR_POD_NAME": name, "SPARK_EXECUTOR_POD_IP": "127.0.0.1"}
        env |= {
            "JAVA_HOME": str(self._java),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SPARK_USER": "slotkeeper",
        }
        home = self._folder / name
        home.mkdir()
        env |= {"SPARK_LOCAL_DIRS": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        with (self._folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen([ENTRY_POINT], cwd=home, env=env, stdout=log, stderr=log)
        self._tell("ADDED", pod)
        return pod

    def delete(self, name: str) -> Pod | None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            if (process := self.processes.get(name)) is not None:
                process.terminate()
            self._tell("DELETED", pod)
        return pod

    def found(self, selector: dict[str, str]) -> list[Pod]:
        return [pod for pod in list(self.pods.values()) if _fits(pod, selector)]

    def _see(self) -> None:
        """The kubelet: report ended processes."""
        while not self.ended:
            for name, process in list(self.processes.items()):
                pod = self.pods.get(name)
                if pod is not None and pod["status"]["phase"] == "Running" and process.poll() is not None:
                    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
                    pod["status"]["phase"] = "Failed" if code else "Succeeded"
                    self._status(pod, {"terminated": {"exitCode": code, "reason": "Error"}})
                    self._tell("MODIFIED", pod)
            with self._changed:
                self._changed.wait(0.2)

    def _status(self, pod: Pod, state: dict[str, Any]) -> None:
        status = {"name": _CONTAINER, "image": "", "imageID": "", "ready": "running" in state, "restartCount": 0}
        pod["status"]["containerStatuses"] = [{**status, "state": state}]

    def _tell(self, what: str, pod: Pod) -> None:
        with self._changed:
            self._version += 1
            pod["metadata"]["resourceVersion"] = str(self._version)
            for watch in self._watches:
                if _fits(pod, watch.selector):
                    watch.events.append({"type": what, "object": json.loads(json.dumps(pod))})
            self._changed.notify_all()

    def watch(self, selector: dict[str, str], send: Callable[[bytes], object]) -> None:
        """Send events until the watch ends."""
        mine = _Watch(selector)
        self._watches.append(mine)
        try:
            while not self.ended and (mine.events or not mine.ended):
                with self._changed:
                    self._changed.wait_for(lambda: mine.events or mine.ended, 1.0)
                    events, mine.events = mine.events, []
                for event in events:
                    send(json.dumps(event).encode() + b"\n")
        finally:
            self._watches.remove(mine)

    @property
    def version(self) -> str:
        return str(self._version)


def _fits(pod: Pod, selector: dict[str, str]) -> bool:
    labels = pod["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in selector.items())


class _Handler(BaseHTTPRequestHandler):
    it: Api
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.it._open.add(self.connection)

    def finish(self) -> None:
        self.it._open.discard(self.connection)
        with suppress(OSError, ValueError):
            super().finish()

    def do_GET(self) -> None:
        kind, name, query = self._asked()
        if kind != "pods":
            self._answer(404 if name else 200, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []})
        elif name:
            pod = self.it.pods.get(name)
            self._answer(200 if pod else 404, pod or {"kind": "Status", "code": 404, "reason": "NotFound"})
        elif self.headers.get("Upgrade"):  # fabric8 tries a WebSocket first; a complete 200 makes it watch by HTTP
            self._answer(200, {"kind": "Status", "status": "Failure", "message": "no WebSockets"})
        elif query.get("watch") == ["true"]:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with suppress(OSError):
                self.it.watch(self._selector(query), self._chunk)
                self.wfile.write(b"0\r\n\r\n")
            self.close_connection = True
        else:
            self._list(self.it.found(self._selector(query)))

    def do_POST(self) -> None:
        kind, _, _ = self._asked()
        body = self._body()
        self._answer(201, self.it.create(body) if kind == "pods" else body)

    def do_PATCH(self) -> None:
        _, name, _ = self._asked()
        body, pod = self._body(), self.it.pods.get(name)
        if pod is not None and isinstance(body, dict):
            pod["metadata"].setdefault("labels", {}).update(body.get("metadata", {}).get("labels", {}))
        self._answer(200 if pod else 404, pod or {"kind": "Status", "code": 404, "reason": "NotFound"})

    do_PUT = do_PATCH

    def do_DELETE(self) -> None:
        kind, name, query = self._asked()
        with suppress(ValueError):
            self._body()
        names = [name] if name else [pod["metadata"]["name"] for pod in self.it.found(self._selector(query))]
        gone = [self.it.delete(one) for one in names] if kind == "pods" else []
        self._answer(200, gone[0] if name and gone and gone[0] else {"kind": "Status", "status": "Success"})

    def _asked(self) -> tuple[str, str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")  # api/v1/namespaces/NAMESPACE/KIND/NAME
        kind, name = [*words[4:], "", ""][:2] if len(words) > 4 else ("", "")
        return kind, name, parse_qs(parts.query)

    def _selector(self, query: dict[str, list[str]]) -> dict[str, str]:
        text = ",".join(query.get("labelSelector", []))
        return dict(one.split("=", 1) for one in text.split(",") if "=" in one and "!=" not in one)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def _list(self, pods: list[Pod]) -> None:
        meta = {"resourceVersion": self.it.version}
        self._answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": pods})

    def _answer(self, code: int, value: object) -> None:
        text = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _chunk(self, text: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""
