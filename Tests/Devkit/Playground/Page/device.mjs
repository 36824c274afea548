// The simulated device beside the page, and the orders in its Wallet.

import { el } from "./editor.mjs";

const WORDS = {
  open: "Order placed", processing: "Processing", onTheWay: "On the way", outForDelivery: "Out for delivery",
  delivered: "Delivered", shipped: "Shipped", readyForPickup: "Ready for pickup", pickedUp: "Picked up",
  issue: "There is an issue", completed: "Completed", cancelled: "Cancelled",
};
const RETURN_WORDS = {
  open: "Return started", onTheWay: "Return on the way", processing: "Return has arrived",
  issue: "There is an issue with a return", completed: "Return completed", cancelled: "Return cancelled",
};
const BARCODES = { qr: "QR code", pdf417: "PDF417", aztec: "Aztec code", code128: "Code 128" };
const STEPS = { open: 0, processing: 1, shipped: 2, onTheWay: 2, readyForPickup: 2, outForDelivery: 3, delivered: 4, pickedUp: 4 };
const words = (status) => WORDS[status] || status || "";

const day = (text) => new Date(text).toLocaleString("en-US", { weekday: "short", month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });
const money = ({ amount, currency }) => `${amount} ${currency}`;
/** A text of the shop, which may run from right to left inside a line that does not. */
const own = (text) => el("bdi", {}, text);
const line = (...parts) => el("p", { class: "what" }, ...parts);
/** A line with nothing but a text of the shop; none without a text. */
const ownLine = (text) => (text ? [el("p", { class: "what", dir: "auto" }, text)] : []);

/** Returns the state that a customer reads first. */
function headline(order) {
  if (order.isAwaited !== undefined) return order.isAwaited ? "Waiting for the package …" : "No package has come";
  const all = order.fulfillments || [];
  if (order.status === "cancelled" || all.length === 0) return words(order.status);
  const states = all.map(({ status }) => status);
  if (states.every((status) => status === states[0])) return words(states[0]);
  if (states.includes("issue")) return words("issue");
  const arrived = states.filter((status) => STEPS[status] === 4).length;
  if (arrived > 0) return `${arrived} of ${all.length} delivered`;
  return words(states.reduce((first, next) => (STEPS[next] > (STEPS[first] || 0) ? next : first)));
}

/** Returns when a fulfillment arrived or is expected; undefined if neither can be said. */
function moment(order, fulfillment) {
  const arrivedAt = { delivered: fulfillment.deliveredAt, pickedUp: fulfillment.pickedUpAt };
  if (fulfillment.status in arrivedAt) return arrivedAt[fulfillment.status] && day(arrivedAt[fulfillment.status]);
  if (order.status !== "open" || ["issue", "cancelled"].includes(fulfillment.status)) return undefined;
  if (fulfillment.estimatedDeliveryAt) return "Estimated " + day(fulfillment.estimatedDeliveryAt);
  return fulfillment.pickupAt && "From " + day(fulfillment.pickupAt);
}

function barcode(code) {
  if (!code) return [];
  return [el(
    "p", { class: "barcode" }, el("span", {}, BARCODES[code.format] || code.format), own(code.message),
    ...(code.altText && code.altText !== code.message ? [own(code.altText)] : []))];
}

/** A link to a document in the order's package. */
function documentLink(order, name, text) {
  const isThere = (order.files || []).some((file) => file.name === name || file.name.endsWith(`.lproj/${name}`));
  if (!isThere) return el("span", {}, own(name), " is not in the package");
  const path = name.split("/").map(encodeURIComponent).join("/");
  return el("a", {
    href: `/playground/orders/${encodeURIComponent(order.orderIdentifier)}/files/${path}`, target: "_blank", rel: "noopener",
  }, text);
}

/** The four steps to the customer, of which some are reached. */
const track = (reached) => el(
  "div", { class: "track", "aria-hidden": "true" },
  ...[1, 2, 3, 4].map((step) => el("i", { class: reached >= step ? "on" : "" })));

/** A parcel or a pickup. The state of the only one is the order's headline. */
function part(order, fulfillment, isOnly) {
  const lines = [];
  if (!isOnly) lines.push(el("p", { class: "part" }, words(fulfillment.status)));
  const reached = order.status === "cancelled" || STEPS[fulfillment.status] === undefined ? undefined
    : order.status === "completed" ? 4 : STEPS[fulfillment.status];
  if (reached !== undefined) lines.push(track(reached));
  lines.push(...ownLine(fulfillment.statusDescription));
  const time = moment(order, fulfillment);
  if (time) lines.push(line(time));
  const { addressLines = [], locality, administrativeArea, postalCode } = fulfillment.address || {};
  lines.push(
    ...ownLine(fulfillment.displayName),
    ...ownLine([...addressLines, locality, administrativeArea, postalCode].filter(Boolean).join(", ")));
  if (fulfillment.trackingNumber) lines.push(line(own(fulfillment.carrier || "Parcel"), " ", own(fulfillment.trackingNumber)));
  lines.push(...ownLine(fulfillment.notes), ...barcode(fulfillment.barcode));
  return el("div", { class: isOnly ? "" : "parts" }, ...lines);
}

