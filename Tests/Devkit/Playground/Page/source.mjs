// The source that a shop would write, from what the editors hold. Texts for people; nothing of it runs on this page.

/** A value as JavaScript that may stand inside a script element. */
const literal = (value) => JSON.stringify(value, null, 2).replace(/</g, "\\u003c").replace(/\u2028|\u2029/g, "");

const html = `<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>Checkout</title>
  <script async crossorigin src="https://applepay.cdn-apple.com/jsapi/1.latest/apple-pay-sdk.js"></script>
</head>
<body>
  <apple-pay-button buttonstyle="black" type="buy" locale="en"></apple-pay-button>
  <script type="module" src="checkout.mjs"></script>
</body>
</html>
`;

const shared = `// Your server: it asks Apple for a merchant session with the merchant identity certificate.
async function merchantSession(validationURL) {
  const response = await fetch("/applepay/validate", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ validationURL }),
  });
  if (!response.ok) throw new Error("no merchant session: " + response.status);
  return response.json();
}

// Your server: it charges, publishes the order, and answers with the order details:
// {"status": "success", "orderDetails": {"orderTypeIdentifier", "orderIdentifier", "webServiceURL", "authenticationToken"}}
// If nothing was charged: {"status": "failure", "errors": [{"code", "contactField", "message"}]}
async function charge(payment) {
  const response = await fetch("/pay", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ payment }),
    signal: AbortSignal.timeout(28000), // The sheet waits for 30 seconds.
  });
  const result = await response.json();
  if (result.status !== "success" && result.status !== "failure") throw new Error("no result: " + response.status);
  return result;
}

// Nobody knows whether the customer has paid: your page has to look the order up before it offers to pay again.
const unknown = { code: "unknown", message: "It is not certain whether you have paid. Look for the order before you pay again." };
`;

const session = (version) => `
document.querySelector("apple-pay-button").addEventListener("click", () => {
  // Inside the click, with nothing awaited before: browsers make a session only in a gesture.
  // ${version} is the lowest version with all that the request uses; order details need none of their own.
  const session = new ApplePaySession(${version}, paymentRequest);

  session.onvalidatemerchant = async (event) => {
    try {
      session.completeMerchantValidation(await merchantSession(event.validationURL));
    } catch (error) {
      session.abort();
    }
  };

  session.onpaymentmethodselected = () => {
    session.completePaymentMethodSelection({ newTotal: paymentRequest.total });
  };

  session.onshippingcontactselected = () => {
    session.completeShippingContactSelection({ newTotal: paymentRequest.total });
  };

  session.onpaymentauthorized = async (event) => {
    let result;
    try {
      result = await charge(event.payment);
    } catch (error) {
      result = { status: "failure", errors: [unknown] };
    }
    if (result.status !== "success") {
      session.completePayment({
        status: ApplePaySession.STATUS_FAILURE,
        errors: (result.errors || []).map(
          ({ code, contactField, message }) => new ApplePayError(code, contactField, message)),
      });
      return;
    }
    const status = ApplePaySession.STATUS_SUCCESS;
    try {
      session.completePayment({ status, orderDetails: result.orderDetails });
    } catch (error) {
      // Order tracking must never fail a payment: the customer was charged.
      session.completePayment({ status });
    }
  };

  session.begin();
});
`;

const response = `
document.querySelector("apple-pay-button").addEventListener("click", async () => {
  const request = new PaymentRequest(methods, details, options);

  request.onmerchantvalidation = (event) => event.complete(merchantSession(event.validationURL));
  request.onpaymentmethodchange = (event) => event.updateWith({});
  request.onshippingaddresschange = (event) => event.updateWith({});

  let response;
  try {
    response = await request.show();
  } catch (error) {
    // The customer closed the sheet, or there is no merchant session.
    console.info("Nothing was paid:", error.message);
    return;
  }
  let result;
  for (;;) {
    try {
      result = await charge(response.details);
    } catch (error) {
      result = { status: "failure", errors: [unknown] };
    }
    if (result.status === "success") break;
    const errors = (result.errors || []).map(
      ({ code, contactField, message }) => new ApplePayError(code, contactField, message));
    if (errors.length === 0) {
      await response.complete("fail");
      return;
    }
    try {
      // The sheet stays open; the same response has the next payment.
      await response.retry({ paymentMethod: errors });
    } catch (error) {
      console.info("The customer closed the sheet:", error.message);
      return;
    }
  }
  try {
    await response.complete("success", { data: { orderDetails: result.orderDetails } });
  } catch (error) {
    // Order tracking must never fail a payment: the customer was charged.
    await response.complete("success");
  }
});
`;

/**
 * The page's script for one of the two APIs.
 *
 * @param version the session's version.
 * @param asArguments maps version and request to the arguments of a PaymentRequest.
 */
function script(api, version, request, asArguments) {
  if (api !== "payment-request") return `const paymentRequest = ${literal(request)};\n\n${shared}${session(version)}`;
  const { methods, details, options } = asArguments(version, request);
  const parts = `const methods = ${literal(methods)};\nconst details = ${literal(details)};\nconst options = ${literal(options)};\n`;
  return `${parts}\n${shared}${response}`;
}

const quote = (text) => `'${text.replace(/'/g, "'\\''")}'`;

/**
 * The server's part: order details and the order in one call, and the same as the exchange that it is. The order's
 * "webServiceURL" is null for a receipt.
 */
function server(orderTypeIdentifier, document) {
  const body = JSON.stringify({ orderTypeIdentifier, orderIdentifier: "YOUR-ORDER-IDENTIFIER", order: document }, null, 2);
  return `# Publishes the order and answers with the four order details.
curl "$WAYBILL_CHECKOUT_URL/v1/checkout/order-details" -u "$WAYBILL_KEY:" \\
  -H 'Content-Type: application/json' \\
  -d ${quote(body)}

# The exchange:
# POST /v1/checkout/order-details
# Authorization: Basic …
# Content-Type: application/json
#
# HTTP/1.1 200 OK
# {"orderDetails": {"orderTypeIdentifier": "${orderTypeIdentifier}", "orderIdentifier": "YOUR-ORDER-IDENTIFIER",
#   "webServiceURL": "https://…", "authenticationToken": "…"}, "published": true}
`;
}

/** A change of an order, with the tool that publishes to Kafka. */
function update(orderTypeIdentifier, document) {
  return `# The new state of the order, as one change on waybill.order-changes.
cat > order.json <<'JSON'
${JSON.stringify(document, null, 2)}
JSON
waybill-dev publish --bootstrap "$WAYBILL_KAFKA_BOOTSTRAP" \\
  --order-type ${orderTypeIdentifier} --order YOUR-ORDER-IDENTIFIER order.json
`;
}

export { html, script, server, update };
