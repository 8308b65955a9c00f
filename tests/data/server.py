"""A server on this machine, for downloads; and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Server:
    """Files by path; counts requests. An answer is bytes, or a function of the handler."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests += 1
                answer = outer.files.get(self.path)
                if answer is None:
                    self.send_error(404)
                elif callable(answer):
                    answer(self)
                else:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"


def left(cache: Path) -> list[str]:
    """The files in a cache."""
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())
