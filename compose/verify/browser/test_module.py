"""The JS module, its CSS and the polyfill, in Chromium: python3 -m unittest test_module, in this folder."""
import gzip
import json
import re
import unittest

import chromium
import shop as shops

MODULE = """
import * as waybill from "/applepay/waybill.mjs";
window.told = [];
const tell = (name) => (detail) => told.push([name, detail && detail.error
  ? Object.assign({}, detail, { error: `${detail.error.name}: ${detail.error.message}` }) : detail]);
window.waybillModule = waybill;
const options = Object.assign({
  basketIdentifier: "b1", onAuthorised: tell("authorised"), onFailed: tell("failed"), onError: tell("error"),
  onCancelled: tell("cancelled"),
}, window.options);
window.controller = waybill.createController(options);
window.attached = controller.attach(document.querySelector("#pay"));
attached.then((value) => { window.hasButton = value; });
"""


class ModuleTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = chromium.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.shop = shops.Shop()
        self.addCleanup(self.shop.close)

    def open(self, options="", before="", polyfill=True, script=MODULE):
        """Opens a page with the module, after `before` and with `options`, both JavaScript."""
        tag = '<script src="/applepay/polyfill.js" data-wallet="/wallet"></script>' if polyfill else ""
        self.shop.pages["/"] = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Shop</title>'
            f'<script src="/before.js"></script>{tag}<div id="pay" hidden></div>'
            '<script type="module" src="/page.js"></script>')
        self.shop.scripts["/before.js"] = f"{before};\nwindow.options = {{{options}}};"
        self.shop.scripts["/page.js"] = script
        page = self.browser.page()
        self.addCleanup(page.close)
        page.open(self.shop.url + "/")
        return page

    def pay(self, page):
        page.wait("window.hasButton")
        page.click(chromium.main_page_button())
        page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
        page.click(chromium.sheet(".pay"))

    def told(self, page, name):
        page.wait(f"told.some(([name]) => name === {json.dumps(name)})")
        return [detail for one, detail in page.evaluate("told") if one == name]

    def titles(self, page):
        return [entry["title"] for entry in page.evaluate("waybill.polyfill.transcript")]

    def test_a_payment_hands_its_order_to_the_device(self):
        for api in ("applepay", "payment-request"):
            with self.subTest(api):
                self.shop.requests.clear()
                page = self.open(f"api: '{api}'")
                self.pay(page)
                verdict = self.told(page, "authorised")[0]
                self.assertTrue(verdict["hasTracking"])
                self.assertEqual(verdict["orderIdentifier"], "1")
                page.wait("waybill.polyfill.transcript.some(({title}) => title === 'the device took the details')")
                handed = self.shop.asked("/wallet")[0][2]["orderDetails"]
                self.assertEqual(handed, shops.DETAILS)
                # Before the payment the shop sees the outward part of the postal code, afterwards the whole contact.
                address = self.shop.asked("/applepay/basket/b1/validatepostalcode")[0][2]
                self.assertEqual(address, {"countryCode": "GB", "postalCode": "EC4M", "locality": "London"})
                paid = self.shop.asked("/applepay/payment")[0][2]
                self.assertEqual(paid["basketIdentifier"], "b1")
                self.assertEqual(paid["payment"]["shippingContact"]["emailAddress"], "jane@example.com")
                self.assertEqual(self.shop.asked("/applepay/validate")[0][2], {
                    "validationURL": "https://apple-pay-gateway-cert.apple.com/paymentservices/paymentSession"})
                self.assertEqual(page.complaints, [])

    def test_details_that_the_browser_refuses_never_fail_a_payment(self):
        broken = [("webServiceURL", "shop.example"), ("webServiceURL", ""), ("authenticationToken", None)]
        for api in ("applepay", "payment-request"):
            for name, value in broken:
                with self.subTest(api=api, member=name, value=value):
                    details = dict(shops.DETAILS, **{name: value})
                    if value is None:
                        del details[name]
                    self.shop.answers["POST /applepay/payment"] = (
                        200, {"status": "success", "orderIdentifier": "1", "orderDetails": details})
                    page = self.open(f"api: '{api}'")
                    self.pay(page)
                    self.assertFalse(self.told(page, "authorised")[0]["hasTracking"])
                    error = self.told(page, "error")[0]
                    self.assertEqual(error["stage"], "tracking")
                    self.assertIn("TypeError", error["error"])
                    self.assertIn("complete", self.titles(page))

    def test_sessions_before_version_3_get_a_number(self):
        page = self.open(before="window.results = []", script="""
            import { completeSafely } from "/applepay/waybill.mjs";
            document.querySelector("#pay").hidden = false;
            document.querySelector("#pay").textContent = "pay";
            document.querySelector("#pay").addEventListener("click", () => {
              const session = new ApplePaySession(2, REQUEST);
              session.onvalidatemerchant = async () => session.completeMerchantValidation(
                await (await fetch("/applepay/validate", { method: "POST" })).json());
              session.onpaymentauthorized = () => {
                const complete = session.completePayment.bind(session);
                session.completePayment = (value) => { results.push(value); complete(value); };
                completeSafely(session, { status: "failure" }, { version: 2 });
                results.push("done");
              };
              session.begin();
            });
            window.ready = true;
            """.replace("REQUEST", json.dumps(shops.REQUEST)))
        page.wait("window.ready")
        page.click("document.querySelector('#pay')")
        page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
        page.click(chromium.sheet(".pay"))
        page.wait("results.includes('done')")
        self.assertEqual(page.evaluate("results"), [1, "done"])
        last = page.evaluate("waybill.polyfill.transcript.filter(({title}) => title === 'complete').pop()")
        self.assertEqual(last["detail"]["status"], "failure")

    def test_a_session_exists_only_inside_a_gesture(self):
        page = self.open()
        page.wait("window.hasButton")
        page.evaluate("document.querySelector('apple-pay-button').click()")
        error = self.told(page, "error")[0]
        self.assertEqual(error["stage"], "begin")
        self.assertIn("InvalidAccessError", error["error"])
        # The button still works afterwards.
        self.pay(page)
        self.told(page, "authorised")
        late = self.open(script="""
            document.querySelector("#pay").hidden = false;
            document.querySelector("#pay").textContent = "pay";
            document.querySelector("#pay").addEventListener("click", async () => {
              await fetch("/applepay/metadata");
              try { new ApplePaySession(3, REQUEST); window.result = "made"; } catch (error) { window.result = error.name; }
            });
            window.ready = true;
            """.replace("REQUEST", json.dumps(shops.REQUEST)))
        late.wait("window.ready")
        late.click("document.querySelector('#pay')")
        self.assertEqual(late.wait("window.result"), "InvalidAccessError")

    def test_an_unknown_outcome_is_told_and_a_certain_one_too(self):
        cases = [(504, "outcome_unknown", "unknown"), (502, "upstream_unavailable", "none"), (422, "order_invalid", "none")]
        for status, code, outcome in cases:
            with self.subTest(code):
                self.shop.answers["POST /applepay/payment"] = (status, {"error": {"code": code, "message": "x"}})
                page = self.open()
                self.pay(page)
                self.assertEqual(self.told(page, "failed")[0]["outcome"], outcome)
                self.assertEqual(self.told(page, "error")[0]["outcome"], outcome)

    def test_an_answer_that_never_comes_ends_as_unknown(self):
        # From the payment on, timers run 200 times as fast.
        page = self.open("""authorise: (payment, { signal }) => {
            const slow = window.setTimeout;
            window.setTimeout = (work, time) => slow(work, (time || 0) / 200);
            return new Promise(() => { signal.onabort = () => told.push(["aborted", null]); }); }""")
        page.wait("window.hasButton")
        page.evaluate("waybill.polyfill.timeScale = 100; waybill.polyfill.script(['pay'])")
        page.click(chromium.main_page_button())
        self.assertEqual(self.told(page, "failed")[0]["outcome"], "unknown")
        self.told(page, "aborted")

    def test_the_shop_s_verdict_counts_after_the_sheet_was_closed(self):
        page = self.open("authorise: () => new Promise((resolve) => { window.verdict = resolve; })")
        self.pay(page)
        page.wait("Boolean(window.verdict)")
        page.click(chromium.sheet(".plain"))
        self.assertTrue(self.told(page, "cancelled")[0]["isCharging"])
        page.evaluate("verdict({ status: 'success', orderIdentifier: '7' })")
        self.assertEqual(self.told(page, "authorised")[0]["orderIdentifier"], "7")

    def test_a_refused_merchant_closes_the_sheet(self):
        self.shop.answers["POST /applepay/validate"] = (502, {"error": {"code": "merchant_session_refused"}})
        page = self.open()
        page.wait("window.hasButton")
        page.click(chromium.main_page_button())
        self.assertEqual(self.told(page, "error")[0]["stage"], "merchant")
        page.wait("!document.querySelector('[data-waybill-sheet]')")
        self.assertIn("abort", self.titles(page))

    def test_browsers_without_apple_pay_get_no_button_and_no_css(self):
        shapes = {
            "no API": "",
            "static calls that throw": "window.ApplePaySession = { canMakePayments() { throw new Error('x'); } }",
            "no card reader": "window.ApplePaySession = { canMakePayments: () => false }",
            "version 2": "window.ApplePaySession = { canMakePayments: () => true, supportsVersion: (n) => n < 3 }",
        }
        for name, before in shapes.items():
            with self.subTest(name):
                self.shop.requests.clear()
                page = self.open(before=before, polyfill=False)
                page.wait("window.hasButton === false")
                self.assertFalse(page.evaluate("waybillModule.isSupportedByDevice()"))
                self.assertTrue(page.evaluate("document.querySelector('#pay').hidden"))
                self.assertEqual(self.shop.asked("/applepay/metadata"), [])
                self.assertEqual(self.shop.asked("/applepay/waybill.css"), [])
                self.assertEqual(page.complaints, [])

    def test_css_icons_and_nothing_else_come_with_support(self):
        page = self.open()
        page.wait("window.hasButton")
        links = page.evaluate("[...document.querySelectorAll('link')].map((link) => link.rel)")
        self.assertEqual(sorted(links), ["apple-touch-icon", "stylesheet"])
        self.assertEqual(page.evaluate("Object.keys(window.waybill)"), ["polyfill"])
        # Without a system button the CSS, which may still be loading, draws nothing.
        page.evaluate("""(() => {
            const button = document.body.appendChild(document.createElement("button"));
            button.className = "waybill-apple-pay"; })()""")
        page.wait("getComputedStyle(document.body.lastChild).display === 'none'")

    def test_a_merchant_that_is_off_or_a_basket_that_is_gone_has_no_button(self):
        for path, answer in (("GET /applepay/metadata", (200, {"enabled": False})),
                             ("GET /applepay/basket/b1", (404, {"error": {"code": "not_found"}}))):
            with self.subTest(path):
                before = self.shop.answers[path]
                self.shop.answers[path] = answer
                self.open().wait("window.hasButton === false")
                self.shop.answers[path] = before

    def test_versions_are_the_lowest_that_fit(self):
        page = self.open()
        page.wait("window.hasButton")
        table = [({}, 3), ({"total": {"label": "x", "amount": "0.00"}}, 4), ({"supportedNetworks": ["visa", "elo"]}, 5),
                 ({"couponCode": "x"}, 12), ({"multiTokenContexts": []}, 14), ({"deferredPaymentRequest": {}}, 15),
                 ({"applePayLaterAvailability": "available"}, 3), ({"supportedNetworks": ["visa", "pagoBancomat"]}, 3)]
        for change, version in table:
            request = json.dumps(dict(shops.REQUEST, **change))
            self.assertEqual(page.evaluate(f"waybillModule.requiredVersion({request})"), version, change)

    def test_networks_that_apple_adds_need_no_release(self):
        # A browser that knows networks up to its version only, and refuses others with a TypeError, as WebKit does.
        browser = """
            window.made = [];
            window.ApplePaySession = class {
              static canMakePayments() { return true; }
              static supportsVersion(version) { return version <= window.highest; }
              constructor(version, request) {
                made.push([version, request.supportedNetworks]);
                for (const name of request.supportedNetworks) {
                  if (!window.known.includes(name)) throw new TypeError(`"${name}" is not a valid payment network.`);
                }
              }
              begin() { window.begun = true; }
            };"""
        cases = [
            # highest version, known networks, request, expected attempts
            (16, ["visa", "cometPay"], ["visa", "cometPay"], [[16, ["visa", "cometPay"]]]),
            (14, ["visa"], ["visa", "cometPay"], [[14, ["visa", "cometPay"]], [3, ["visa"]]]),
            (15, ["visa", "bankAxept"], ["visa", "bankAxept"], [[15, ["visa", "bankAxept"]]]),
            (14, ["visa"], ["visa", "bankAxept"], [[3, ["visa"]]]),
        ]
        for highest, known, networks, attempts in cases:
            with self.subTest(highest=highest, networks=networks):
                request = json.dumps(dict(shops.REQUEST, supportedNetworks=networks))
                page = self.open(
                    f"request: () => ({request})", polyfill=False,
                    before=f"window.highest = {highest}; window.known = {json.dumps(known)}; {browser}")
                page.wait("window.hasButton")
                page.evaluate("document.querySelector('#pay button').click()")
                page.wait("window.begun")
                self.assertEqual(page.evaluate("made"), attempts)
        nothing = json.dumps(dict(shops.REQUEST, supportedNetworks=["bankAxept"]))
        page = self.open(f"request: () => ({nothing})", polyfill=False,
                         before=f"window.highest = 14; window.known = []; {browser}")
        page.wait("window.hasButton")
        page.evaluate("document.querySelector('#pay button').click()")
        self.assertIn("too old", self.told(page, "error")[0]["error"])

    def test_an_update_of_the_shop_arrives_whole(self):
        item = {"label": "Lamp", "amount": "19.99"}
        methods = [{"identifier": "post", "label": "Post", "detail": "", "amount": "5.00"},
                   {"identifier": "bike", "label": "Bike", "detail": "", "amount": "9.00"}]
        update = {"newTotal": {"label": "Shop", "amount": "24.99"}, "newShippingMethods": methods,
                  "newLineItems": [item, {"label": "Post", "amount": "5.00"}]}
        self.shop.answers["POST /applepay/basket/b1/validatepostalcode"] = (200, dict(update, errors=[]))
        for api in ("applepay", "payment-request"):
            with self.subTest(api):
                page = self.open(f"api: '{api}'")
                page.wait("window.hasButton")
                page.click(chromium.main_page_button())
                page.wait("waybill.polyfill.transcript.some(({title}) => title === 'answer to shippingcontactselected')")
                told = page.evaluate(
                    "waybill.polyfill.transcript.find(({title}) => title === 'answer to shippingcontactselected').detail")
                self.assertEqual(told["newTotal"], update["newTotal"])
                self.assertEqual(told["newLineItems"], update["newLineItems"])
                self.assertEqual(told["newShippingMethods"], methods)

    def test_what_only_apple_pay_shows_is_in_the_modifier(self):
        plain = {"identifier": "post", "label": "Post", "detail": "", "amount": "5.00"}
        ranged = {"identifier": "bike", "label": "Bike", "detail": "Today", "amount": "9.00",
                  "dateComponentsRange": {"startDateComponents": {"hours": 2}, "endDateComponents": {"hours": 4}}}
        billing = {"label": "Bulbs", "amount": "4.00", "paymentTiming": "recurring"}
        request = dict(
            shops.REQUEST, shippingMethods=[plain, ranged, dict(plain, identifier="shop")],
            lineItems=[{"label": "Lamp", "amount": "1.00", "type": "pending"}, billing, {"label": "Tax", "amount": "0.10"}],
            total={"label": "Shop", "amount": "19.99", "paymentTiming": "immediate"},
            recurringPaymentRequest={"paymentDescription": "Bulbs"}, merchantCategoryCode="5411")
        page = self.open()
        page.wait("window.hasButton")
        methods, details, options = page.evaluate(
            f"Object.values(waybillModule.paymentRequestArguments(14, {json.dumps(request)}, 'merchant.x'))")
        self.assertEqual(details["displayItems"], [
            {"label": "Lamp", "amount": {"currency": "GBP", "value": "1.00"}, "pending": True}])
        self.assertEqual(details["shippingOptions"], [
            {"id": "post", "label": "Post", "amount": {"currency": "GBP", "value": "5.00"}, "selected": True}])
        self.assertEqual(details["modifiers"], [{"supportedMethods": "https://apple.com/apple-pay", "data": {
            "recurringPaymentRequest": {"paymentDescription": "Bulbs"}, "total": request["total"],
            # What follows is there too, since browsers append these lists.
            "additionalLineItems": [billing, {"label": "Tax", "amount": "0.10"}],
            "additionalShippingMethods": [
                dict(ranged, selected=False), dict(plain, identifier="shop", selected=False)],
        }}])
        self.assertEqual(methods[0]["data"]["merchantCategoryCode"], "5411")
        self.assertNotIn("recurringPaymentRequest", methods[0]["data"])
        self.assertTrue(options["requestShipping"])
        # A browser before version 13 could not be told which method is selected.
        old = page.evaluate("ApplePaySession.supportsVersion = (version) => version < 13, "
                            f"waybillModule.paymentRequestArguments(12, {json.dumps(request)}, 'merchant.x').details")
        self.assertEqual([option["id"] for option in old["shippingOptions"]], ["post", "bike", "shop"])
        self.assertNotIn("additionalShippingMethods", old["modifiers"][0]["data"])

    def test_an_answer_that_changes_nothing_keeps_the_last_total(self):
        page = self.open("""onContactSelected: async () => ({
              newTotal: { label: "Shop", amount: "24.99" }, newLineItems: [{ label: "Lamp", amount: "24.99" }] }),
            onMethodSelected: async () => undefined""", polyfill=False, before="""
            window.answers = [];
            window.ApplePaySession = class {
              static canMakePayments() { return true; }
              static supportsVersion(version) { return version <= 14; }
              constructor() { window.session = this; }
              begin() { window.begun = true; }
              completeShippingContactSelection(update) { answers.push(update); }
              completePaymentMethodSelection(update) { answers.push(update); }
            };""")
        page.wait("window.hasButton")
        page.evaluate("document.querySelector('#pay button').click()")
        page.wait("window.begun")
        page.evaluate("session.onshippingcontactselected({ shippingContact: {} })")
        page.wait("answers.length === 1")
        page.evaluate("session.onpaymentmethodselected({ paymentMethod: {} })")
        page.wait("answers.length === 2")
        self.assertEqual(page.evaluate("answers[1]"), {
            "newTotal": {"label": "Shop", "amount": "24.99"}, "newLineItems": [{"label": "Lamp", "amount": "24.99"}]})

    def test_a_payment_provider_s_confirmation(self):
        page = self.open()
        page.wait("window.hasButton")
        self.shop.answers["POST /confirm"] = (200, {"id": "pi_1", "order_details": shops.DETAILS})
        session = """{ completePayment(value) { (window.completed = window.completed || []).push(value);
            if (value.orderDetails && window.refuses) throw new TypeError("no"); } }"""
        for refuses in ("false", "true"):
            page.evaluate(f"window.refuses = {refuses}; window.completed = []")
            result = page.evaluate(
                f"waybillModule.confirmPayment({{ confirmURL: '/confirm', elements: {{ session: {session} }},"
                " confirmParams: { apple_pay_order_details: {} } })")
            self.assertEqual(result["paymentIntent"]["id"], "pi_1")
            self.assertEqual(page.evaluate("completed.pop().status"), 0)
        self.assertEqual(page.evaluate("completed.length"), 1)
        self.shop.answers["POST /confirm"] = (402, {"error": {"code": "declined", "message": "declined"}})
        result = page.evaluate(
            f"waybillModule.confirmPayment({{ confirmURL: '/confirm', elements: {{ session: {session} }} }})")
        self.assertEqual(result["error"]["code"], "declined")
        self.assertEqual(page.evaluate("completed.pop().status"), 1)

    def test_a_confirmation_tells_what_is_known(self):
        session = """{ completePayment(value) { window.completed = value; } }"""
        response = """{ methodName: "https://apple.com/apple-pay", async complete(value) { window.completed = value; } }"""
        cases = [
            # what the shop's endpoint answers, the code, the outcome
            ((402, {"error": {"code": "declined", "message": "no"}}), "declined", "none"),
            ((502, {"error": {"code": "upstream_unavailable", "message": "no"}}), "upstream_unavailable", "none"),
            ((504, {"error": {"code": "outcome_unknown", "message": "?"}}), "outcome_unknown", "unknown"),
            ((500, "a page"), "outcome_unknown", "unknown"),
        ]
        for answer, code, outcome in cases:
            for kind, elements in (("session", session), ("response", response)):
                with self.subTest(code=code, kind=kind):
                    self.shop.answers["POST /confirm"] = answer
                    page = self.open()
                    page.wait("window.hasButton")
                    result = page.evaluate(
                        f"waybillModule.confirmPayment({{ confirmURL: '/confirm', elements: {{ session: {elements} }} }})")
                    self.assertEqual((result["error"]["code"], result["error"]["outcome"]), (code, outcome))
                    self.assert_told_to_the_sheet(page, kind, outcome)

    def assert_told_to_the_sheet(self, page, kind, outcome):
        completed = page.evaluate("window.completed")
        if kind == "response":
            self.assertEqual(completed, "fail" if outcome == "none" else "unknown")
            return
        self.assertEqual(completed["status"], 1)
        if outcome == "unknown":
            self.assertEqual([error["code"] for error in completed["errors"]], ["unknown"])
            self.assertIn("not certain", completed["errors"][0]["message"])

    def test_a_confirmation_that_never_comes_ends_as_unknown(self):
        session = "{ completePayment(value) { window.completed = value; } }"
        cases = {
            "never": "window.fetch = (url, { signal }) => new Promise(() => { signal.onabort = () => { window.aborted = true; }; });"
                     "const slow = window.setTimeout; window.setTimeout = (work, time) => slow(work, (time || 0) / 200);",
            "network": "window.fetch = () => Promise.reject(new TypeError('Failed to fetch'));",
        }
        for name, before in cases.items():
            with self.subTest(name):
                page = self.open()
                page.wait("window.hasButton")
                page.evaluate(f"(() => {{ {before} }})()")
                result = page.evaluate(
                    f"waybillModule.confirmPayment({{ confirmURL: '/confirm', elements: {{ session: {session} }} }})")
                self.assertEqual((result["error"]["code"], result["error"]["outcome"]), ("outcome_unknown", "unknown"))
                self.assert_told_to_the_sheet(page, "session", "unknown")
                self.assertEqual(page.evaluate("Boolean(window.aborted)"), name == "never")
        page = self.open()
        page.wait("window.hasButton")
        page.evaluate("document.head.insertAdjacentHTML('beforeend', '<meta name=\"waybill-confirm\" content=\"/confirm\">')")
        self.shop.answers["POST /confirm"] = (200, {"id": "pi_1"})
        self.assertEqual(page.evaluate("waybillModule.confirmPayment({})")["paymentIntent"]["id"], "pi_1")
        self.shop.requests.clear()
        page = self.open()
        page.wait("window.hasButton")
        result = page.evaluate("waybillModule.confirmPayment({})")
        self.assertEqual((result["error"]["code"], result["error"]["outcome"]), ("confirm_url_missing", "none"))
        self.assertEqual(self.shop.asked("/confirm"), [])

    def test_the_track_button_needs_the_shop_s_link(self):
        page = self.open()
        page.wait("window.hasButton")
        for call in ("addToWallet({ orderIdentifier: '1' })", "addToWallet({ link: '/x' })",
                     "addToWallet({ orderIdentifier: '1', link: 'javascript:alert(1)' })"):
            with self.assertRaises(RuntimeError):
                page.evaluate(f"waybillModule.{call}")
        self.shop.pages["/track"] = "<title>tracked</title>"
        page.evaluate("waybillModule.addToWallet({ orderIdentifier: '1', link: async () => '/track' })")
        page.wait("document.title === 'tracked'")

    # What a device with Wallet answers, without Apple's script.
    WALLET = ("window.ApplePaySession = { canMakePayments: () => true, supportsVersion: (n) => n <= 15 };"
              "const supports = CSS.supports; CSS.supports = (...given) => given[1] === '-apple-pay-button' ||"
              " supports.apply(CSS, given)")
    TRACK = """
        import * as waybill from "/applepay/waybill.mjs";
        window.errors = [];
        window.violations = 0;
        document.addEventListener("securitypolicyviolation", () => { window.violations += 1; });
        const element = document.querySelector("#pay");
        element.addEventListener("waybill:error", (event) => errors.push(event.detail.stage));
        waybill.attachTrackButton(element, Object.assign({ orderIdentifier: "1", link: "/track" }, window.options))
          .then((value) => { window.hasButton = value; }, (error) => { window.refused = error.message; });
        """
    CHILD = "document.querySelector('#pay').firstChild?.localName"
    SDK = "customElements.define('apple-wallet-button', class extends HTMLElement {})"

    def test_the_label_of_the_button_says_what_the_eye_reads(self):
        labels = {"": "buy with Apple Pay", "type: 'plain'": "Apple Pay", "type: 'donate'": "donate with Apple Pay",
                  "locale: 'de'": "Apple Pay", "locale: 'de', label: 'Kaufen mit Apple Pay'": "Kaufen mit Apple Pay"}
        for look, label in labels.items():
            with self.subTest(look):
                page = self.open(f"button: {{ {look} }}", before=self.WALLET, polyfill=False)
                page.wait("window.hasButton")
                self.assertEqual(page.evaluate("document.querySelector('#pay button').getAttribute('aria-label')"), label)

    def shown(self, page):
        return page.evaluate("(({ hidden, children: [child] }) => [hidden, child && child.localName])("
                             "document.querySelector('#pay'))")

    def test_the_track_button_is_a_link_without_apple_s_script(self):
        self.shop.pages["/track"] = "<title>tracked</title>"
        for options in ("", "link: async () => '/track'", "sdk: { src: '/missing/apple-pay-sdk.js' }"):
            with self.subTest(options):
                page = self.open(options, before=self.WALLET, polyfill=False, script=self.TRACK)
                page.wait("window.hasButton === true")
                self.assertEqual(self.shown(page), [False, "a"])
                self.assertEqual(page.evaluate("document.querySelector('#pay').textContent"), "Track with Apple Wallet")
                page.evaluate("void document.querySelector('#pay a').focus()")
                page.press("Enter")
                page.wait("document.title === 'tracked'")

    def test_the_track_button_is_apple_s_element_once_its_script_is_there(self):
        self.shop.pages["/track"] = "<title>tracked</title>"
        self.shop.scripts["/1.3.8/apple-pay-sdk.js"] = self.SDK
        page = self.open("sdk: { src: '/1.3.8/apple-pay-sdk.js' }, style: 'white-border', compact: true, locale: 'de-DE'",
                         before=self.WALLET, polyfill=False, script=self.TRACK)
        page.wait("window.hasButton === true")
        page.wait(f"{self.CHILD} === 'apple-wallet-button'")
        self.assertEqual(page.evaluate("Object.fromEntries([...document.querySelector('#pay').firstChild.attributes]"
                                       ".map(({ name, value }) => [name, value]))"),
                         {"buttonstyle": "white-border", "compact": "true", "locale": "de-DE"})
        # Under a hash that is not that of the file a browser runs nothing of it.
        refused = self.open("sdk: { src: '/1.3.8/apple-pay-sdk.js', integrity: 'sha384-AAAA' }",
                            before=self.WALLET, polyfill=False, script=self.TRACK)
        refused.wait("window.hasButton === true")
        self.assertEqual(self.shown(refused), [False, "a"])
        page.evaluate("void document.querySelector('#pay').firstChild.click()")
        page.wait("document.title === 'tracked'")

    def test_the_track_button_s_script_needs_a_line_of_the_policy(self):
        apple = shops.Shop()
        self.addCleanup(apple.close)
        apple.scripts["/apple-pay-sdk.js"] = self.SDK
        for policy, shown in ((shops.POLICY, "a"),
                              (shops.POLICY.replace("script-src 'self'", f"script-src 'self' {apple.url}"),
                               "apple-wallet-button")):
            self.shop.policy = policy
            page = self.open(f"sdk: {{ src: '{apple.url}/apple-pay-sdk.js' }}", before=self.WALLET, polyfill=False,
                             script=self.TRACK)
            page.wait("window.hasButton === true")
            page.wait("violations" if shown == "a" else f"{self.CHILD} === '{shown}'")
            self.assertEqual(self.shown(page), [False, shown])

    def test_the_track_button_is_there_only_where_wallet_has_orders(self):
        shapes = {
            "another browser": "1",
            "Apple's script in another browser": self.WALLET.split(";const")[0],
            "an older Safari": self.WALLET.replace("15", "14"),
        }
        for name, before in shapes.items():
            with self.subTest(name):
                page = self.open("sdk: { src: '/1.3.8/apple-pay-sdk.js' }", before=before, polyfill=False,
                                 script=self.TRACK)
                page.wait("window.hasButton === false")
                self.assertEqual(self.shown(page), [True, None])
                self.assertEqual(self.shop.asked("/1.3.8/apple-pay-sdk.js"), [])

    def test_the_track_button_refuses_what_is_wrong_and_says_what_fails(self):
        for options, message in (("orderIdentifier: ''", "orderIdentifier and link must be there"),
                                 ("link: 'javascript:alert(1)'", "link must be an http or https URL"),
                                 ("link: ''", "orderIdentifier and link must be there")):
            with self.subTest(options):
                page = self.open(options, before=self.WALLET, polyfill=False, script=self.TRACK)
                page.wait("window.refused")
                self.assertEqual(page.evaluate("refused"), message)
        page = self.open("link: async () => { throw new Error('no session'); }", script=self.TRACK)
        page.wait(f"{self.CHILD} === 'apple-wallet-button'")
        page.click("document.querySelector('#pay').firstChild.shadowRoot.querySelector('button')")
        page.wait("errors.length === 1")
        self.assertEqual(page.evaluate("errors"), ["track"])

    def test_a_return_url_is_a_web_address(self):
        page = self.open()
        page.wait("window.hasButton")
        self.shop.answers["POST /confirm"] = (200, {"id": "pi_1"})
        for address in ("javascript:window.ran=1", "data:text/html,x", "https://"):
            result = page.evaluate("waybillModule.confirmPayment({ confirmURL: '/confirm', elements: { session: {"
                                   " completePayment(value) { window.completed = value; } } },"
                                   f" confirmParams: {{ return_url: {json.dumps(address)} }} }})")
            self.assertEqual((result["error"]["code"], result["error"]["outcome"]), ("return_url_invalid", "none"), address)
            self.assertEqual(page.evaluate("completed.status"), 1)
        # It is refused before anything is charged.
        self.assertEqual(self.shop.asked("/confirm"), [])
        self.assertIsNone(page.evaluate("window.ran"))
        self.shop.pages["/thanks"] = "<title>thanks</title>"
        page.evaluate("void waybillModule.confirmPayment({ confirmURL: '/confirm', confirmParams: { return_url: '/thanks' } })")
        page.wait("document.title === 'thanks'")

    def test_the_classic_script_has_one_global(self):
        page = self.open(script="window.hasButton = true")
        before = set(page.evaluate("Object.getOwnPropertyNames(window)"))
        page.evaluate("new Promise((done) => { const script = document.createElement('script');"
                      " script.src = '/applepay/waybill.js'; script.onload = done; document.head.append(script); })")
        self.assertEqual(set(page.evaluate("Object.getOwnPropertyNames(window)")) - before, set())
        self.assertTrue(page.evaluate("waybill.applePay.isSupportedByDevice()"))
        self.assertEqual(page.complaints, [])

    def test_the_polyfill_refuses_other_hosts_and_real_apple_pay(self):
        page = self.open(before="window.ApplePaySession = { canMakePayments: () => false }", script="window.done = true")
        page.wait("window.done")
        self.assertFalse(page.evaluate("Boolean(window.waybill)"))
        other = self.browser.page()
        self.addCleanup(other.close)
        other.call("Page.navigate", url="about:blank")
        source = json.dumps(shops.file("polyfill.js").decode())
        other.evaluate(f"new Function({source})()")
        self.assertFalse(other.evaluate("Boolean(window.ApplePaySession)"))

    def test_the_polyfill_stands_in_where_apple_pay_is_out_of_reach(self):
        # Safari has the class on http://127.0.0.1 as well, where each static call throws.
        page = self.open(before="""window.ApplePaySession = { canMakePayments() {
            throw new DOMException("Trying to call an ApplePaySession API from an insecure context.", "InvalidAccessError");
        } }""")
        self.pay(page)
        self.assertTrue(self.told(page, "authorised")[0]["hasTracking"])

    def test_the_polyfill_checks_requests_and_sessions(self):
        page = self.open()
        page.wait("window.hasButton")
        table = [
            ({"countryCode": "gb"}, "$.countryCode"), ({"currencyCode": "POUND"}, "$.currencyCode"),
            ({"supportedNetworks": []}, "$.supportedNetworks"), ({"supportedNetworks": ["Visa"]}, "$.supportedNetworks[0]"),
            ({"merchantCapabilities": ["supportsEMV"]}, "$.merchantCapabilities"),
            ({"total": {"label": "", "amount": "1"}}, "$.total.label"),
            ({"total": {"label": "x", "amount": "-1"}}, "$.total.amount"),
            ({"lineItems": [{"label": "x"}]}, "$.lineItems[0].amount"),
            ({"shippingMethods": [{"label": "a", "detail": "", "identifier": "1", "amount": "1"}] * 2},
             "$.shippingMethods[1].identifier"),
            ({"shippingMethods": [{"label": "a", "identifier": "1", "amount": "1"}]}, "$.shippingMethods[0].detail"),
            ({"recurringPaymentRequest": {}, "deferredPaymentRequest": {}}, "$.deferredPaymentRequest"),
            ({"merchantCategoryCode": "grocer"}, "$.merchantCategoryCode"),
            ({"deferredPaymentRequest": {"freeCancellationDate": "2031-01-01T00:00:00Z"}},
             "$.deferredPaymentRequest.freeCancellationDateTimeZone"),
            ({"deferredPaymentRequest": {"freeCancellationDateTimeZone": "Europe/Berlin"}},
             "$.deferredPaymentRequest.freeCancellationDate"),
            ({"deferredPaymentRequest": {"freeCancellationDate": "2031-01-01T00:00:00Z",
                                         "freeCancellationDateTimeZone": "Mars/Olympus"}},
             "$.deferredPaymentRequest.freeCancellationDateTimeZone"),
        ]
        for networks in (["visa"], ["visa", "networkOf2031"], ["visa", "pagoBancomat", "postFinance"]):
            request = json.dumps(dict(
                shops.REQUEST, supportedNetworks=networks, merchantCategoryCode="5411", disbursementRequest={},
                merchantCapabilities=["supports3DS", "supportsInstantFundsOut"]))
            self.assertEqual(page.evaluate(f"waybill.polyfill.problems({request}, 15)"), [])
        deferred = json.dumps(dict(shops.REQUEST, deferredPaymentRequest={}))
        self.assertEqual(page.evaluate(f"waybill.polyfill.problems({deferred}, 14)")[0]["path"], "$.deferredPaymentRequest")
        for change, path in table:
            request = json.dumps(dict(shops.REQUEST, **change))
            found = page.evaluate(f"waybill.polyfill.problems({request}, 15)")
            self.assertEqual([problem["path"] for problem in found], [path], change)
        # A well-formed session of another domain closes the sheet.
        own = self.shop.answers["POST /applepay/validate"]
        self.shop.answers["POST /applepay/validate"] = lambda body: (200, dict(own(body)[1], domainName="evil.example"))
        page.click(chromium.main_page_button())
        self.told(page, "cancelled")


