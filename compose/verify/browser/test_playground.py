"""The playground, in Chromium, at WAYBILL_PLAYGROUND_URL: python3 -m unittest test_playground, in this folder.

Screenshots go to WAYBILL_SCREENSHOTS if that is set.
"""
import json
import os
import re
import unittest
import urllib.request

import chromium
import shop as shops
from playground import Visitor

URL = os.environ.get("WAYBILL_PLAYGROUND_URL", "http://127.0.0.1:8090/playground")


def contrast(first, second):
    """Returns the ratio of two opaque colours as `rgb(…)`. Source: WCAG 2.2, contrast ratio."""
    def luminance(colour):
        values = [int(one) / 255 for one in re.findall(r"\d+", colour)[:3]]
        linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in values]
        return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear))
    bright, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


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

    def test_line_numbers_scroll_with_the_text(self):
        visitor = self.visit()
        page = visitor.page
        visitor.choose("order", "Order")
        visitor.ready("order")
        area, gutter = visitor.inside("order", "textarea"), visitor.inside("order", ".gutter")
        lines = page.evaluate(f"{area}.value.split('\\n').length")
        self.assertGreater(lines, 40)
        # The last line but three is wrong: its number is beside it, marked, and in the window of the editor.
        page.evaluate(f"(() => {{ const a = {area}; const lines = a.value.split('\\n'); lines[{lines - 6}] = '  x';"
                      " a.value = lines.join('\\n'); a.dispatchEvent(new Event('input')); })()")
        page.wait(f"{gutter}.querySelector('.bad')")
        page.click(f"{visitor.inside('order', '.problems')}.querySelector('button')")
        page.wait(f"{area}.scrollTop > 0 && {gutter}.scrollTop === {area}.scrollTop")
        line = int(page.evaluate(f"{gutter}.querySelector('.bad').textContent"))
        bad, box = page.box(f"{gutter}.querySelector('.bad')"), page.box(area)
        height = page.evaluate(f"parseFloat(getComputedStyle({area}).lineHeight)")
        text = box["y"] + 14 + (line - 1) * height - page.evaluate(f"{area}.scrollTop")
        self.assertAlmostEqual(bad["y"], text, delta=2)
        self.assertGreaterEqual(bad["y"], box["y"])
        self.assertLessEqual(bad["y"] + bad["height"], box["y"] + box["height"])
        page.evaluate(f"{area}.scrollTop = {area}.scrollHeight")
        page.wait(f"Math.abs({gutter}.scrollTop - {area}.scrollTop) < 1 && {area}.scrollTop > 100")

    def test_problems_are_told_in_the_order_of_their_lines_and_once(self):
        visitor = self.visit()
        page = visitor.page
        visitor.ready("order")
        self.assertEqual(page.evaluate(f"{visitor.inside('order', 'textarea')}.getAttribute('aria-invalid')"), "false")
        page.type(visitor.inside("order", "textarea"), '{\n"total": {"label": "", "amount": "x"},\n"countryCode": "zz"\n}')
        page.wait(f"{visitor.inside('order', 'textarea')}.getAttribute('aria-invalid') === 'true'")
        told = page.evaluate(f"[...{visitor.inside('order', '.problems')}.querySelectorAll('button')].map((one) => one.textContent)")
        lines = [int(text.split(",")[0].removeprefix("Line ")) for text in told]
        self.assertEqual(lines, sorted(lines))
        self.assertGreater(lines[-1], lines[0])
        verdict = page.evaluate(f"{visitor.inside('order', '.verdict')}.textContent")
        self.assertNotIn(told[0].split(": ", 1)[1], verdict)
        described = page.evaluate(
            f"{visitor.inside('order', 'textarea')}.getAttribute('aria-describedby').split(' ')"
            ".map((name) => document.getElementById(name).textContent).join(' ')")
        self.assertIn("problems", described)
        self.assertIn("Escape, then Tab", described)

    def test_a_network_that_waybill_does_not_know_is_a_matter_of_advice(self):
        visitor = self.visit()
        page = visitor.page
        visitor.ready("order")
        area = visitor.inside("order", "textarea")
        text = page.evaluate(f"{area}.value").replace('"masterCard"', '"mastercard"')
        page.type(area, text)
        page.wait(f"{visitor.inside('order', '.problems .advice')}?.textContent.includes('did you mean \"masterCard\"')")
        self.assertEqual(page.evaluate(f"{area}.getAttribute('aria-invalid')"), "false")
        visitor.ready("order")

    def test_the_editor_can_be_left_with_the_keyboard(self):
        visitor = self.visit()
        page = visitor.page
        visitor.ready("order")
        page.evaluate(f"{visitor.inside('order', 'textarea')}.focus()")
        self.assertEqual(page.evaluate(f"getComputedStyle({visitor.inside('order', '.hint')}).visibility"), "visible")
        page.press("Tab")
        self.assertEqual(page.evaluate("document.activeElement.tagName"), "TEXTAREA")
        page.press("Escape")
        page.press("Tab")
        self.assertNotEqual(page.evaluate("document.activeElement.tagName"), "TEXTAREA")

    def test_a_payment_and_an_update_with_the_keyboard_alone(self):
        visitor = self.visit()
        page = visitor.page
        visitor.ready("order")
        page.evaluate(f"{visitor.inside('order', '[role=tab]')}.focus()")
        page.tab_to("document.activeElement.tagName === 'APPLE-PAY-BUTTON' && document.activeElement.closest('.block')"
                    f" === {visitor.block('order')}")
        page.press("Enter")
        page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
        # The sheet keeps the keyboard.
        for _ in range(6):
            page.press("Tab")
            self.assertEqual(page.evaluate("document.activeElement.hasAttribute('data-waybill-sheet')"), True)
        page.wait_focus(chromium.sheet(".pay"))
        page.press("Enter")
        page.wait(f"{visitor.inside('order', '.verdict')}.textContent.startsWith('Paid')")
        page.wait("document.querySelector('.orders input:not(:disabled)')")
        page.evaluate(f"{visitor.inside('update', '[role=tab]')}.focus()")
        page.wait("!document.querySelector('[data-waybill-sheet]')")
        self.assertEqual(page.evaluate("document.activeElement.getAttribute('role')"), "tab", "the sheet leaves the focus there")
        page.tab_to("document.activeElement.name === 'order'")
        page.press(" ")
        page.wait("!document.querySelector('#update-button').disabled")
        page.tab_to("document.activeElement.textContent === 'Next status'")
        page.press("Enter")
        page.wait("!document.querySelector('#update-button').disabled")
        page.tab_to("document.activeElement.id === 'update-button'")
        page.press("Enter")
        page.wait(f"{visitor.inside('update', '.verdict')}.textContent.includes('is signed')")

    def test_the_focus_stays_while_the_page_is_drawn_again(self):
        visitor = self.visit()
        page = visitor.page
        visitor.ready("order")
        page.evaluate(f"{visitor.inside('order', '.choices button:last-child')}.focus()")
        page.press("Enter")
        self.assertEqual(page.evaluate("document.activeElement.textContent"), "Order")
        page.wait("document.activeElement.getAttribute('aria-pressed') === 'true'")
        order = visitor.pay("order")
        visitor.in_device(order)
        visitor.wait_titles("order", "Registers for updates: 201")
        visitor.tab("order", "Transcript")
        page.evaluate(f"{visitor.inside('order', '.entries summary')}.focus()")
        page.press("Enter")
        text = f"{visitor.inside('order', '.entries pre')}.textContent"
        page.wait(f"{text}.includes('currencyCode')")
        before = len(visitor.titles("order"))
        page.evaluate(f"fetch('/playground/orders/{order}/notify', {{ method: 'POST' }})")
        page.wait(f"{visitor.all_titles('order')}.length > {before}")
        self.assertEqual(page.evaluate("document.activeElement.textContent.includes('The payment sheet opens')"), True)
        self.assertTrue(page.evaluate("document.activeElement.parentElement.open"))
        # Secrets are shown on request only, also in an entry that is open.
        told = (f"[...{visitor.block('order')}.querySelectorAll('.entries li')]"
                ".find((one) => one.textContent.includes('Registers'))")
        page.evaluate(f"{told}.querySelector('summary').click()")
        page.wait(f"/AppleOrder \\S{{4}}…/.test({told}.textContent)")
        for length in ("{32}\\s", "{4}…"):
            page.evaluate(f"{visitor.block('order')}.querySelector('.tools input[type=checkbox]').click()")
            page.wait(f"/AppleOrder \\S{length}/.test({told}.textContent)")

    def test_everything_has_a_role_and_a_name(self):
        visitor = self.visit()
        visitor.in_device(visitor.pay("order"))
        for tab in ("Transcript", "Source"):
            visitor.tab("order", tab)
            tree = visitor.page.accessibility()
            nameless = [node for node in tree if not node["name"] and (node["isFocusable"] or node["role"] in (
                "tablist", "tabpanel", "navigation", "article", "dialog", "region"))]
            self.assertEqual(nameless, [])
            self.assertIn("Create an order with status", [node["name"] for node in tree if node["role"] == "tablist"])
            self.assertTrue(any(re.fullmatch(r"Transcript \d+", node["name"]) for node in tree if node["role"] == "tab"))
            headings = [node["level"] for node in tree if node["role"] == "heading"]
            self.assertEqual(headings[0], 1)
            for before, level in zip(headings, headings[1:]):
                self.assertLessEqual(level, before + 1, headings)
            invalid = {node["name"]: node["invalid"] for node in tree if node["role"] == "textbox" and "invalid" in node}
            self.assertEqual(set(invalid.values()), {"false"})

    def test_the_pay_button_can_be_seen_light_and_dark(self):
        visitor = self.visit()
        page = visitor.page
        for scheme in ("light", "dark", "light"):
            page.look(1280, 900, scheme)
            with self.subTest(scheme):
                word = "white" if scheme == "dark" else "black"
                page.wait(f"[...document.querySelectorAll('apple-pay-button')].every("
                          f"(one) => one.getAttribute('buttonstyle') === '{word}')")
                button = f"{visitor.inside('order', 'apple-pay-button')}.shadowRoot.querySelector('button')"
                page.wait(f"{button}")
                colours = page.evaluate(
                    f"[getComputedStyle({button}).backgroundColor, getComputedStyle({visitor.block('order')}).backgroundColor,"
                    f" getComputedStyle({button}).color]")
                self.assertGreater(contrast(colours[0], colours[1]), 10, colours)
                self.assertGreater(contrast(colours[0], colours[2]), 10, colours)

    def test_all_texts_can_be_read_light_and_dark(self):
        visitor = self.visit()
        page = visitor.page
        visitor.in_device(visitor.pay("receipt"))
        order = visitor.pay("order")
        visitor.in_device(order)
        visitor.select(order)
        visitor.update("Next status")
        visitor.choose("receipt", "Order")
        page.type(visitor.inside("receipt", "textarea"), '{"status": "teleported"}')
        page.wait(f"{visitor.inside('receipt', '.problems')}.children.length > 0")
        visitor.press("update", "Remove the order …")
        for tab in ("Try", "Transcript", "Source"):
            visitor.tab("order", tab)
            page.evaluate(f"{visitor.block('order')}.querySelectorAll('details').forEach((one) => {{ one.open = true; }})")
            for scheme in ("light", "dark"):
                with self.subTest(tab=tab, scheme=scheme):
                    page.look(1280, 900, scheme)
                    page.wait("document.getAnimations().every((one) => one.playState !== 'running')")
                    self.assertEqual(page.pale_texts(), {})

    def test_the_colours_change_without_another_button(self):
        visitor = self.visit()
        page = visitor.page
        visitor.ready("order")
        page.evaluate(f"window.kept = {visitor.inside('order', 'apple-pay-button')}")
        for scheme in ("dark", "light", "dark"):
            page.look(1280, 900, scheme)
        page.wait(f"{visitor.inside('order', 'apple-pay-button')}.getAttribute('buttonstyle') === 'white'")
        self.assertTrue(page.evaluate(f"window.kept === {visitor.inside('order', 'apple-pay-button')}"))
        self.assertEqual(page.evaluate(f"{visitor.inside('order', '.pay')}.children.length"), 1)

    def test_the_header_lets_nothing_shine_through(self):
        for scheme in ("light", "dark"):
            visitor = self.visit()
            visitor.page.look(390, 844, scheme)
            colour = visitor.page.evaluate("getComputedStyle(document.querySelector('.bar')).backgroundColor")
            self.assertRegex(colour, r"^rgb\(")
            # On a phone the steps can be reached, and an empty device takes no room.
            self.assertTrue(visitor.page.evaluate(
                "[...document.querySelectorAll('.bar nav a')].every((one) => one.getBoundingClientRect().width > 0)"))
            self.assertEqual(visitor.page.evaluate("document.querySelector('aside').getBoundingClientRect().height"), 0)
            self.assertTrue(visitor.page.evaluate(
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth"))

    def test_the_transcript_of_an_order_is_whole_and_its_own(self):
        visitor = self.visit()
        receipt = visitor.pay("receipt")
        visitor.in_device(receipt)
        order = visitor.pay("order")
        visitor.in_device(order)
        visitor.wait_titles("order", "Registers for updates: 201")
        visitor.wait_titles("order", "Fetches the order: 200")
        visitor.wait_titles("receipt", "Fetches the order: 200")
        self.assertNotIn("Registers for updates: 201", visitor.titles("receipt"))
        visitor.select(order)
        visitor.wait_titles("update", "Registers for updates: 201")
        titles = visitor.titles("update")
        self.assertEqual(titles.count("Fetches the order: 200"), 1, "that of the receipt is not among them")
        self.assertIn("Answer: the total with this payment method", visitor.titles("order"))
        ways = visitor.page.evaluate(
            f"[...{visitor.block('order')}.querySelectorAll('.entries li')].filter((one) => one.textContent"
            ".includes('Answer: ')).map((one) => one.querySelector('.way').textContent)")
        self.assertEqual(set(ways), {"page → browser"})
        # The transcript is there after the page was loaded again.
        again = Visitor(visitor.page, URL)
        again.wait_titles("order", "Registers for updates: 201")
        self.assertNotIn("Registers for updates: 201", again.titles("receipt"))

    def test_the_list_shows_the_version_that_the_device_shows(self):
        visitor = self.visit()
        order = visitor.pay("order")
        visitor.in_device(order)
        visitor.select(order)
        for version in (1, 2):
            listed = f"document.querySelector('.orders input[value=\"{order}\"]').parentElement.textContent"
            shown = f"document.querySelector('[data-order=\"{order}\"]').textContent"
            visitor.page.wait(f"{listed}.includes('version {version} ·') && {shown}.includes('version {version}')")
            if version == 1:
                visitor.update("Next status")
        # The text begins as the example does, and not with the first letter of the alphabet.
        text = visitor.page.evaluate(f"{visitor.inside('update', 'textarea')}.value")
        self.assertEqual(list(json.loads(text))[:3], ["orderNumber", "createdAt", "status"])

    def test_the_steps_show_the_real_package_and_the_real_exchanges(self):
        visitor = self.visit()
        page = visitor.page
        self.assertTrue(page.evaluate("document.querySelector('#unregister-button').disabled"))
        order = visitor.pay("order")
        visitor.in_device(order)
        page.wait("document.querySelector('#package-note').textContent.includes('verified')")
        manifest = json.loads(page.evaluate("document.querySelector('#package-code').textContent"))
        self.assertIn("order.json", manifest)
        for digest in manifest.values():
            self.assertRegex(digest, "^[0-9a-f]{64}$")
        files = page.evaluate("document.querySelector('#package-files').textContent")
        for name in ("manifest.json", "signature", "order.json"):
            self.assertIn(name, files)
        page.wait("document.querySelector('#register-code').textContent.includes('201')")
        self.assertIn(order, page.evaluate("document.querySelector('#register-code').textContent"))
        page.wait("!document.querySelector('#unregister-button').disabled")
        page.click("document.querySelector('#unregister-button')")
        page.wait(f"document.querySelector('#unregister-code').textContent.includes('{order}')")
        page.wait(f"document.querySelector('[data-order=\"{order}\"]').textContent.includes('No updates')")
        visitor.wait_titles("order", "Updates are off")
        self.assertEqual(page.complaints, [])

    def test_an_order_is_removed_after_a_question_only(self):
        visitor = self.visit()
        page = visitor.page
        order = visitor.pay("order")
        visitor.in_device(order)
        visitor.select(order)
        row = f"document.querySelector('.orders input[value=\"{order}\"]')"
        visitor.press("update", "Remove the order …")
        self.assertEqual(page.evaluate("document.activeElement.textContent"), "Keep")
        page.press("Escape")
        self.assertTrue(page.evaluate(f"{visitor.inside('update', '.removal')}.hidden && Boolean({row})"))
        visitor.press("update", "Remove the order …")
        visitor.press("update", "Remove")
        page.wait(f"!{row}")

    def test_a_broken_address_never_fails_a_payment(self):
        for api in ("applepay", "payment-request"):
            with self.subTest(api):
                visitor = self.visit()
                visitor.choose_api(api)
                visitor.choose("order", "Order details")
                visitor.page.click(visitor.inside("order", ".break input"))
                visitor.page.wait(f"!{visitor.inside('order', 'textarea')}.value.includes('https://')")
                self.assertIsNone(visitor.pay("order"))
                self.assertIn("refused the order details", visitor.page.evaluate(
                    f"{visitor.inside('order', '.verdict')}.textContent"))
                self.assertEqual(visitor.page.evaluate(
                    f"{visitor.inside('order', '.verdict')}.className"), "verdict warn", "it is no failed payment")
                self.assertTrue(any("TypeError" in str(entry["detail"]) for entry in visitor.page.evaluate(
                    "waybill.polyfill.transcript.filter(({detail}) => detail)")))

    def test_a_browser_without_apple_pay_is_told(self):
        visitor = self.visit(blocked=["*polyfill.js"])
        for name in ("receipt", "order"):
            text = visitor.page.evaluate(f"{visitor.block(name)}.textContent")
            self.assertIn("The stand-in for Apple Pay did not load", text)
            self.assertNotIn("use Safari", text, "Safari has no Apple Pay on http either")
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
                page = self.run_source(sources[api, "HTML"], sources[api, "JavaScript"])
                page.wait("waybill.polyfill.transcript.some(({title}) => title === 'the device took the details')")
                # The version is that of the live sheet.
                self.assertEqual(page.evaluate("waybill.polyfill.transcript.find(({title}) => title === 'begin').detail.version"), 3)
        for api in ("applepay", "payment-request"):
            answers = {
                "declined": (200, {"status": "failure", "errors": [{"code": "unknown", "message": "Declined"}]}),
                "declined with a status": (402, {"status": "failure"}),
                "out of order": (502, "a page of a proxy"), "silent": (200, {}),
            }
            for name, answer in answers.items():
                with self.subTest(api=api, server=name):
                    page = self.run_source(sources[api, "HTML"], sources[api, "JavaScript"], answer)
                    page.wait("waybill.polyfill.transcript.some(({title}) => title === 'complete')")
                    completed = page.evaluate("waybill.polyfill.transcript.filter(({title}) => title === 'complete')")
                    self.assertEqual([one["detail"]["status"] for one in completed], ["failure"])
                    self.assertEqual(page.evaluate(
                        "waybill.polyfill.transcript.some(({title}) => title === 'details handed to the device')"), False)
                    if name == "declined":
                        page.wait(f"({chromium.sheet('.errors.payment')}).textContent === 'Declined'")
                    if name == "out of order":
                        page.wait(f"({chromium.sheet('.errors.payment')}).textContent.includes('not certain')")
            with self.subTest(api=api, customer="cancels"):
                page = self.open_source(sources[api, "HTML"], sources[api, "JavaScript"])
                page.click(chromium.main_page_button())
                page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
                page.click(chromium.sheet(".plain"))
                page.wait("waybill.polyfill.transcript.some(({title}) => title === 'cancel')")
                page.evaluate("new Promise((done) => setTimeout(done))")
                self.assertEqual(page.complaints, [])

    def test_the_source_of_a_receipt_makes_a_receipt(self):
        visitor = self.visit()
        page = visitor.page
        visitor.choose("receipt", "Order")
        self.assertIsNone(json.loads(page.evaluate(f"{visitor.inside('receipt', 'textarea')}.value"))["webServiceURL"])
        for block, has in (("receipt", True), ("order", False)):
            visitor.tab(block, "Source")
            server = f"{visitor.block(block)}.querySelector('[data-source=Server]')"
            page.wait(server)
            self.assertEqual('"webServiceURL": null' in page.evaluate(f"{server}.textContent"), has)

    def run_source(self, html, script, answer=(200, {"status": "success", "orderDetails": shops.DETAILS})):
        page = self.open_source(html, script, answer)
        page.click(chromium.main_page_button())
        page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
        page.click(chromium.sheet(".pay"))
        if answer[1].__class__ is dict and answer[1].get("status") == "success":
            page.wait("waybill.polyfill.transcript.some(({title}) => title === 'the device took the details')")
            self.assertEqual(self.shop.asked("/wallet")[0][2]["orderDetails"], shops.DETAILS)
            self.assertEqual(page.complaints, [])
        return page

    def open_source(self, html, script, answer=(200, {})):
        shop = self.shop = shops.Shop()
        self.addCleanup(shop.close)
        # Only Apple's script is replaced, by the polyfill.
        own = '<script src="/applepay/polyfill.js" data-wallet="/wallet"></script>'
        start, end = html.index("<script async"), html.index("</script>") + len("</script>")
        shop.pages["/"] = html[:start] + own + html[end:]
        shop.scripts["/checkout.mjs"] = script
        shop.answers["POST /pay"] = answer
        page = self.browser.page()
        self.addCleanup(page.close)
        page.open(shop.url + "/")
        page.wait("customElements.get('apple-pay-button')")
        return page


if __name__ == "__main__":
    unittest.main()
