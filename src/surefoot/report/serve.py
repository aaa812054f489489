"""A page on localhost that follows what is being written: read-only, behind a token."""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any


@dataclass
class Live:
    """The latest page of something that changes: made again when `version` does, kept when it cannot be made."""

    version: Callable[[], str]
    make: Callable[[], str]
    _made: str = ""
    _page: str = ""
    _trouble: str = ""
    _lock: Lock = field(default_factory=Lock)

    def page(self) -> str:
        """The page, made again if something changed since; ValueError where there never was one."""
        with self._lock:
            now = self.version()
            if now != self._made or not self._page:
                try:
                    self._page, self._trouble = self.make(), ""
                except (
                    ValueError,
                    OSError,
                    KeyError,
                    TypeError,
                ) as error:  # half written: the next look is soon
                    self._trouble = str(error)
                self._made = now
            if not self._page:
                raise ValueError(self._trouble)
            return self._page

    def state(self) -> dict[str, str]:
        """What changes when the page would, and why it could not be made, if so."""
        return {"version": self.version(), "trouble": self._trouble}


def server(live: Live, *, host: str = "127.0.0.1", port: int = 0) -> tuple[ThreadingHTTPServer, str]:
    """A server of the page, not yet running, and its address; port 0 takes a free one.

    Only GET and HEAD, only below the token, and only for the host by which it is known: another site's script that has
    this machine's address cannot read it.
    """
    token = secrets.token_urlsafe(16)

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "surefoot", ""

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            status, kind, content = self._content()
            data = content.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.end_headers()
            if body:
                self.wfile.write(data)

        def _content(self) -> tuple[int, str, str]:
            if self.headers.get("Host", "") not in hosts:
                return 403, "text/plain", "This name is not one that the page is served under.\n"
            given, _, what = self.path.partition("?")[0].lstrip("/").partition("/")
            if not secrets.compare_digest(given.encode(), token.encode()) or what not in ("", "state"):
                return 404, "text/plain", "There is nothing here.\n"
            if what == "state":
                return 200, "application/json", json.dumps(live.state())
            try:
                return 200, "text/html", live.page()
            except ValueError as error:
                return 503, "text/plain", f"There is no page yet: {error}\n"

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: every look would be a line."""

    serving = ThreadingHTTPServer((host, port), Handler)
    serving.daemon_threads = True
    taken = serving.server_address[1]
    hosts = {f"{name}:{taken}" for name in (host, "localhost", "127.0.0.1")}
    return serving, f"http://{host}:{taken}/{token}/"
