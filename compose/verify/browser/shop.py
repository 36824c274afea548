"""A shop's page and a service with scripted answers, at the same origin, with a strict content security policy."""
import http.server
import json
import os
import threading
import time

FILES = os.path.join(os.path.dirname(__file__), "../../../Shared/Browser/Files")
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' https://apple.com; img-src 'self'"
REQUEST = {
    "countryCode": "GB", "currencyCode": "GBP", "supportedNetworks": ["visa"],
    "merchantCapabilities": ["supports3DS"], "total": {"label": "Shop", "amount": "19.99"},
    "lineItems": [{"label": "Lamp", "amount": "19.99"}],
    "requiredShippingContactFields": ["name", "email", "phone", "postalAddress"],
}
METADATA = {
    "enabled": True, "merchantIdentifier": "merchant.com.example.shop", "displayName": "Shop",
    "environments": ["sandbox"], "countryCode": "GB", "currencyCode": "GBP", "supportedNetworks": ["visa"],
    "merchantCapabilities": ["supports3DS"], "touchIcons": [{"sizes": "120x120", "href": "/touch.png"}],
    "orderTracking": True, "routes": {"basket": True, "payment": True}, "stylesheet": "/applepay/waybill.css",
}
DETAILS = {
    "orderTypeIdentifier": "order.com.example.shop", "orderIdentifier": "1", "webServiceURL": "https://w.example",
    "authenticationToken": "0123456789abcdef",
}


def file(name):
    with open(os.path.join(FILES, name), "rb") as opened:
        return opened.read()


def classic():
    """Returns waybill.js: the module without its export, in a function, with one global."""
    body, exports = file("waybill.mjs").decode().rsplit("\nexport {", 1)
    names = exports.strip().removesuffix("};")
    tail = "window.waybill = Object.assign(window.waybill || {}, { applePay: {" + names + "} });"
    return f'(() => {{\n"use strict";\n{body}\n{tail}\n}})();\n'.encode()


class Shop:
    """`answers` maps "METHOD path" to a status and a JSON value, or to a function of the request's body."""

    def __init__(self):
        self.answers = {
            "GET /applepay/metadata": (200, METADATA),
            "GET /applepay/basket/b1": (200, {"basketIdentifier": "b1", "version": 1, "paymentRequest": REQUEST}),
            "POST /applepay/basket/b1/validatepostalcode": (200, {
                "deliverable": True, "errors": [], "newTotal": {"label": "Shop", "amount": "24.99"}}),
            "POST /applepay/validate": lambda body: (200, {
                "epochTimestamp": 1, "expiresAt": int(time.time() * 1000) + 300000, "nonce": str(time.monotonic_ns()),
                "merchantSessionIdentifier": "s", "merchantIdentifier": "m", "domainName": "127.0.0.1",
                "displayName": "Shop", "signature": "00"}),
            "POST /applepay/payment": (200, {
                "status": "success", "orderIdentifier": "1", "orderDetails": DETAILS}),
            "POST /wallet": (200, {}),
        }
        self.requests, self.policy = [], POLICY
        shop = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def reply(self, status, body, content_type):
                self.send_response(status)
                for name, value in {
                    "Content-Type": content_type, "Content-Length": len(body), "Cache-Control": "no-store",
                    "Content-Security-Policy": shop.policy, "X-Content-Type-Options": "nosniff",
                    "Access-Control-Allow-Origin": "*",
                }.items():
                    self.send_header(name, str(value))
                try:
                    self.end_headers()
                    self.wfile.write(body)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # The page has gone on.

            def answer(self):
                path = self.path.split("?")[0]
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                value = json.loads(body) if body else None
                shop.requests.append((self.command, path, value, dict(self.headers)))
                scripted = shop.answers.get(f"{self.command} {path}")
                if scripted is not None:
                    status, told = scripted(value) if callable(scripted) else scripted
                    if status == 0:  # A network that fails.
                        self.close_connection = True
                        return None
                    return self.reply(status, json.dumps(told).encode(), "application/json")
                if path == "/applepay/waybill.js":
                    return self.reply(200, classic(), "text/javascript")
                if path.startswith("/applepay/"):
                    kind = "text/css" if path.endswith(".css") else "text/javascript"
                    return self.reply(200, file(os.path.basename(path)), kind)
                if path in ("/favicon.ico", "/touch.png"):
                    return self.reply(200, b"", "image/png")
                if path in shop.scripts:
                    return self.reply(200, shop.scripts[path].encode(), "text/javascript")
                if path in shop.pages:
                    return self.reply(200, shop.pages[path].encode(), "text/html; charset=utf-8")
                return self.reply(404, b"{}", "application/json")

            do_GET = do_POST = do_OPTIONS = answer

        self.scripts, self.pages = {}, {}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def asked(self, path):
        return [request for request in self.requests if request[1] == path]