function returned(order, one) {
  const lines = [el("p", { class: "part" }, RETURN_WORDS[one.status] || one.status)];
  lines.push(...ownLine(one.statusDescription));
  if (one.dropOffBy && ["open", "issue"].includes(one.status)) lines.push(line("Drop off by " + day(one.dropOffBy)));
  if (one.returnedAt) lines.push(line(day(one.returnedAt)));
  if (one.returnNumber) lines.push(line("Return ", own(one.returnNumber)));
  lines.push(...ownLine(one.carrier), ...ownLine(one.notes));
  if (one.returnLabel) lines.push(line(documentLink(order, one.returnLabel, "Open the return label")));
  return el("div", { class: "parts" }, ...lines);
}

function paid(order, { transactionType, amount, status, receipt }) {
  const title = `${transactionType === "refund" ? "Refund" : "Purchase"} ${money(amount)}`;
  const isDone = ["approved", "completed"].includes(status);
  const parts = [isDone ? title : `${title}, ${status}`];
  if (receipt) parts.push(" · ", documentLink(order, receipt, "Open the receipt"));
  return line(...parts);
}

/** @param published the session's order, with the packager's verdict on it; undefined if it is not known yet. */
function pass(order, published = {}, version, isFresh) {
  const number = order.orderNumber || published.orderNumber || order.orderIdentifier;
  const card = (...children) => el("article", {
    class: isFresh ? "pass fresh" : "pass", "data-order": order.orderIdentifier, "aria-label": `Order ${number}`,
  }, ...children);
  if (order.isAwaited !== undefined) {
    return card(
      line("Order ", own(number)), el("p", { class: "waits" }, headline(order)),
      line(published.fault ? `The packager refuses it: ${published.fault}`
        : order.isAwaited ? "The device has the order details, and asks the web service."
          : "Wallet has the order details only. The transcript says what the web service answered."));
  }
  const { fulfillments = [], transactions = [] } = order;
  const count = (order.lineItems || []).reduce((sum, item) => sum + (item.quantity || 1), 0);
  const updates = published.isRemoved ? "Removed by the shop" : order.isRegistered ? "Updates on" : "No updates";
  return card(
    el(
      "div", { class: "row" }, el("h3", { dir: "auto" }, order.merchant || "Order"),
      el("span", { class: "amount" }, order.total ? money(order.total) : "")),
    line("Order ", own(number)),
    el("p", { class: "state" }, headline(order)),
    ...(fulfillments.length === 0 && order.status === "completed" ? [track(4)] : []),
    ...ownLine(order.statusDescription),
    ...fulfillments.map((one) => part(order, one, fulfillments.length === 1)),
    ...(order.returns || []).map((one) => returned(order, one)),
    transactions.length > 0 ? el("div", { class: "parts" }, ...transactions.map((one) => paid(order, one))) : "",
    ...barcode(order.barcode),
    ...(count > 0 ? [line(count === 1 ? "1 item" : `${count} items`)] : []),
    line(updates, version ? ` · version ${version}` : ""));
}

class Device {
  constructor(transcript) {
    this.orders = document.querySelector("#device-orders");
    this.log = document.querySelector("#device-log");
    this.summary = document.querySelector("#device-summary");
    this.status = document.querySelector("#device-status");
    this.pane = document.querySelector("#device");
    this.versions = new Map();
    this.ordinals = new Map();
    const wide = matchMedia("(min-width: 1021px)");
    const fit = () => { this.pane.open = wide.matches; };
    wide.addEventListener("change", fit);
    fit();
    transcript.listeners.add(() => this.drawLog(transcript));
    this.draw([]);
  }

  /**
   * @param orders the device's orders, newest first.
   * @param published the session's orders, with the number of each version that the packager made.
   */
  draw(orders, published = []) {
    for (const { orderIdentifier, updatedAt, ordinal } of published) {
      this.ordinals.set(`${orderIdentifier} ${updatedAt}`, ordinal);
    }
    const ordinal = (order) => this.ordinals.get(`${order.orderIdentifier} ${order.updatedAt}`);
    const known = (order) => published.find(({ orderIdentifier }) => orderIdentifier === order.orderIdentifier);
    this.pane.classList.toggle("has-orders", orders.length > 0);
    if (orders.length === 0) {
      this.orders.replaceChildren(el("p", { class: "empty" }, "No orders yet. Pay in step 1 or 2, and the order appears here."));
      this.summary.textContent = "No orders";
      return;
    }
    const key = JSON.stringify(orders.map((order) => {
      const { isRemoved, fault, orderNumber } = known(order) || {};
      return [order, ordinal(order), isRemoved, fault, orderNumber];
    }));
    if (key === this.key) return;
    this.key = key;
    // The link that has the focus keeps it.
    const { activeElement } = document;
    const focused = this.orders.contains(activeElement) && activeElement.href;
    this.orders.replaceChildren(...orders.map((order) => {
      const before = this.versions.get(order.orderIdentifier);
      this.versions.set(order.orderIdentifier, order.updatedAt);
      return pass(order, known(order), ordinal(order), before !== order.updatedAt);
    }));
    const twin = focused && [...this.orders.querySelectorAll("a")].find(({ href }) => href === focused);
    if (twin) twin.focus({ preventScroll: true });
    const told = `${orders[0].orderNumber || ""} ${headline(orders[0])}`.trim();
    this.summary.textContent = told;
    if (this.status.textContent !== told) this.status.textContent = told;
  }

  drawLog(transcript) {
    const mine = transcript.entries.filter((entry) => entry.from === "device" || entry.to === "device").slice(-6);
    this.log.replaceChildren(...mine.map((entry) => el("li", {}, entry.title)));
  }
}

export { Device, headline };
