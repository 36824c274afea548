"""One table of scenes at the payment sheet, the same for both APIs: python3 -m unittest test_scenes, in this folder.

Screenshots of each step go to WAYBILL_SCREENSHOTS if that is set.
"""
import json
import os
import re
import time
import unittest

import chromium
import shop as shops
from test_module import MODULE

CHECK = "POST /applepay/basket/b1/validatepostalcode"
PAY = "POST /applepay/payment"
TOTAL = {"label": "Shop", "amount": "24.99"}
SERVED = (200, {"deliverable": True, "errors": [], "newTotal": TOTAL})
UNCHECKED = "The address could not be checked. Try again."
METHODS = [
    {"identifier": "post", "label": "Post", "detail": "Handed to a neighbour too", "amount": "5.00"},
    {"identifier": "bike", "label": "Bike", "detail": "", "amount": "9.00", "dateComponentsRange": {
        "startDateComponents": {"hours": 2}, "endDateComponents": {"hours": 4}}},
]
COUPONS = """onCouponChanged: async (code) => (
  code === "SPRING" ? { newTotal: { label: "Shop", amount: "14.99" } }
  : code ? { errors: [{ code: "couponCodeInvalid", message: "There is no such code." }] }
  : { newTotal: { label: "Shop", amount: "24.99" } })"""
BROKEN_COUPONS = """onCouponChanged: async () => {
  if (!window.isBack) throw new Error("out of order");
  return { newTotal: { label: "Shop", amount: "14.99" } };
}"""
BROKEN_METHODS = """onMethodSelected: async (method, { kind }) => {
  if (kind !== "shipping") return undefined;
  if (method.identifier === "bike") throw new Error("out of order");
  return { newTotal: { label: "Shop", amount: "26.99" } };
}"""
PRICED_METHODS = """onMethodSelected: async (method, { kind }) => (
  kind === "shipping" ? { newTotal: { label: "Shop", amount: method.identifier === "bike" ? "28.99" : "24.99" } }
  : undefined)"""
NEVER = """
const own = window.fetch, slow = window.setTimeout;
window.fetch = (url, options) => {
  if (window.isBack || !String(url).endsWith("validatepostalcode")) return own(url, options);
  window.setTimeout = (work, time) => slow(work, (time || 0) / 50);
  return new Promise(() => {});
}"""


def refused(code, message, field=None):
    return {"code": code, "message": message} | ({"contactField": field} if field else {})


def unserved(*errors):
    return 200, {"deliverable": False, "errors": list(errors), "newTotal": TOTAL}


def paid(order):
    return 200, {"status": "success", "orderIdentifier": order,
                 "orderDetails": dict(shops.DETAILS, orderIdentifier=order)}


def declined(*errors):
    return 200, {"status": "failure", "errors": list(errors)}


# The sheet: `contact`, `coupon` and `payment` are the errors at these places.
READY = {"contact": "", "coupon": "", "payment": "", "pay": True, "total": "24.99 GBP", "isWhole": True}
CLOSED = {"isOpen": False}
OTHER_ADDRESS = refused("shippingContactInvalid", "No such postal code", "postalCode")
NO_ADDRESS = READY | {"contact": UNCHECKED, "pay": False}


def failing_check(status):
    """Returns a scene whose address check fails with a status, 0: without an answer, and then works."""
    return {
        "answers": {CHECK: (status, {"error": {"code": "upstream_unavailable", "message": "x"}})},
        "steps": [
            (None, NO_ADDRESS | {"total": "19.99 GBP"}),
            (("answer", CHECK, SERVED), {}),
            (("click", ".again"), READY),
            (("pay",), CLOSED),
        ],
        "told": ["error update", "authorised"],
    }


def refusing_check(**more):
    """Returns a scene whose first address is refused, and whose next one is served."""
    return more | {
        "answers": {CHECK: lambda body: unserved(OTHER_ADDRESS) if body["countryCode"] == "GB" else SERVED},
        "steps": [
            (None, READY | {"contact": "No such postal code", "pay": False}),
            (("address", "Berlin"), READY),
            (("pay",), CLOSED),
        ],
        "told": ["authorised"],
    }


