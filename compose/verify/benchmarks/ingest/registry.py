"""A registry of schemas, by HTTPS, that has one schema."""

import http.server
import json
import ssl
import threading

UNKNOWN = b'{"error_code": 40403, "message": "Schema not found"}'


class Registry:
    """Runs while it is entered. folder: certificate and key of localhost, as `waybill-dev certificates` writes them."""

    def __init__(self, schema, identifier, folder):
        self.content, self.path = json.dumps({"schema": json.dumps(schema)}).encode(), f"/schemas/ids/{identifier}"
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(f"{folder}/server-certificate.pem", f"{folder}/server-key.pem")
        self.open(0)

    def answer(self, path):
        """Returns the status and the body of an answer. Called in a thread of the request."""
        return (200, self.content) if path == self.path else (404, UNKNOWN)

    def open(self, port):
        answer = self.answer

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, content = answer(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        # Clients that were killed.
        self.server.handle_error = lambda *_: None
        self.server.socket = self.context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