class FileTests(unittest.TestCase):
    def test_files_are_small(self):
        for name, content in (("waybill.mjs", shops.file("waybill.mjs")), ("waybill.js", shops.classic())):
            size = len(gzip.compress(content, 9))
            self.assertLessEqual(size, 12 * 1024, name)

    def test_syntax_is_of_2019(self):
        newer = newer_syntax(shops.file("waybill.mjs").decode())
        self.assertEqual(newer, [])
        for text in ("a?.b", "a ?? b", "a ||= b", "import.meta.url", "import('x')", "class A { #b }", "1n", "1_000"):
            self.assertNotEqual(newer_syntax(text), [], text)


def newer_syntax(source):
    """Returns the syntax and the functions newer than ES2019, outside comments and strings."""
    strings = r'"(?:[^"\\\n]|\\.)*"' + r"|'(?:[^'\\\n]|\\.)*'" + r"|//[^\n]*|/\*.*?\*/"
    code = re.sub(strings, '""', source, flags=re.S)
    found = re.findall(
        r"\?\.(?!\d)|\?\?|(?:\|\||&&)=|\bimport\s*[.(]|(?<![\w$])#\w+|\b\d+n\b|\b\d+_\d|\bglobalThis\b|\bstatic\s*\{"
        r"|\bmatchAll\b|\breplaceAll\b|\ballSettled\b", code)
    return found


if __name__ == "__main__":
    unittest.main()
