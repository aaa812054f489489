"""A web server on this machine that can break off, and can be without ranges."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Site:
    """What the server has, how it behaves, and what it was asked."""

    files: dict[str, bytes]
    ranges: bool = True
    breaks_after: list[int] = field(default_factory=list)  # bytes of the body sent by the next answers
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path and range
    address: str = ""


@contextmanager
def serving(files: dict[str, bytes], *, ranges: bool = True) -> Iterator[Site]:
    site = Site(files, ranges)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            site.asked.append((self.path, asked))
            content = site.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            first = int(asked.removeprefix("bytes=").rstrip("-")) if asked and site.ranges else 0
            if first >= len(content) > 0:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.end_headers()
                return
            self.send_response(206 if first else 200)
            if first:
                self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
            body = content[first:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: site.breaks_after.pop(0)] if site.breaks_after else body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
