// The texts that the editors begin with.

const minutesAgo = (minutes) => new Date(Date.now() - minutes * 60000).toISOString().replace(/\.\d+Z$/, "Z");
const daysAhead = (days) => minutesAgo(-days * 1440);

const paymentRequest = () => ({
  countryCode: "US",
  currencyCode: "USD",
  supportedNetworks: ["visa", "masterCard", "amex"],
  merchantCapabilities: ["supports3DS"],
  requiredShippingContactFields: ["name", "email", "postalAddress"],
  lineItems: [
    { label: "Walnut Desk Lamp", amount: "96.00" },
    { label: "Wool Throw", amount: "48.00" },
    { label: "Tax", amount: "5.40" },
  ],
  total: { label: "Fern & Pine", amount: "149.40" },
});

const merchant = {
  merchantIdentifier: "merchant.com.example.waybill",
  displayName: "Fern & Pine",
  url: "https://shop.example.com/",
  logo: "logo.png",
};

const receipt = (number) => ({
  orderNumber: number,
  createdAt: minutesAgo(1),
  status: "completed",
  // A receipt: its order.json names no web service.
  webServiceURL: null,
  merchant,
  orderManagementURL: `https://shop.example.com/orders/${number}`,
  payment: {
    status: "paid",
    total: { amount: "149.40", currency: "USD" },
    transactions: [
      {
        createdAt: minutesAgo(1),
        amount: { amount: "149.40", currency: "USD" },
        paymentMethod: { displayName: "Visa 1234" },
        status: "completed",
        transactionType: "purchase",
        receipt: "receipt.pdf",
      },
    ],
  },
  lineItems: [
    { title: "Walnut Desk Lamp", quantity: 1, price: { amount: "96.00", currency: "USD" }, image: "lamp.png" },
    { title: "Wool Throw", quantity: 2, price: { amount: "24.00", currency: "USD" }, image: "throw.png" },
  ],
});

const order = (number) => ({
  orderNumber: number,
  createdAt: minutesAgo(1),
  status: "open",
  merchant,
  orderManagementURL: `https://shop.example.com/orders/${number}`,
  payment: {
    status: "paid",
    total: { amount: "149.40", currency: "USD" },
    summaryItems: [
      { label: "Subtotal", value: { amount: "144.00", currency: "USD" } },
      { label: "Tax", value: { amount: "5.40", currency: "USD" } },
    ],
  },
  lineItems: [
    { title: "Walnut Desk Lamp", quantity: 1, price: { amount: "96.00", currency: "USD" }, image: "lamp.png" },
    { title: "Wool Throw", quantity: 2, price: { amount: "24.00", currency: "USD" }, image: "throw.png" },
  ],
  fulfillments: [
    {
      fulfillmentType: "shipping",
      fulfillmentIdentifier: "parcel-1",
      status: "processing",
      carrier: "Example Parcel",
      estimatedDeliveryAt: daysAhead(2),
      recipient: { givenName: "Jane", familyName: "Appleseed" },
    },
  ],
});

const SHIPPING = ["open", "processing", "onTheWay", "outForDelivery", "delivered"];
const PICKUP = ["open", "processing", "readyForPickup", "pickedUp"];

/** Changes of an order document that shops make every day; each gives a new document, or undefined if it does not fit. */
const quickChanges = {
  "Next status": (document) => {
    const fulfillment = (document.fulfillments || [])[0];
    if (!fulfillment) return undefined;
    const steps = fulfillment.fulfillmentType === "pickup" ? PICKUP : SHIPPING;
    const next = steps[steps.indexOf(fulfillment.status) + 1];
    if (!next) return undefined;
    fulfillment.status = next;
    if (next === "onTheWay") fulfillment.shippedAt = minutesAgo(0);
    if (next === "delivered") fulfillment.deliveredAt = minutesAgo(0);
    return document;
  },
  "Tracking number": (document) => {
    const fulfillment = (document.fulfillments || [])[0];
    if (!fulfillment || fulfillment.fulfillmentType === "pickup") return undefined;
    fulfillment.trackingNumber = "EP" + String(Math.floor(Math.random() * 1e9)).padStart(9, "0") + "US";
    fulfillment.trackingURL = `https://parcel.example.net/t/${fulfillment.trackingNumber}`;
    return document;
  },
  "One hour later": (document) => {
    let isChanged = false;
    for (const fulfillment of document.fulfillments || []) {
      for (const name of ["estimatedDeliveryAt", "pickupAt"]) {
        if (!fulfillment[name]) continue;
        fulfillment[name] = new Date(Date.parse(fulfillment[name]) + 3600000).toISOString().replace(/\.\d+Z$/, "Z");
        isChanged = true;
      }
    }
    return isChanged ? document : undefined;
  },
  "Return with a label": (document) => {
    if ((document.returns || []).length > 0) return undefined;
    document.returns = [
      { returnIdentifier: "return-1", status: "open", dropOffBy: daysAhead(14), returnLabel: "return-label.pdf" },
    ];
    return document;
  },
  "Order completed": (document) => {
    if (document.status === "completed") return undefined;
    document.status = "completed";
    return document;
  },
};

/** Returns a value with the members of its objects in the order that they have in another one, further ones last. */
function arranged(value, example) {
  if (Array.isArray(value)) {
    const examples = Array.isArray(example) ? example : [];
    return value.map((element, index) => arranged(element, examples[index] || examples[0]));
  }
  if (!value || typeof value !== "object") return value;
  const own = example && typeof example === "object" ? example : {};
  const names = Object.keys(own).filter((name) => name in value);
  const further = Object.keys(value).filter((name) => !(name in own));
  return names.concat(further).reduce(
    (all, name) => Object.assign(all, { [name]: arranged(value[name], own[name]) }), {});
}

/** JSON for people: two spaces, members in the order in which they were made. */
const pretty = (value) => JSON.stringify(value, null, 2);

const orderNumber = () => "FP-" + String(10000 + Math.floor(Math.random() * 89999));

export { paymentRequest, receipt, order, quickChanges, arranged, pretty, orderNumber };
