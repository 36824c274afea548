"""The playground, in Chromium, at WAYBILL_PLAYGROUND_URL: python3 -m unittest test_playground, in this folder.

Screenshots go to WAYBILL_SCREENSHOTS if that is set.
"""
import json
import os
import unittest
import urllib.request

import chromium
import shop as shops
from playground import Visitor

URL = os.environ.get("WAYBILL_PLAYGROUND_URL", "http://127.0.0.1:8090/playground")


class PlaygroundTests(unittest.TestCase):
    def setUp(self):
        # One browser per test: sessions are cookies.
        self.browser = chromium.Browser()
        self.addCleanup(self.browser.close)

    def visit(self, browser=None, blocked=()):
        page = (browser or self.browser).page()
        self.addCleanup(page.close)
        page.call("Network.enable")
        page.call("Network.setBlockedURLs", urls=list(blocked))
        return Visitor(page, URL)

    def test_both_apis_place_both_kinds_of_orders(self):
        visitor = self.visit()
        page = visitor.page
        self.assertTrue(page.evaluate("document.body.innerText.includes('There are no orders yet that can be updated')"))
        for api in ("applepay", "payment-request"):
            visitor.choose_api(api)
            receipt = visitor.pay("receipt")
            self.assertEqual(visitor.in_device(receipt), "Completed")
            self.assertEqual(visitor.in_device(visitor.pay("order")), "Processing")
            page.wait(f"document.querySelector('.orders input[value=\"{receipt}\"]').disabled")
            visitor.wait_titles("receipt", "A receipt: it names no web service, so there is nothing to register for")
        self.assertEqual(page.complaints, [])

    def test_an_update_arrives_in_the_device(self):
        visitor = self.visit()
        order = visitor.pay("order")
        visitor.in_device(order)
        visitor.select(order)
        visitor.update("Next status")
        visitor.page.wait(f"document.querySelector('[data-order=\"{order}\"] .state').textContent === 'On the way'")
        visitor.update("Tracking number")
        visitor.page.wait(f"document.querySelector('[data-order=\"{order}\"]').textContent.includes('Example Parcel EP')")
        # Without a change there is no new version.
        visitor.page.click("document.querySelector('#update-button')")
        visitor.page.wait(f"{visitor.inside('update', '.verdict')}.textContent.startsWith('Nothing changed')")
        titles = visitor.titles("update")
        for title in ("Published waybill.order.replaced", "Packaged and signed version 3", "New version in Wallet",
                      "Pushed: something changed", "Registers for updates: 201", "Fetches the order: 200"):
            self.assertIn(title, titles)
        self.assertEqual(visitor.page.complaints, [])
        folder = os.environ.get("WAYBILL_SCREENSHOTS")
        if folder:
            os.makedirs(folder, exist_ok=True)
            visitor.screenshots(folder, "playground")
            for name, tab in (("order", "Transcript"), ("update", "Source")):
                visitor.tab(name, tab)
            visitor.screenshots(folder, "playground-tabs")

    def test_the_devices_are_pushed_again(self):
        visitor = self.visit()
        order = visitor.pay("order")
        visitor.in_device(order)
        visitor.select(order)
        pushes = visitor.titles("update").count("Pushed: something changed")
        visitor.press("update", "Push again")
        visitor.page.wait(f"{visitor.inside('update', '.verdict')}.textContent.startsWith('The devices are pushed again')")
        visitor.wait_titles("update", "Pushed: something changed", pushes + 1)
        self.assertIn("Has the devices pushed again: 202", visitor.titles("update"))

    def test_the_schemas_can_be_had(self):
        for name in ("order", "payment-request"):
            with urllib.request.urlopen(f"{URL}/{name}.schema.json", timeout=10) as response:
                self.assertIn(f"/{name}.schema.json", json.load(response)["$id"])

    def test_an_invalid_text_is_marked_and_turns_the_button_off(self):
        visitor = self.visit()
        page = visitor.page
        cases = [
            ("Payment request", '{\n  "countryCode": "US"\n  "x": 1\n}', 3),
            ("Payment request", '{"countryCode": "US",\n"currencyCode": "dollar"}', 2),
            ("Order", '{\n  "createdAt": "2025-03-03T09:14:27Z",\n  "status": "teleported"\n}', 3),
            ("Order details", '{\n"orderIdentifier": "mine"}', 2),
        ]
        button = visitor.inside("order", "apple-pay-button")
        area = visitor.inside("order", "textarea")
        for editor, text, line in cases:
            with self.subTest(editor=editor, text=text):
                visitor.ready("order")
                visitor.choose("order", editor)
                own = page.evaluate(f"{area}.value")
                page.type(area, text)
                page.wait(f"{button}.hasAttribute('disabled') && {visitor.block('order')}.querySelector('.gutter .bad')")
                bad = page.evaluate(f"[...{visitor.block('order')}.querySelectorAll('.gutter .bad')].map((one) => one.textContent)")
                self.assertIn(str(line), bad)
                self.assertIn(f"line {line}", page.evaluate(
                    f"{visitor.block('order')}.querySelector('.action .verdict').textContent + "
                    f"{visitor.inside('order', '.problems')}.textContent.toLowerCase()"))
                page.type(area, own)
                visitor.ready("order")

    def test_a_broken_address_never_fails_a_payment(self):
        for api in ("applepay", "payment-request"):
            with self.subTest(api):
                visitor = self.visit()
                visitor.choose_api(api)
                visitor.choose("order", "Order details")
                visitor.page.click(visitor.inside("order", ".check input"))
                visitor.page.wait(f"!{visitor.inside('order', 'textarea')}.value.includes('https://')")
                self.assertIsNone(visitor.pay("order"))
                self.assertIn("refused the order details", visitor.page.evaluate(
                    f"{visitor.inside('order', '.verdict')}.textContent"))
                self.assertTrue(any("TypeError" in str(entry["detail"]) for entry in visitor.page.evaluate(
                    "waybill.polyfill.transcript.filter(({detail}) => detail)")))

    def test_a_browser_without_apple_pay_is_told(self):
        visitor = self.visit(blocked=["*polyfill.js"])
        for name in ("receipt", "order"):
            text = visitor.page.evaluate(f"{visitor.block(name)}.textContent")
            self.assertIn("no Apple Pay on the web: use Safari", text)
        self.assertIsNone(visitor.page.evaluate("document.querySelector('apple-pay-button')"))

    def test_sessions_do_not_see_each_other(self):
        first = self.visit()
        order = first.pay("order")
        first.in_device(order)
        with chromium.Browser() as browser:
            second = self.visit(browser)
            self.assertEqual(second.page.evaluate("document.querySelectorAll('.pass').length"), 0)
            self.assertEqual(second.page.evaluate(f"fetch('/playground/orders/{order}').then(({{status}}) => status)"), 404)

    def test_writes_need_the_session_and_the_page_s_origin(self):
        import urllib.error
        import urllib.request
        base = URL.removesuffix("/playground")
        for headers, status in (({}, 403), ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403),
                                ({"Origin": base}, 401)):
            request = urllib.request.Request(
                base + "/playground/orders", data=b"{}", method="POST", headers={"Content-Type": "application/json", **headers})
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request)
            caught.exception.close()
            self.assertEqual(caught.exception.code, status, headers)

    def test_the_generated_source_works_when_it_is_pasted(self):
        visitor = self.visit()
        page = visitor.page
        page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
                  origin=URL.removesuffix("/playground"))
        sources = {}
        for api in ("applepay", "payment-request"):
            visitor.choose_api(api)
            visitor.tab("order", "Source")
            code = f"{visitor.block('order')}.querySelector('[data-source=JavaScript]')"
            word = "new PaymentRequest(" if api == "payment-request" else "new ApplePaySession("
            page.wait(f"{code} && {code}.textContent.includes('{word}')")
            for title in ("HTML", "JavaScript", "Server"):
                shown = page.evaluate(f"{visitor.block('order')}.querySelector('[data-source={title}]').textContent")
                page.click(f"{visitor.block('order')}.querySelector('[data-source={title}]').previousElementSibling"
                           ".querySelector('button')")
                page.wait(f"{visitor.block('order')}.querySelector('[data-source={title}]').previousElementSibling"
                          ".textContent.includes('Copied')")
                self.assertEqual(page.evaluate("navigator.clipboard.readText()"), shown)
                sources[api, title] = shown
            visitor.tab("order", "Try")
        for api in ("applepay", "payment-request"):
            with self.subTest(api):
                self.run_source(sources[api, "HTML"], sources[api, "JavaScript"])

    def run_source(self, html, script):
        shop = shops.Shop()
        self.addCleanup(shop.close)
        # Only Apple's script is replaced, by the polyfill.
        own = '<script src="/applepay/polyfill.js" data-wallet="/wallet"></script>'
        start, end = html.index("<script async"), html.index("</script>") + len("</script>")
        shop.pages["/"] = html[:start] + own + html[end:]
        shop.scripts["/checkout.mjs"] = script
        shop.answers["POST /pay"] = (200, {"status": "success", "orderDetails": shops.DETAILS})
        page = self.browser.page()
        self.addCleanup(page.close)
        page.open(shop.url + "/")
        page.click(chromium.main_page_button())
        page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
        page.click(chromium.sheet(".pay"))
        page.wait("waybill.polyfill.transcript.some(({title}) => title === 'the device took the details')")
        self.assertEqual(shop.asked("/wallet")[0][2]["orderDetails"], shops.DETAILS)
        self.assertEqual(page.complaints, [])


if __name__ == "__main__":
    unittest.main()
