// What the steps between creating and updating show: the package, the registration and its end, of the latest order.

import { call, reasonOf } from "./call.mjs";
import { el } from "./editor.mjs";
import { entryText, mask } from "./transcript.mjs";

const kilobytes = (count) => (count < 1000 ? `${count} bytes` : `${(count / 1000).toFixed(1)} kB`);

class Steps {
  /** @param transcript the page's transcript. */
  constructor(transcript) {
    this.transcript = transcript;
    this.verdict = document.querySelector("#unregister-verdict");
    this.button = document.querySelector("#unregister-button");
    this.button.addEventListener("click", () => this.unregister());
    transcript.listeners.add(() => this.drawExchanges());
    this.drawExchanges();
  }

  /** @param passes the device's orders, newest first. @param orders the session's orders. */
  draw(passes, orders) {
    const pass = passes.find(({ files }) => files && files.length > 0);
    if (pass) this.drawPackage(pass, orders.find(({ orderIdentifier }) => orderIdentifier === pass.orderIdentifier));
    const removed = new Set(orders.filter(({ isRemoved }) => isRemoved).map(({ orderIdentifier }) => orderIdentifier));
    this.registered = passes.find(({ isRegistered, orderIdentifier }) => isRegistered && !removed.has(orderIdentifier));
    this.button.disabled = !this.registered;
    this.button.textContent = this.registered
      ? `Turn off updates of ${this.registered.orderNumber || this.registered.orderIdentifier}` : "Turn off updates";
  }

  drawPackage(pass, order) {
    const key = `${pass.orderIdentifier} ${pass.updatedAt} ${order ? order.ordinal : ""}`;
    if (key === this.package) return;
    this.package = key;
    // The manifest has no line for itself and for its signature.
    const listed = pass.files.filter(({ name }) => name !== "manifest.json" && name !== "signature");
    const manifest = listed.reduce((all, { name, sha256 }) => Object.assign(all, { [name]: sha256 }), {});
    document.querySelector("#package-code").textContent = JSON.stringify(manifest, null, 2);
    const size = pass.files.reduce((sum, file) => sum + file.size, 0);
    document.querySelector("#package-note").textContent =
      `The manifest of order ${pass.orderNumber || pass.orderIdentifier}`
      + `${order ? `, version ${order.ordinal}` : ""}, as the device fetched and verified it: `
      + `${pass.files.length} files, ${kilobytes(size)}, signed at ${pass.signedAt}.`;
    document.querySelector("#package-files").replaceChildren(...pass.files.map(({ name, size: own }) => el(
      "li", {}, el("code", {}, name), ` ${kilobytes(own)}`)));
  }

  drawExchanges() {
    const last = (method) => this.transcript.entries.filter(({ request }) => request
      && request.method === method && request.url.includes("/registrations/")).pop();
    for (const [method, name] of [["POST", "register"], ["DELETE", "unregister"]]) {
      const entry = last(method);
      if (!entry) continue;
      document.querySelector(`#${name}-code`).textContent = mask(entryText(entry));
      document.querySelector(`#${name}-note`).textContent = "The exchange as it was, with secrets shortened:";
    }
  }

  async unregister() {
    const { orderIdentifier, orderNumber } = this.registered;
    this.button.disabled = true;
    const { status, answer } = await call("POST", `/playground/orders/${orderIdentifier}/unregister`);
    this.verdict.className = status === 202 ? "verdict good" : "verdict bad";
    this.verdict.textContent = status === 202
      ? `The device takes back its registration for ${orderNumber || orderIdentifier}: it hears of no further change.`
      : reasonOf(answer, "The registration could not be taken back.");
    this.button.disabled = status === 202;
  }
}

export { Steps };
