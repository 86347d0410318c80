"""An HTTP proxy in front of a server that breaks what it is told to: for tests of clients."""

import http.client
import http.server
import socketserver
import threading
import time


class FaultProxy:
    """Passes requests to 127.0.0.1:port. `fault(method, path, number)` is asked for each request, of which `number` counts from 1, and
    returns None or one of: ("status", code, body), ("reset",), ("truncate", bytes), ("freeze",), ("slow", seconds)."""

    def __init__(self, port, fault=lambda method, path, number: None):
        self.fault = fault
        self.requests = []  # (method, path)
        self.released = threading.Event()
        self._lock = threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def body(self):
                if self.headers.get("Expect", "").lower() == "100-continue":
                    self.send_response_only(100)
                    self.end_headers()
                if self.headers.get("Transfer-Encoding", "") == "chunked":
                    parts = []
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        parts.append(self.rfile.read(size))
                        self.rfile.readline()
                    self.rfile.readline()
                    return b"".join(parts)
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def handle_expect_100(self):
                return True

            def any(self):
                with proxy._lock:
                    proxy.requests.append((self.command, self.path))
                    number = len(proxy.requests)
                wrong = proxy.fault(self.command, self.path, number)
                if wrong and wrong[0] == "freeze":
                    proxy.released.wait(120)
                    self.close_connection = True
                    return
                body = self.body()
                if wrong and wrong[0] == "reset":
                    self.close_connection = True
                    return
                if wrong and wrong[0] == "status":
                    self.answer(wrong[1], [("Content-Type", "application/xml")], wrong[2].encode())
                    return
                if wrong and wrong[0] == "slow":
                    time.sleep(wrong[1])
                headers = {name: value for name, value in self.headers.items() if name.lower() not in ("transfer-encoding", "expect")}
                if body or self.command in ("PUT", "POST"):
                    headers["Content-Length"] = str(len(body))
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request(self.command, self.path, body=body or None, headers=headers)
                reply = connection.getresponse()
                content = reply.read()
                kept = [(name, value) for name, value in reply.getheaders() if name.lower() not in ("transfer-encoding", "connection", "content-length")]
                length = reply.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                if wrong and wrong[0] == "truncate" and self.command == "GET":
                    self.answer(reply.status, kept, content[: wrong[1]], length)
                    self.close_connection = True
                else:
                    self.answer(reply.status, kept, content, length)
                connection.close()

            def answer(self, status, headers, content, length=None):
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                if status not in (204, 304):
                    self.send_header("Content-Length", length if length is not None else str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = any

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

            def handle_error(self, request, address):
                pass  # Clients that were ended.

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