SCENES = {
    "a coupon that is good": {
        "options": COUPONS, "request": {"supportsCouponCode": True},
        "steps": [
            (None, READY),
            (("coupon", "SPRING"), READY | {"total": "14.99 GBP"}),
            (("pay",), CLOSED),
        ],
        "told": ["authorised"],
    },
    "a coupon that is bad, and is removed": {
        "options": COUPONS, "request": {"supportsCouponCode": True, "shippingMethods": METHODS},
        "steps": [
            (("coupon", "WINTER"), READY | {"coupon": "There is no such code.", "pay": False}),
            (("coupon", ""), READY),
            (("pay",), CLOSED),
        ],
        "told": ["authorised"],
    },
    "a coupon that cannot be checked at first": {
        "options": BROKEN_COUPONS, "request": {"supportsCouponCode": True},
        "steps": [
            (("coupon", "SPRING"), READY | {"coupon": "The code could not be checked. Try again.", "pay": False}),
            (("run", "window.isBack = true"), {}),
            (("click", ".again"), READY | {"total": "14.99 GBP"}),
            (("pay",), CLOSED),
        ],
        "told": ["error update", "authorised"],
    },
    "an address that is refused before there are methods": refusing_check(),
    "an address that is refused while there are methods": refusing_check(request={"shippingMethods": METHODS}),
    "an address that is refused while there are plain methods, without a reason": {
        "request": {"shippingMethods": [{"identifier": "post", "label": "Post", "detail": "", "amount": "5.00"}]},
        "answers": {CHECK: unserved()},
        "steps": [
            (None, READY | {"contact": "This address cannot be delivered to.", "pay": False}),
            (("click", ".plain"), CLOSED),
        ],
        "told": ["cancelled"],
    },
    "an address check that fails with 500": failing_check(500),
    "an address check that fails with 503": failing_check(503),
    "an address check without a network": failing_check(0),
    "an address check that is late": {
        "before": NEVER, "scale": 100,
        "steps": [
            (None, NO_ADDRESS | {"total": "19.99 GBP"}),
            (("run", "window.isBack = true"), {}),
            (("click", ".again"), READY),
            (("pay",), CLOSED),
        ],
        "told": ["error update", "authorised"],
    },
    "a delivery that has its price": {
        "options": PRICED_METHODS, "request": {"shippingMethods": METHODS, "lineItems": [
            {"label": "Lamp", "amount": "19.99"},
            {"label": "Bulbs", "amount": "4.00", "paymentTiming": "recurring"}]},
        "steps": [
            (None, READY | {"methods": ["Post Handed to a neighbour too 5.00 GBP", "Bike 2 hours to 4 hours 9.00 GBP"],
                            "method": "post", "items": ["Lamp 19.99 GBP", "Bulbs again and again 4.00 GBP"]}),
            (("click", "input[value=bike]"), READY | {"total": "28.99 GBP", "method": "bike"}),
            (("click", "input[value=post]"), READY | {"method": "post"}),
            (("pay",), CLOSED),
        ],
        "told": ["authorised"],
    },
    "a delivery that cannot be checked": {
        "options": BROKEN_METHODS, "request": {"shippingMethods": METHODS},
        "steps": [
            # Neither API has a place for this error before the customer authorises: then nothing is charged.
            (("click", "input[value=bike]"), READY | {"method": "bike"}),
            (("pay",), READY | {"payment": "The delivery could not be checked. Choose it again."}),
            (("click", "input[value=post]"), READY | {"total": "26.99 GBP", "method": "post"}),
            (("pay",), CLOSED),
        ],
        "told": ["error update", "failed none", "authorised"],
    },
    "a card that is declined, and another one": {
        "answers": {PAY: lambda body, count: declined(
            refused("unknown", "The card was declined.")) if count == 1 else paid("2")},
        "steps": [
            (("pay",), READY | {"payment": "The card was declined.", "status": "Payment not completed"}),
            (("pay",), CLOSED),
        ],
        "told": ["failed", "authorised"], "charges": 2, "order": "2",
    },
    "an address that is refused with the payment, and mended": {
        "request": {"shippingMethods": METHODS},
        "answers": {PAY: lambda body, count: paid("1") if (
            body["payment"]["shippingContact"]["countryCode"] == "US") else declined(OTHER_ADDRESS)},
        "steps": [
            (("pay",), READY | {"contact": "No such postal code", "status": "Payment not completed"}),
            (("address", "Cupertino"), READY | {"status": ""}),
            (("pay",), CLOSED),
        ],
        "told": ["failed", "authorised"], "charges": 2,
    },
    "a payment that is refused for good": {
        "answers": {PAY: (200, {"status": "failure"})},
        "steps": [(("pay",), CLOSED)],
        "told": ["failed"], "charges": 1, "complete": "failure",
    },
    "a payment of which nobody knows": {
        "answers": {PAY: (504, {"error": {"code": "outcome_unknown", "message": "x"}})},
        "steps": [
            (("pay",), READY | {
                "payment": "It is not certain whether you have paid. Look for the order before you pay again."}),
            (("click", ".plain"), CLOSED),
        ],
        "told": ["error payment", "failed unknown", "cancelled"], "charges": 1,
    },
    "a customer who cancels": {
        "steps": [(None, READY), (("click", ".plain"), CLOSED)],
        "told": ["cancelled"], "charges": 0,
    },
    "a merchant session that there is none of": {
        "answers": {"POST /applepay/validate": (502, {"error": {"code": "merchant_session_refused"}})},
        "steps": [(None, CLOSED)],
        "told": ["error merchant"], "charges": 0,
    },
    "a merchant session that the device refuses": {
        "answers": {"POST /applepay/validate": (200, {name: "x" for name in (
            "epochTimestamp", "expiresAt", "merchantSessionIdentifier", "nonce", "merchantIdentifier", "domainName",
            "displayName", "signature")})},
        "steps": [(None, CLOSED)],
        "told": ["cancelled"], "charges": 0,
    },
    "long words and many items": {
        "request": {
            "total": {"label": "Donaudampfschifffahrtsgesellschaft" * 5, "amount": "19.99"},
            "lineItems": [{"label": label, "amount": "1.00"}
                          for label in ["A" * 200] + [f"Item {number}" for number in range(60)]],
        },
        "answers": {CHECK: (200, {})},
        "steps": [(None, READY | {"total": "19.99 GBP"}), (("click", ".plain"), CLOSED)],
        "told": ["cancelled"],
    },
}

