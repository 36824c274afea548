"""The recipes for payment providers in shop.md, each with a stand-in of the interface, in Chromium."""
import json
import os
import re
import unittest

import chromium
import shop as shops

DOCUMENT = os.path.join(os.path.dirname(__file__), "../../connect/shop.md")
# What the stand-ins share: a sheet of the polyfill, and the end of its payment.
SHEET = """
window.sheet = (request, authorised) => {
  const session = new ApplePaySession(3, request);
  session.onvalidatemerchant = async () => session.completeMerchantValidation(
    await (await fetch("/applepay/validate", { method: "POST" })).json());
  session.onpaymentauthorized = async (event) => {
    const orderDetails = await authorised(event.payment);
    session.completePayment({ status: ApplePaySession.STATUS_SUCCESS, orderDetails });
  };
  session.begin();
};
"""
# By their public documents: Adyen Web's types of the Apple Pay component; braintree-web's class ApplePay; Stripe's
# `PaymentSheet.ApplePayParams` of React Native, whose names of the details are those of its `complete`.
FAKES = {
    "adyen": """
        class ApplePay {
          constructor(core, props) { this.props = props; }
          mount(selector) {
            document.querySelector(selector).addEventListener("click", () => sheet(REQUEST, () =>
              new Promise((resolve, reject) => this.props.onOrderTrackingRequest(resolve, reject))));
            return this;
          }
        }
        showApplePay(ApplePay, {}, DETAILS);
        """,
    "braintree": """
        const applePay = {
          createPaymentRequest: (request) => Object.assign({}, REQUEST, request),
          performValidation: async ({ validationURL, displayName }) => {
            if (!validationURL || !displayName) throw new TypeError("validationURL and displayName are required");
            return (await fetch("/applepay/validate", { method: "POST" })).json();
          },
          tokenize: async ({ token }) => ({ nonce: `nonce of ${token.paymentMethod.network}` }),
        };
        const charge = async (nonce) => {
          const answer = await fetch("/charge", { method: "POST", body: JSON.stringify({ nonce }) });
          return (await answer.json()).isPaid;
        };
        document.querySelector("#pay").addEventListener("click", () => pay(applePay, DETAILS, charge));
        """,
    "stripe": """
        let params;
        const initPaymentSheet = async (given) => { params = given; return {}; };
        prepareSheet(initPaymentSheet, "pi_1_secret_1", DETAILS);
        document.querySelector("#pay").addEventListener("click", () => sheet(REQUEST, () => new Promise((resolve) => {
          params.applePay.setOrderTracking(
            (orderIdentifier, orderTypeIdentifier, authenticationToken, webServiceURL) =>
              resolve({ orderIdentifier, orderTypeIdentifier, authenticationToken, webServiceURL }));
        })));
        """,
}


def recipes():
    """Returns the recipes of the document, by their names."""
    with open(DOCUMENT, encoding="utf-8") as document:
        found = re.findall(r"<!-- recipe: (\w+) -->\n```js\n(.*?)```", document.read(), re.DOTALL)
    return dict(found)


class ProviderTests(unittest.TestCase):
    def setUp(self):
        self.browser = chromium.Browser()
        self.addCleanup(self.browser.close)
        self.shop = shops.Shop()
        self.addCleanup(self.shop.close)

    def pay(self, name, recipe):
        self.shop.pages["/"] = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Shop</title>'
            '<script src="/applepay/polyfill.js" data-wallet="/wallet"></script><button id="pay">Pay</button>'
            '<script type="module" src="/page.js"></script>')
        fake = FAKES[name].replace("DETAILS", json.dumps(shops.DETAILS)).replace("REQUEST", json.dumps(shops.REQUEST))
        self.shop.scripts["/page.js"] = f"{SHEET}\n{recipe}\n{fake}\nwindow.ready = true;"
        page = self.browser.page()
        self.addCleanup(page.close)
        page.open(self.shop.url + "/")
        page.wait("window.ready")
        page.click("document.querySelector('#pay')")
        page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
        page.click(chromium.sheet(".pay"))
        page.wait("waybill.polyfill.transcript.some(({title}) => title === 'complete')")
        self.assertEqual(page.complaints, [])
        return page

    def test_each_recipe_hands_the_details_to_the_device(self):
        self.assertEqual(set(recipes()), set(FAKES))
        for name, recipe in recipes().items():
            with self.subTest(name):
                self.shop.requests.clear()
                self.shop.answers["POST /charge"] = (200, {"isPaid": True})
                page = self.pay(name, recipe)
                page.wait("waybill.polyfill.transcript.some(({title}) => title === 'the device took the details')")
                self.assertEqual(self.shop.asked("/wallet")[0][2]["orderDetails"], shops.DETAILS)

    def test_a_payment_that_is_refused_hands_nothing_over(self):
        self.shop.answers["POST /charge"] = (200, {"isPaid": False})
        self.pay("braintree", recipes()["braintree"])
        self.assertEqual(self.shop.asked("/charge")[0][2], {"nonce": "nonce of Visa"})
        self.assertEqual(self.shop.asked("/wallet"), [])


if __name__ == "__main__":
    unittest.main()
