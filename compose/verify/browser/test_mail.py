"""A link in a mail, and the verifier's page, in Chromium, with the stack of the playground.

At WAYBILL_PLAYGROUND_URL; the folder of its stack is WAYBILL_PLAYGROUND_STACK, that of the programs WAYBILL_PROGRAMS.
Screenshots go to WAYBILL_SCREENSHOTS if that is set.
"""
import base64
import hashlib
import hmac
import os
import re
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import chromium
from playground import Visitor

URL = os.environ.get("WAYBILL_PLAYGROUND_URL", "http://127.0.0.1:8090/playground")
STACK = os.environ.get("WAYBILL_PLAYGROUND_STACK")
PROGRAMS = os.environ.get("WAYBILL_PROGRAMS", "../../../.build/release")
SCREENSHOTS = os.environ.get("WAYBILL_SCREENSHOTS")
LOOKS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def send(url, method="GET", **headers):
    """Returns status, fields and body of an answer; follows no redirection."""
    request = urllib.request.Request(url, method=method, headers=headers, data=b"" if method == "POST" else None)
    try:
        answer = urllib.request.build_opener(NoRedirect).open(request, timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    return answer.status, answer.headers, answer.read()


@unittest.skipUnless(STACK, "WAYBILL_PLAYGROUND_STACK is not set")
class MailTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(STACK, "stack.env"), encoding="utf-8") as file:
            cls.env = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
        cls.browser = chromium.Browser()
        cls.addClassCleanup(cls.browser.close)
        page = cls.browser.page()
        cls.addClassCleanup(page.close)
        cls.visitor = Visitor(page, URL)
        cls.order = cls.visitor.pay("order")

    def page(self, url, width=1280, scheme="light"):
        page = self.browser.page(width, 900, scheme)
        self.addCleanup(page.close)
        page.open(url)
        return page

    def key(self):
        return f"{self.env['ORDER_TYPE']}/{self.order}"

    def token(self):
        with open(self.env["TOKEN_SECRETS"], "rb") as file:
            secret = file.readline().rstrip(b"\r\n")
        return hmac.new(secret, self.key().encode(), hashlib.sha256).hexdigest()[:32]

    def link(self, seconds=3600):
        expires = int(time.time()) + seconds
        message = f"mail:{self.key()}:{expires}".encode()
        signature = hmac.new(self.token().encode(), message, hashlib.sha256).hexdigest()
        return f"{self.env['GATEWAY_URL']}/v1/orders/{self.key()}/mail?expires={expires}&signature={signature}"

    def screenshot(self, page, name, width, scheme):
        if SCREENSHOTS:
            page.screenshot(os.path.join(SCREENSHOTS, f"{name}-{width}-{scheme}.png"))

    def test_the_page_of_a_link_is_for_everybody(self):
        for width, scheme in LOOKS:
            page = self.page(self.link(), width, scheme)
            names = [one["name"] for one in page.accessibility() if one["role"] == "button"]
            # Chromium draws no button of Apple Pay, so Wallet's stays away.
            self.assertEqual(names, ["See your order"])
            self.assertEqual(page.evaluate("document.querySelector('.wallet').offsetHeight"), 0)
            self.assertEqual(page.pale_texts(), {})
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
            self.assertEqual(page.complaints, [])
            self.screenshot(page, "mail", width, scheme)
            # How it looks on a device with Wallet, where the condition of the style is true.
            page.evaluate("document.querySelectorAll('form').forEach((form) => { "
                          "form.style.display = form.className === 'wallet' ? 'block' : 'none'; })")
            self.assertEqual(page.pale_texts(), {})
            self.screenshot(page, "mail-wallet", width, scheme)
        german = self.page(self.link() + "&language=de")
        self.assertEqual(german.evaluate("document.documentElement.lang"), "de")
        expired = self.page(self.link(-1))
        self.assertIn("has expired", expired.evaluate("document.body.innerText"))

    def test_the_button_leads_to_the_shop_by_keyboard(self):
        page = self.page(self.link())
        page.tab_to("document.activeElement.textContent === 'See your order'")
        page.press("Enter")
        page.wait("location.protocol !== 'http:'")
        history = page.call("Page.getNavigationHistory")["entries"]
        self.assertRegex(history[-1]["url"], r"^https://shop\.example\.com/orders/")

    def test_a_device_with_wallet_gets_the_package_from_its_button_only(self):
        link = self.link()
        for _ in range(10):
            status, headers, body = send(link, **{"User-Agent": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X)"})
            self.assertEqual((status, headers["Location"]), (200, None))
        action = re.search(r'class="wallet" method="post" action="(.*?)"', body.decode())[1].replace("&amp;", "&")
        status, headers, _ = send(link.split("?")[0] + action, "POST")
        self.assertEqual(status, 303)
        status, headers, package = send(link.rsplit("/", 1)[0] + "/" + headers["Location"])
        self.assertEqual((status, headers["Content-Type"]), (200, "application/vnd.apple.finance.order"))
        self.assertEqual(package[:2], b"PK")

    def test_an_unlinked_order_has_no_link_and_its_devices_keep_it(self):
        present = self.order
        self.addCleanup(setattr, self, "order", present)
        self.order = self.visitor.pay("order")
        link, token = self.link(), self.token()
        self.assertEqual(send(link)[0], 200)
        names = {"WAYBILL_KAFKA_BOOTSTRAP": "KAFKA_BOOTSTRAP", "WAYBILL_REDIS_URL": "REDIS_URL",
                 "WAYBILL_KAFKA_PROPERTIES": "KAFKA_PROPERTIES", "WAYBILL_BRANDS": "BRANDS",
                 "WAYBILL_TOKEN_SECRETS": "TOKEN_SECRETS", "WAYBILL_WEB_SERVICE_URL": "WEB_SERVICE_URL"}
        told = subprocess.run(
            [os.path.join(PROGRAMS, "waybill-packager"), "order", "unlink", self.key()], timeout=120, check=True,
            env=os.environ | {name: self.env[own] for name, own in names.items()}, capture_output=True, text=True)
        self.assertIn("the links in mails have ended", told.stdout)
        for method, action in (("GET", ""), ("POST", "&open=wallet"), ("POST", "&open=order")):
            status, headers, body = send(link + action, method)
            self.assertEqual((status, headers["Location"]), (403, None))
            self.assertIn("the shop has ended it", body.decode())
        status, _, package = send(f"{self.env['GATEWAY_URL']}/v1/orders/{self.key()}",
                                  Authorization=f"AppleOrder {token}")
        self.assertEqual((status, package[:2]), (200, b"PK"))

    def test_the_verifier_says_why_wallet_would_refuse_a_package(self):
        # As a server gets the bytes for an attachment.
        status, _, package = send(f"{self.env['GATEWAY_URL']}/v1/orders/{self.key()}",
                                  Authorization=f"AppleOrder {self.token()}")
        self.assertEqual(status, 200)
        base = URL.rsplit("/", 1)[0]
        drop = """(() => {
          const bytes = Uint8Array.from(atob("%s"), (one) => one.charCodeAt(0));
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([bytes], "%s"));
          document.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
        })()"""
        for width, scheme in LOOKS:
            page = self.page(base + "/verifier", width, scheme)
            page.evaluate(drop % (base64.b64encode(package).decode(), "good.order"))
            page.wait("document.querySelector('#verdict').textContent === 'Wallet would take it'")
            self.assertGreater(page.evaluate("document.querySelectorAll('#files li').length"), 2)
            broken = package.replace(b"manifest.json", b"manifest.jsom")
            page.evaluate(drop % (base64.b64encode(broken).decode(), "broken.order"))
            page.wait("document.querySelector('#verdict').textContent.startsWith('Wallet would refuse it')")
            self.assertIn("manifest", page.evaluate("document.querySelector('#violations').textContent"))
            self.assertEqual(page.pale_texts(), {})
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
            self.assertEqual(page.complaints, [])
            self.screenshot(page, "verifier", width, scheme)
        inputs = {one["name"] for one in page.accessibility() if one["isFocusable"]}
        self.assertTrue(any("Package" in name for name in inputs), inputs)


if __name__ == "__main__":
    unittest.main()
