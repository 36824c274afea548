// The simulated device beside the page, and the orders in its Wallet.

import { el } from "./editor.mjs";

const WORDS = {
  open: "Order placed", processing: "Processing", onTheWay: "On the way", outForDelivery: "Out for delivery",
  delivered: "Delivered", shipped: "Shipped", readyForPickup: "Ready for pickup", pickedUp: "Picked up",
  issue: "There is an issue", completed: "Completed", cancelled: "Cancelled",
};
const STEPS = { open: 0, processing: 1, shipped: 2, onTheWay: 2, readyForPickup: 2, outForDelivery: 3, delivered: 4, pickedUp: 4 };
const words = (status) => WORDS[status] || status || "";

const day = (text) => new Date(text).toLocaleString("en-US", { weekday: "short", month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });

/** Returns the state that a customer reads first. */
function headline(order) {
  const fulfillment = (order.fulfillments || [])[0];
  if (order.status === "cancelled" || !fulfillment) return words(order.status);
  return words(fulfillment.status);
}

function pass(order, version, isFresh) {
  const fulfillment = (order.fulfillments || [])[0] || {};
  const lines = [];
  if (fulfillment.status === "delivered" && fulfillment.deliveredAt) lines.push(day(fulfillment.deliveredAt));
  else if (fulfillment.estimatedDeliveryAt) lines.push("Estimated " + day(fulfillment.estimatedDeliveryAt));
  else if (fulfillment.pickupAt) lines.push("From " + day(fulfillment.pickupAt));
  if (fulfillment.trackingNumber) lines.push(`${fulfillment.carrier || "Parcel"} ${fulfillment.trackingNumber}`);
  const count = (order.lineItems || []).reduce((sum, item) => sum + (item.quantity || 1), 0);
  if (count > 0) lines.push(count === 1 ? "1 item" : `${count} items`);
  const reached = order.status === "completed" ? 4 : STEPS[fulfillment.status];
  const track = el("div", { class: "track", "aria-hidden": "true" });
  for (let step = 1; step <= 4; step += 1) track.append(el("i", { class: reached >= step ? "on" : "" }));
  const total = order.total ? `${order.total.amount} ${order.total.currency}` : "";
  return el(
    "article", {
      class: isFresh ? "pass fresh" : "pass", "data-order": order.orderIdentifier,
      "aria-label": `Order ${order.orderNumber || order.orderIdentifier}`,
    },
    el("div", { class: "row" }, el("h3", {}, order.merchant || "Order"), el("span", { class: "amount" }, total)),
    el("p", { class: "what" }, `Order ${order.orderNumber || order.orderIdentifier}`),
    el("p", { class: "state" }, headline(order)),
    reached === undefined ? "" : track,
    ...lines.map((line) => el("p", { class: "what" }, line)),
    el("p", { class: "what" }, order.isRegistered ? "Updates on" : "No updates", version ? ` · version ${version}` : ""));
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
    this.pane.classList.toggle("has-orders", orders.length > 0);
    if (orders.length === 0) {
      this.orders.replaceChildren(el("p", { class: "empty" }, "No orders yet. Pay in step 1 or 2, and the order appears here."));
      this.summary.textContent = "No orders";
      return;
    }
    const key = JSON.stringify([orders, orders.map(ordinal)]);
    if (key === this.key) return;
    this.key = key;
    this.orders.replaceChildren(...orders.map((order) => {
      const before = this.versions.get(order.orderIdentifier);
      this.versions.set(order.orderIdentifier, order.updatedAt);
      return pass(order, ordinal(order), before !== order.updatedAt);
    }));
    const told = `${orders[0].orderNumber || ""} ${headline(orders[0])}`;
    this.summary.textContent = told;
    if (this.status.textContent !== told) this.status.textContent = told;
  }

  drawLog(transcript) {
    const own = transcript.entries.filter((entry) => entry.from === "device" || entry.to === "device").slice(-6);
    this.log.replaceChildren(...own.map((entry) => el("li", {}, entry.title)));
  }
}

export { Device, headline };
