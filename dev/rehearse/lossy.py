"""A network between a function and the database that loses what it is told to lose.

It is how an order is admitted by Redis and never committed without anything of the product being changed: the
transaction is taken off the wire, and the function sees a connection that ends without an answer. Everything else
goes through.
"""

import contextlib
import http.client
import http.server
import threading

# Not between two machines only: all others may be signed, the host above all.
HOP_BY_HOP = ("connection", "content-length", "transfer-encoding")


@contextlib.contextmanager
def losing(aws, operation):
    """The URL of such a DynamoDB, and the list of what was lost so far."""
    lost = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.headers.get("x-amz-target", "").endswith(f".{operation}"):
                lost.append(body)
                self.close_connection = True
                return
            connection = http.client.HTTPConnection("127.0.0.1", aws.port, timeout=10)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
                connection.request("POST", "/", body, headers)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() in ("content-type", "x-amz-crc32", "x-amzn-requestid"):
                    self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", lost
    finally:
        server.shutdown()
        server.server_close()
