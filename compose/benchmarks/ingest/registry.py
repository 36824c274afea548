"""A registry of schemas, by HTTPS, that has one schema."""

import http.server
import json
import ssl
import threading


class Registry:
    """Runs while it is entered. folder: certificate and key of localhost, as `waybill-dev certificates` writes them."""

    def __init__(self, schema, identifier, folder):
        answer, path = json.dumps({"schema": json.dumps(schema)}).encode(), f"/schemas/ids/{identifier}"

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                is_known = self.path.partition("?")[0] == path
                content = answer if is_known else b'{"error_code": 40403, "message": "Schema not found"}'
                self.send_response(200 if is_known else 404)
                self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/server-certificate.pem", f"{folder}/server-key.pem")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