SEEN = """(() => {
  const host = document.querySelector("[data-waybill-sheet]");
  if (!host) return { isOpen: false };
  const root = host.shadowRoot, one = (selector) => root.querySelector(selector);
  const text = (element) => (element ? element.textContent : "");
  const rows = (kind) => [...root.querySelectorAll(`.${kind}`)].map(
    (row) => row.innerText.replace(/\\s+/g, " ").trim());
  const inside = (element) => {
    const box = element.getBoundingClientRect(), sheet = one(".sheet").getBoundingClientRect();
    return box.left >= sheet.left && box.right <= sheet.right && box.width > 0;
  };
  return {
    isOpen: true, pay: !one(".pay").disabled, status: text(one(".status")), total: text(one(".total dd")),
    contact: text(one(".errors.contact")), coupon: text(one(".errors.coupon")), payment: text(one(".errors.payment")),
    methods: rows("method"), items: rows("item"), method: (one("[name=method]:checked") || {}).value,
    isWhole: [...root.querySelectorAll("dd.amount, button, select, input")].every((each) => each.hidden || inside(each))
      && [...root.querySelectorAll("dd.amount")].every((each) => each.offsetHeight < 40)
      && one(".middle").scrollTop === 0
      && [".sheet header", ".badge", ".pay"].every((selector) => {
        const box = one(selector).getBoundingClientRect();
        return box.top >= 0 && box.bottom <= innerHeight;
      }),
  };
})()"""


class SceneTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shop = shops.Shop()
        cls.answers = dict(cls.shop.answers)
        cls.browser = chromium.Browser()
        cls.page = cls.browser.page(width=390, height=844)
        cls.folder = os.environ.get("WAYBILL_SCREENSHOTS")
        if cls.folder:
            os.makedirs(cls.folder, exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        cls.page.close()
        cls.browser.close()
        cls.shop.close()

    def open(self, options="", before="", script=MODULE):
        self.shop.pages["/"] = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Shop</title>'
            '<meta name="viewport" content="width=device-width"><script src="/before.js"></script>'
            '<script src="/applepay/polyfill.js" data-wallet="/wallet"></script><div id="pay" hidden></div>'
            '<script type="module" src="/page.js"></script>')
        self.shop.scripts["/before.js"] = f"{before};\nwindow.options = {{ {options} }};"
        self.shop.scripts["/page.js"] = script
        self.page.open(self.shop.url + "/")

    def setUp(self):
        self.page.call("Page.navigate", url="about:blank")
        self.page.wait("location.href === 'about:blank'")
        self.shop.answers = dict(self.answers)

    def play(self, name, scene, api):
        page, shop = self.page, self.shop
        shop.requests.clear()
        answers = dict(self.answers, **scene.get("answers", {}))
        counted = answers[PAY]
        if callable(counted):
            answers[PAY] = lambda body: counted(body, len(shop.asked("/applepay/payment")))
        shop.answers = answers
        request = dict(shops.REQUEST, **scene.get("request", {}))
        shop.answers["GET /applepay/basket/b1"] = (
            200, {"basketIdentifier": "b1", "version": 1, "paymentRequest": request})
        self.open(f"api: '{api}', {scene.get('options', '')}", scene.get("before", ""))
        page.wait("window.hasButton")
        page.evaluate(f"waybill.polyfill.timeScale = {scene.get('scale', 1)}")
        page.click(chromium.main_page_button())
        for number, (action, wanted) in enumerate(scene["steps"]):
            self.act(page, shop, action)
            self.see(page, wanted)
            if self.folder and wanted.get("isOpen", bool(wanted)):
                slug = re.sub(r"\W+", "-", name)
                page.screenshot(f"{self.folder}/scene-{slug}-{number}-{api}.png")
        page.wait(f"told.length >= {len(scene['told'])}")
        told = [self.title(*one) for one in page.evaluate("told")]
        self.assertEqual(told, scene["told"])
        if scene["told"][-1] == "authorised":
            page.wait("waybill.polyfill.transcript.some(({title}) => title === 'the device took the details')")
            self.assertEqual(page.evaluate("told[told.length - 1][1].hasTracking"), True)
            handed = [body["orderDetails"]["orderIdentifier"] for _, _, body, _ in shop.asked("/wallet")]
            self.assertEqual(handed, [scene.get("order", "1")])
        else:
            self.assertEqual(shop.asked("/wallet"), [])
        charges = scene.get("charges", 1 if scene["told"][-1] == "authorised" else 0)
        self.assertEqual(len(shop.asked("/applepay/payment")), charges)
        if "complete" in scene:
            last = page.evaluate("waybill.polyfill.transcript.filter(({title}) => title === 'complete').pop()")
            self.assertEqual(last["detail"]["status"], scene["complete"])
        if scene["told"][-1] == "authorised":
            return
        # The button works again.
        page.wait("!document.querySelector('[data-waybill-sheet]')")
        page.click(chromium.main_page_button())
        page.wait("waybill.polyfill.transcript.filter(({title}) => title === 'begin').length === 2")

    @staticmethod
    def title(name, detail):
        told = detail["stage"] if name == "error" else (detail or {}).get("outcome")
        return f"{name} {told}" if told else name

    def act(self, page, shop, action):
        kind, *values = action or ("wait",)
        if kind not in ("wait", "answer", "run"):
            # A person acts once the sheet has its answer.
            page.wait("(({ isOpen, status, pay, contact, coupon }) => isOpen && (pay || contact || coupon)"
                      f" && !status.includes('…'))({SEEN})")
        if kind == "answer":
            shop.answers[values[0]] = values[1]
        elif kind == "run":
            page.evaluate(values[0])
        elif kind == "pay":
            page.click(chromium.sheet(".pay"))
        elif kind == "click":
            page.click(chromium.sheet(values[0]))
        elif kind == "coupon":
            page.evaluate(f"Object.assign({chromium.sheet('input[type=text]')}, {{ value: '' }}).focus()")
            page.call("Input.insertText", text=values[0])
            page.press("Enter")
        elif kind == "address":
            page.evaluate(f"""(() => {{
                const list = {chromium.sheet("select")};
                list.value = [...list.options].find((one) => one.textContent.includes({json.dumps(values[0])})).value;
                list.dispatchEvent(new Event("change"));
            }})()""")

    def test_the_polyfill_s_payment_request_is_as_strict_as_webkit(self):
        page = self.page
        self.open(script="""
            const money = { currency: "GBP", value: "19.99" };
            const method = { supportedMethods: "https://apple.com/apple-pay", data: {
              version: 12, merchantIdentifier: "merchant.x", countryCode: "GB", supportedNetworks: ["visa"],
              merchantCapabilities: ["supports3DS"], supportsCouponCode: true } };
            const option = { id: "post", label: "Post", amount: { currency: "GBP", value: "5.00" }, selected: true };
            window.update = {}; window.events = []; window.results = [];
            document.querySelector("#pay").hidden = false;
            document.querySelector("#pay").textContent = "pay";
            document.querySelector("#pay").addEventListener("click", async () => {
              const request = window.request = new PaymentRequest(
                [method], Object.assign({ total: { label: "Shop", amount: money } }, window.more),
                { requestShipping: true });
              request.onmerchantvalidation = (event) => event.complete(
                fetch("/applepay/validate", { method: "POST" }).then((answer) => answer.json()));
              for (const name of ["paymentmethodchange", "shippingaddresschange", "shippingoptionchange"]) {
                request["on" + name] = (event) => {
                  events.push([name, event.methodDetails || null]);
                  event.updateWith(window.update[name] || {});
                };
              }
              try { window.response = await request.show(); } catch (error) { window.failure = error.name; }
            });
            window.note = (promise) => promise.then(
              () => results.push("resolved"), (error) => results.push(error.name));
            window.option = option;
            window.ready = true;
            """)
        page.wait("window.ready")
        wrong = "{ error: 'Not served', shippingAddressErrors: { postalCode: 'No such code' } }"

        def show(more, update, expected):
            page.evaluate(f"window.response = undefined; window.more = {more}; window.update = {update}")
            page.click("document.querySelector('#pay')")
            page.wait(f"(({chromium.sheet('.errors.contact')}) || {{}}).textContent === {json.dumps(expected)}"
                      f" && ({chromium.sheet('.pay')}).disabled === {json.dumps(bool(expected))}")

        def cancel():
            page.evaluate("window.failure = undefined")
            page.click(chromium.sheet(".plain"))
            page.wait("window.failure === 'AbortError'")

        show("{}", f"{{ shippingaddresschange: {wrong} }}", "Not served No such code")
        cancel()
        show("{ shippingOptions: [option] }", f"{{ shippingaddresschange: {wrong} }}", "")
        cancel()
        show("{ shippingOptions: [option] }", "{ shippingaddresschange: { paymentMethodErrors:"
             " [new ApplePayError('addressUnserviceable', undefined, 'Not there')] } }", "Not there")
        cancel()
        # Errors that are none of Apple's classes are ignored.
        show("{}", "{ shippingaddresschange: { paymentMethodErrors: [{ code: 'addressUnserviceable' }] } }", "")
        page.evaluate(f"Object.assign({chromium.sheet('input[type=text]')}, {{ value: 'SPRING' }}).focus()")
        page.press("Enter")
        page.wait("events.some(([name, told]) => name === 'paymentmethodchange' && told.couponCode === 'SPRING')")
        page.wait(f"!({chromium.sheet('.pay')}).disabled")
        page.click(chromium.sheet(".pay"))
        page.wait("window.response")
        page.evaluate("window.first = response.details.token.transactionIdentifier;"
                      " note(response.retry({ paymentMethod: [{ code: 'unknown' }] }))")
        page.wait("results.length === 1")
        page.evaluate("note(response.retry({ shippingAddress: { postalCode: 'No such code' } }));"
                      " note(response.retry({}))")
        page.wait("results.length === 2")
        page.wait(f"({chromium.sheet('.errors.contact')}).textContent === 'No such code'")
        page.click(chromium.sheet(".pay"))
        page.wait("results.length === 3")
        self.assertTrue(page.evaluate("response.details.token.transactionIdentifier !== window.first"))
        page.evaluate("note(response.complete('fail').then(() => response.complete('success')))")
        page.wait("results.length === 4")
        self.assertEqual(page.evaluate("results"), ["TypeError", "InvalidStateError", "resolved", "InvalidStateError"])
        page.wait("!document.querySelector('[data-waybill-sheet]')")

    def see(self, page, wanted):
        end = time.monotonic() + chromium.DEADLINE_SECONDS
        while True:
            seen = page.evaluate(SEEN)
            if all(seen.get(name) == value for name, value in wanted.items()):
                return
            if time.monotonic() > end:
                self.assertEqual({name: seen.get(name) for name in wanted}, wanted, page.complaints)
            time.sleep(0.03)


def add(name, scene, api):
    def test(self):
        self.play(name, scene, api)
    setattr(SceneTests, "test_" + re.sub(r"\W+", "_", f"{name}_{api}"), test)


for scene_name, one_scene in SCENES.items():
    for one_api in ("applepay", "payment-request"):
        add(scene_name, one_scene, one_api)


if __name__ == "__main__":
    unittest.main()
