// A stand-in for Apple Pay in browsers without it: for development and tests, never for customers.
// As strict as WebKit where that is known: states, errors, gestures, versions, order details.
//
//   <script src="/applepay/polyfill.js" data-hosts="shop.test" data-wallet="/playground/wallet"></script>
//
// data-hosts: hosts besides loopback on which it works. data-wallet: URL that gets the order details of a successful
// payment, as a device would. data-time-scale: factor for all its waiting times (with 0.01, 30 s become 0.3 s).
(() => {
  "use strict";
  const settings = (document.currentScript && document.currentScript.dataset) || {};
  const hosts = ["localhost", "127.0.0.1", "[::1]"].concat((settings.hosts || "").split(/[\s,]+/).filter(Boolean));
  if (!hosts.includes(location.hostname)) {
    console.error(`Waybill's Apple Pay polyfill does not work on ${location.hostname}: it is not in data-hosts.`);
    return;
  }
  /** True if this page can use Apple Pay: every static call throws on pages without https, also on loopback. */
  const hasApplePay = () => {
    try {
      window.ApplePaySession.canMakePayments();
      return true;
    } catch (error) {
      return false;
    }
  };
  if (hasApplePay()) {
    console.info("Waybill's Apple Pay polyfill stays away: this browser has Apple Pay.");
    return;
  }
  console.info("Waybill's Apple Pay polyfill is active. No payment is real.");

  const APPLE_PAY = "https://apple.com/apple-pay";
  const ANSWER_MILLISECONDS = 30000;
  const HIGHEST_VERSION = 15;
  const FIELDS = ["email", "name", "phone", "postalAddress", "phoneticName"];
  const NETWORKS = {
    amex: 1, chinaUnionPay: 1, discover: 1, iD: 1, interac: 1, masterCard: 1, privateLabel: 1, quicPay: 1, suica: 1,
    visa: 1, jcb: 2, electron: 4, maestro: 4, vPay: 4, cartesBancaires: 4, eftpos: 4, elo: 5, mada: 5, girocard: 11,
    mir: 11, dankort: 13, bancomat: 14, bancontact: 14, bankAxept: 15,
  };
  // Networks of later systems, which no version tells.
  for (const name of [
    "barcode", "nanaco", "waon", "postFinance", "postFinanceAG", "pagoBancomat", "tmoney", "meeza", "napas", "himyan",
    "jaywan", "myDebit", "conecs", "maal", "elcard", "elCorteIngles", "humo", "payPak", "ruPay", "uzCard", "verve",
  ]) NETWORKS[name] = 1;
  // The versions that show these members; older browsers ignore them.
  const MEMBER_VERSIONS = {
    couponCode: 12, supportsCouponCode: 12, recurringPaymentRequest: 14, automaticReloadPaymentRequest: 14,
    multiTokenContexts: 14, deferredPaymentRequest: 15,
  };
  const MODIFIER_MEMBERS = [
    "recurringPaymentRequest", "automaticReloadPaymentRequest", "deferredPaymentRequest", "multiTokenContexts",
    "disbursementRequest",
  ];
  const ERROR_CODES = [
    "shippingContactInvalid", "billingContactInvalid", "addressUnserviceable", "couponCodeInvalid",
    "couponCodeExpired", "unknown",
  ];
  const CONTACT_FIELDS = [
    "phoneNumber", "emailAddress", "name", "phoneticName", "postalAddress", "addressLines", "locality", "subLocality",
    "postalCode", "administrativeArea", "subAdministrativeArea", "country", "countryCode",
  ];
  const SESSION_MEMBERS = [
    "epochTimestamp", "expiresAt", "merchantSessionIdentifier", "nonce", "merchantIdentifier", "domainName",
    "displayName", "signature",
  ];

  const control = {
    transcript: [],
    /** The URL to which order details are posted for the simulated device; empty to post none. */
    wallet: settings.wallet || "",
    timeScale: Number(settings.timeScale || 1),
    validationURL: "https://apple-pay-gateway-cert.apple.com/paymentservices/paymentSession",
    /** A token from a sandbox run, in place of the made-up one. */
    token: undefined,
    contact: undefined,
    automatic: [],
    /** Sets the steps to take in place of a person, one each time the sheet is ready: "pay", "cancel" or "fail". */
    script(steps) { control.automatic = steps.slice(); },
  };
  const record = (title, detail) => {
    const entry = { time: Date.now(), title, detail: detail === undefined ? undefined : copy(detail) };
    control.transcript.push(entry);
    if (control.transcript.length > 500) control.transcript.shift();
    window.dispatchEvent(new CustomEvent("waybill:polyfill", { detail: entry }));
  };
  const copy = (value) => {
    try { return JSON.parse(JSON.stringify(value)); } catch (error) { return String(value); }
  };
  const invalidAccess = (message) => new DOMException(message, "InvalidAccessError");
  const later = (milliseconds, work) => setTimeout(work, milliseconds * control.timeScale);

  /** True in the handler of a user's click itself, as WebKit requires: a timer or a fetch after it is too late. */
  const isInGesture = () => {
    const event = window.event;
    return Boolean(event && event.isTrusted && ["click", "touchend", "keydown", "mouseup"].includes(event.type));
  };

  // --- The checks of a payment request ---------------------------------------------------------------------------

  /** Returns the problems of a request: `[{path, message}]`, with JSON paths. */
  function problems(request, version) {
    const found = [];
    const add = (path, message) => { if (found.length < 100) found.push({ path, message }); };
    const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
    const text = (value, path) => {
      if (typeof value !== "string" || value === "") add(path, "must be a text that is not empty");
    };
    const amount = (value, path, isSigned) => {
      const pattern = isSigned ? /^-?\d{1,9}(\.\d{1,4})?$/ : /^\d{1,9}(\.\d{1,4})?$/;
      if (typeof value !== "string" || !pattern.test(value)) {
        add(path, isSigned ? "must be an amount such as \"19.99\"" : "must be an amount that is not negative");
      }
    };
    const oneOf = (value, names, path) => {
      if (value !== undefined && !names.includes(value)) add(path, `must be one of ${names.join(", ")}`);
    };
    const item = (value, path, isTotal) => {
      if (!isObject(value)) return add(path, "must be an object");
      text(value.label, path + ".label");
      oneOf(value.type, ["final", "pending"], path + ".type");
      if (value.amount !== undefined || value.type !== "pending" || isTotal) {
        amount(value.amount, path + ".amount", !isTotal);
      }
      return undefined;
    };
    const list = (value, path, each, isRequired) => {
      if (value === undefined && !isRequired) return;
      if (!Array.isArray(value) || (isRequired && value.length === 0)) {
        add(path, isRequired ? "must be an array with at least one element" : "must be an array");
        return;
      }
      value.forEach((element, index) => each(element, `${path}[${index}]`));
    };
    if (!isObject(request)) return [{ path: "$", message: "must be an object" }];
    if (typeof request.countryCode !== "string" || !/^[A-Z]{2}$/.test(request.countryCode)) {
      add("$.countryCode", "must be two capital letters, such as \"US\"");
    }
    if (typeof request.currencyCode !== "string" || !/^[A-Z]{3}$/.test(request.currencyCode)) {
      add("$.currencyCode", "must be three capital letters, such as \"USD\"");
    }
    list(request.supportedNetworks, "$.supportedNetworks", (network, path) => {
      if (typeof network !== "string" || !/^[a-z][A-Za-z0-9]{1,63}$/.test(network)) {
        add(path, "must be a network's name, such as \"visa\"");
      } else if (!NETWORKS[network]) {
        // Apple adds networks; a real browser refuses those that it does not know.
        console.info(`Waybill's polyfill does not know the network "${network}".`);
      } else if (NETWORKS[network] > version) {
        add(path, `needs version ${NETWORKS[network]}`);
      }
    }, true);
    list(request.merchantCapabilities, "$.merchantCapabilities", (name, path) =>
      oneOf(name, ["supports3DS", "supportsEMV", "supportsCredit", "supportsDebit", "supportsInstantFundsOut"], path), true);
    if (Array.isArray(request.merchantCapabilities) && !request.merchantCapabilities.includes("supports3DS")) {
      add("$.merchantCapabilities", "must have \"supports3DS\" among them");
    }
    item(request.total, "$.total", true);
    if (isObject(request.total) && Number(request.total.amount) === 0 && version < 4) {
      add("$.total.amount", "must be above zero before version 4");
    }
    if (isObject(request.total) && Number(request.total.amount) > 100000000) add("$.total.amount", "is too large");
    list(request.lineItems, "$.lineItems", (value, path) => item(value, path, false));
    const identifiers = new Set();
    list(request.shippingMethods, "$.shippingMethods", (value, path) => {
      if (!isObject(value)) { add(path, "must be an object"); return; }
      text(value.label, path + ".label");
      text(value.identifier, path + ".identifier");
      if (typeof value.detail !== "string") add(path + ".detail", "must be a text, which may be empty");
      amount(value.amount, path + ".amount", false);
      if (identifiers.has(value.identifier)) add(path + ".identifier", "is there twice");
      identifiers.add(value.identifier);
    });
    for (const name of ["requiredBillingContactFields", "requiredShippingContactFields"]) {
      list(request[name], "$." + name, (value, path) => oneOf(value, FIELDS, path));
    }
    oneOf(request.shippingType, ["shipping", "delivery", "storePickup", "servicePickup"], "$.shippingType");
    oneOf(request.shippingContactEditingMode, ["available", "enabled", "storePickup"], "$.shippingContactEditingMode");
    const special = [
      "recurringPaymentRequest", "automaticReloadPaymentRequest", "deferredPaymentRequest", "multiTokenContexts",
    ].filter((name) => request[name] !== undefined);
    if (special.length > 1) add("$." + special[1], `cannot be used with ${special[0]}`);
    for (const name of Object.keys(MEMBER_VERSIONS)) {
      if (request[name] !== undefined && MEMBER_VERSIONS[name] > version) {
        add("$." + name, `needs version ${MEMBER_VERSIONS[name]}`);
      }
    }
    if (request.merchantCategoryCode !== undefined && !/^\d{4}$/.test(request.merchantCategoryCode)) {
      add("$.merchantCategoryCode", "must have four digits, such as \"5411\"");
    }
    const { freeCancellationDate: date, freeCancellationDateTimeZone: zone } = request.deferredPaymentRequest || {};
    if ((date === undefined) !== (zone === undefined)) {
      const missing = date === undefined ? "freeCancellationDate" : "freeCancellationDateTimeZone";
      add(`$.deferredPaymentRequest.${missing}`, "must be there with the other one of the two");
    }
    try { if (zone !== undefined) Intl.DateTimeFormat("en", { timeZone: zone }); } catch (error) {
      add("$.deferredPaymentRequest.freeCancellationDateTimeZone", "must be a time zone, such as \"Europe/London\"");
    }
    return found;
  }

  /** Returns the four members, by the rules of browsers, which check neither lengths nor the scheme. */
  function orderDetails(value) {
    if (value === undefined || value === null) return undefined;
    if (typeof value !== "object") throw new TypeError("orderDetails must be an object");
    const details = {};
    for (const name of ["orderTypeIdentifier", "orderIdentifier", "webServiceURL", "authenticationToken"]) {
      if (value[name] === undefined) throw new TypeError(`Member orderDetails.${name} is required`);
      details[name] = String(value[name]);
    }
    try { details.webServiceURL = new URL(details.webServiceURL).href.replace(/\/$/, ""); } catch (error) {
      throw new TypeError(`"${details.webServiceURL}" is not a valid URL.`);
    }
    return details;
  }

  // --- The customer -------------------------------------------------------------------------------------------

  const people = {
    US: {
      givenName: "Jane", familyName: "Appleseed", emailAddress: "jane@example.com", phoneNumber: "+14085550100",
      addressLines: ["1 Orchard Road"], locality: "Cupertino", administrativeArea: "CA", postalCode: "95014",
      country: "United States", countryCode: "US",
    },
    GB: {
      givenName: "Jane", familyName: "Appleseed", emailAddress: "jane@example.com", phoneNumber: "+442079460000",
      addressLines: ["1 Fleet Place"], locality: "London", administrativeArea: "", postalCode: "EC4M 7WS",
      country: "United Kingdom", countryCode: "GB",
    },
    DE: {
      givenName: "Jana", familyName: "Apfel", emailAddress: "jana@example.com", phoneNumber: "+493055501000",
      addressLines: ["Beispielweg 1"], locality: "Berlin", administrativeArea: "", postalCode: "10115",
      country: "Deutschland", countryCode: "DE",
    },
  };
  const contactOf = (request) => control.contact || people[request.countryCode] || people.US;

  /** Returns the contact as a shop sees it before the payment is authorised. */
  function redacted(contact) {
    const shown = {};
    for (const name of ["locality", "postalCode", "administrativeArea", "country", "countryCode"]) {
      shown[name] = contact[name] || "";
    }
    if (contact.countryCode === "GB") shown.postalCode = contact.postalCode.split(" ")[0];
    if (contact.countryCode === "CA") shown.postalCode = contact.postalCode.slice(0, 3);
    return shown;
  }

  const bytes = (count) => {
    const values = crypto.getRandomValues(new Uint8Array(count));
    return btoa(String.fromCharCode(...values));
  };
  const digits = (count) => [...crypto.getRandomValues(new Uint8Array(count / 2))]
    .map((value) => value.toString(16).padStart(2, "0")).join("");

  function payment(request, contact) {
    const identifier = digits(64);
    const made = {
      token: control.token || {
        paymentData: {
          version: "EC_v1", data: bytes(280), signature: bytes(1800),
          header: { ephemeralPublicKey: bytes(91), publicKeyHash: bytes(32), transactionId: identifier },
        },
        paymentMethod: { displayName: "Visa 1234", network: "Visa", type: "debit" },
        transactionIdentifier: identifier,
      },
    };
    const pick = (names) => names.reduce((all, name) => Object.assign(all, { [name]: contact[name] }), {});
    const address = [
      "addressLines", "locality", "administrativeArea", "postalCode", "country", "countryCode",
    ];
    const wanted = (fields, canContact) => {
      if (!fields || fields.length === 0) return undefined;
      let names = [];
      if (fields.includes("name")) names = names.concat("givenName", "familyName");
      if (fields.includes("postalAddress")) names = names.concat(address);
      // Only the shipping contact has a phone number and an email address.
      if (canContact && fields.includes("phone")) names = names.concat("phoneNumber");
      if (canContact && fields.includes("email")) names = names.concat("emailAddress");
      return pick(names);
    };
    const billing = wanted(request.requiredBillingContactFields, false);
    const shipping = wanted(request.requiredShippingContactFields, true);
    if (billing) made.billingContact = billing;
    if (shipping) made.shippingContact = shipping;
    return made;
  }

  function handOver(details) {
    record("details handed to the device", details);
    if (!control.wallet) return;
    fetch(control.wallet, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ orderDetails: details }),
    }).then(
      (response) => record("the device took the details", { status: response.status }),
      (error) => record("the device is away", { message: error.message }));
  }

  // --- The sheet ----------------------------------------------------------------------------------------------

  const style = `
    :host { all: initial; color-scheme: light dark; }
    .shade { background: rgba(0, 0, 0, .45); inset: 0; position: fixed; z-index: 2147483647; }
    .sheet {
      background: #fff; border-radius: 18px 18px 0 0; bottom: 0; box-shadow: 0 10px 60px rgba(0, 0, 0, .4);
      box-sizing: border-box; color: #1d1d1f; display: flex; flex-direction: column;
      font: 15px/1.4 -apple-system, system-ui, "Helvetica Neue", sans-serif; left: 50%; max-height: 92vh;
      max-width: 400px; overflow-wrap: anywhere; padding: 18px 0 22px; position: absolute; transform: translateX(-50%);
      width: 100%;
    }
    @media (min-width: 600px) {
      .sheet { border-radius: 18px; bottom: auto; top: 50%; transform: translate(-50%, -50%); }
    }
    header { align-items: center; display: flex; justify-content: space-between; margin-bottom: 10px; }
    h2 { font-size: 17px; font-weight: 600; margin: 0; }
    .badge {
      background: #fff4ce; border-radius: 6px; color: #6b4e00; font-size: 12px; margin: 0 0 12px; padding: 6px 9px;
    }
    dl { margin: 0; }
    dl div {
      align-items: baseline; border-top: 1px solid rgba(128, 128, 128, .25); display: flex; gap: 12px;
      justify-content: space-between; padding: 7px 0;
    }
    dt { color: #6e6e73; min-width: 0; } dd { margin: 0; min-width: 0; text-align: right; }
    dd.amount { flex: none; white-space: nowrap; }
    small { display: block; font-size: 12px; }
    label.choice { align-items: baseline; cursor: pointer; display: flex; flex: 1; gap: 8px; min-width: 0; }
    label.choice input { flex: none; margin: 0; }
    select, input[type="text"] {
      background: transparent; border: 1px solid #86868b; border-radius: 8px; box-sizing: border-box; color: inherit;
      font: inherit; min-height: 32px; min-width: 0; padding: 2px 8px; width: 100%;
    }
    form { align-items: center; display: flex; flex: 1; gap: 4px; min-width: 0; }
    .total { font-size: 19px; font-weight: 600; }
    .total dt { color: inherit; }
    .errors { color: #c00; margin: 8px 0 0; }
    .errors:empty { display: none; }
    dd.field { flex: 1; text-align: left; }
    dd.field .errors { margin: 4px 0 0; }
    .status { color: #6e6e73; margin: 12px 0; min-height: 1.4em; text-align: center; }
    .done { color: #1a7f37; font-weight: 600; }
    button { border: 0; border-radius: 10px; cursor: pointer; font: inherit; }
    button:focus-visible, select:focus-visible, input:focus-visible { outline: 3px solid #0071e3; outline-offset: 2px; }
    .pay { background: #000; color: #fff; font-weight: 600; min-height: 46px; }
    .pay:disabled { opacity: .4; cursor: default; }
    .plain { background: none; color: #0066cc; flex: none; min-height: 36px; padding: 0 8px; white-space: nowrap; }
    footer { display: flex; justify-content: center; margin-top: 8px; }
    .sheet > * { flex: none; margin-left: 20px; margin-right: 20px; }
    .sheet > .middle { flex: 0 1 auto; margin: 0; min-height: 60px; overflow: auto; padding: 0 20px; }
    @media (prefers-color-scheme: dark) {
      .sheet { background: #1c1c1e; color: #f5f5f7; } dt, .status { color: #a1a1a6; } .plain { color: #2997ff; }
      .pay { background: #fff; color: #000; } .badge { background: #4a3c00; color: #ffe9a8; }
      .errors { color: #ff6961; } .done { color: #30d158; }
    }`;
  const sheetOf = (root, text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    root.adoptedStyleSheets = [sheet];
  };
  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const key of Object.keys(attributes || {})) made.setAttribute(key, attributes[key]);
    made.append(...children);
    return made;
  };

  /** Returns the place on the sheet where an error is shown: at the address, at the coupon, or above the button. */
  const placeOf = ({ code }) => (["shippingContactInvalid", "addressUnserviceable"].includes(code) ? "contact"
    : ["couponCodeInvalid", "couponCodeExpired"].includes(code) ? "coupon" : "payment");

  const TIMINGS = { recurring: "again and again", deferred: "later", automaticReload: "when the balance is low" };
  const rangeText = (range) => [range.startDateComponents || {}, range.endDateComponents || {}].map((one) => (
    ["years", "months", "days", "hours"].filter((unit) => one[unit]).map((unit) => `${one[unit]} ${unit}`).join(" ")
  )).join(" to ");

  class Sheet {
    constructor(machine) {
      this.machine = machine;
      this.host = element("div", { "data-waybill-sheet": "" });
      this.root = this.host.attachShadow({ mode: "open" });
      sheetOf(this.root, style);
      this.status = element("p", { class: "status", role: "status" }, "Checking the merchant …");
      this.rows = element("dl");
      this.total = element("dl");
      this.errors = {};
      for (const place of ["contact", "coupon", "payment"]) {
        this.errors[place] = element("p", { class: `errors ${place}`, role: "alert" });
      }
      this.pay = element("button", { class: "pay", type: "button", disabled: "" }, "Pay");
      this.cancel = element("button", { class: "plain", type: "button" }, "Cancel");
      this.again = element("button", { class: "plain again", type: "button", hidden: "" }, "Try again");
      const fail = element("button", { class: "plain", type: "button" }, "Fail on the device");
      this.pay.addEventListener("click", () => machine.authorise());
      this.cancel.addEventListener("click", () => machine.cancel());
      this.again.addEventListener("click", () => machine.askAgain());
      fail.addEventListener("click", () => machine.cancel("unknown"));
      const shade = element("div", { class: "shade" }, element(
        "div", { class: "sheet", role: "dialog", "aria-modal": "true", "aria-label": "Simulated Apple Pay" },
        element("header", {}, element("h2", {}, "Pay"), this.cancel),
        element("p", { class: "badge" }, "Waybill's polyfill: nothing is charged."),
        element("div", { class: "middle" }, this.rows), this.total, this.errors.payment, this.status, this.pay,
        element("footer", {}, this.again, fail)));
      this.onKey = (event) => this.key(event);
      document.addEventListener("keydown", this.onKey, true);
      this.root.append(shade);
      this.before = document.activeElement;
      document.body.append(this.host);
      this.cancel.focus({ preventScroll: true });
      this.prepare();
    }

    /** Makes the parts that keep what a person typed or chose. */
    prepare() {
      const { machine } = this;
      this.contact = element("select", { "aria-label": "Deliver to" }, ...machine.contacts.map((one, index) => (
        element("option", { value: String(index) }, `${one.givenName} ${one.familyName}, ${one.locality}`))));
      this.contact.addEventListener("change", () => machine.choose(
        "shippingcontactselected", () => { machine.contact = machine.contacts[Number(this.contact.value)]; }));
      this.coupon = element("input", { type: "text", "aria-label": "Coupon code", autocomplete: "off" });
      this.coupon.value = machine.request.couponCode || "";
      this.form = element(
        "form", {}, this.coupon, element("button", { class: "plain apply", type: "submit" }, "Apply"));
      this.form.addEventListener("submit", (event) => {
        event.preventDefault();
        machine.choose("couponcodechanged", () => { machine.request.couponCode = this.coupon.value; });
      });
    }

    show(request) {
      const { machine } = this;
      const row = (label, ...values) => element(
        "div", {}, element("dt", { dir: "auto" }, label), element("dd", {}, ...values));
      const field = (label, control, errors) => {
        const made = row(label, control, errors);
        made.lastChild.className = "field";
        return made;
      };
      const price = (label, item, name) => {
        const made = row(label, `${item.amount === undefined ? "pending" : item.amount} ${request.currencyCode}`);
        made.className = name;
        made.lastChild.className = "amount";
        return made;
      };
      const rows = [row("Card", "Visa •••• 1234")];
      if (machine.wantsAddress()) {
        this.contact.value = String(machine.contacts.indexOf(machine.contact));
        rows.push(field("Deliver to", this.contact, this.errors.contact));
      } else if ((request.requiredShippingContactFields || []).length > 0) {
        rows.push(row("Contact", `${machine.contact.givenName} ${machine.contact.familyName}`));
      }
      for (const method of (request.shippingMethods || []).slice(0, 20)) {
        const input = element("input", { type: "radio", name: "method", value: method.identifier });
        input.checked = method.identifier === machine.shippingMethod;
        input.addEventListener("change", () => machine.choose(
          "shippingmethodselected", () => { machine.shippingMethod = method.identifier; }));
        const text = element("span", { dir: "auto" }, method.label);
        if (method.detail) text.append(element("small", {}, method.detail));
        if (method.dateComponentsRange) text.append(element("small", {}, rangeText(method.dateComponentsRange)));
        rows.push(price(element("label", { class: "choice" }, input, text), method, "method"));
      }
      for (const item of (request.lineItems || []).slice(0, 100)) {
        const made = price(item.label, item, "item");
        if (item.paymentTiming && item.paymentTiming !== "immediate") {
          made.firstChild.append(element("small", {}, TIMINGS[item.paymentTiming] || item.paymentTiming));
        }
        rows.push(made);
      }
      if (request.supportsCouponCode) rows.push(field("Coupon", this.form, this.errors.coupon));
      // What has the focus keeps it.
      const focused = this.root.activeElement;
      this.rows.replaceChildren(...rows);
      if (focused && focused !== this.root.activeElement) {
        const twin = focused.name === "method"
          ? [...this.rows.querySelectorAll("[name=method]")].find(({ value }) => value === focused.value) : focused;
        (twin && twin.isConnected && !twin.disabled ? twin : this.cancel).focus({ preventScroll: true });
      }
      this.total.replaceChildren(price("Pay " + request.total.label, request.total, "total"));
    }

    say(text, isDone) {
      this.status.textContent = text;
      this.status.classList.toggle("done", Boolean(isDone));
    }

    /** Keeps the keyboard in the sheet, also when nothing there has the focus. */
    key(event) {
      if (event.key === "Escape") this.machine.cancel();
      if (event.key !== "Tab") return;
      const stops = [...this.root.querySelectorAll("button, select, input")].filter((one) => (
        !one.disabled && !one.hidden && (one.type !== "radio" || one.checked)));
      const place = stops.indexOf(this.root.activeElement) + (event.shiftKey ? -1 : 1);
      event.preventDefault();
      stops[(place + stops.length) % stops.length].focus();
    }

    setReady(isReady) {
      // A button that is disabled loses the focus.
      if (!isReady && this.root.activeElement === this.pay) this.cancel.focus({ preventScroll: true });
      this.pay.disabled = !isReady;
      if (isReady && this.root.activeElement === this.cancel) this.pay.focus({ preventScroll: true });
    }

    /** Shows each error at its place; `canAsk`: the question that they answer can be asked again. */
    tellErrors(errors, canAsk) {
      for (const place of Object.keys(this.errors)) {
        this.errors[place].textContent = errors.filter((error) => placeOf(error) === place)
          .map((error) => error.message || error.code).join(" ");
      }
      if (this.root.activeElement === this.again && !canAsk) this.cancel.focus({ preventScroll: true });
      this.again.hidden = !canAsk;
    }

    close() {
      document.removeEventListener("keydown", this.onKey, true);
      // A page that has moved the focus keeps it.
      const hasFocus = [this.host, document.body].includes(document.activeElement);
      this.host.remove();
      if (hasFocus && this.before && this.before.focus) this.before.focus();
    }
  }

  // --- The course of a payment, the same for both APIs ----------------------------------------------------------

  let current;
  const usedSessions = new Set();

  /** States: idle, active, authorized, completed, canceled, aborted. `side` is the API that dispatches the events. */
  class Machine {
    constructor(version, request, side) {
      this.version = version;
      this.request = copy(request);
      this.side = side;
      this.state = "idle";
      this.awaited = undefined;
      this.isValidated = false;
      const own = contactOf(request);
      this.contacts = [own].concat(Object.values(people).filter((one) => one !== own));
      this.contact = own;
      /** Errors by the question that they answer; none stands while the payment can be authorised. */
      this.errors = {};
      this.selectMethod();
    }

    /** Keeps the selected method, if it still exists; else the one that says so is selected, or the first. */
    selectMethod() {
      const methods = this.request.shippingMethods || [];
      const selected = methods.find((method) => method.selected)
        || methods.find((method) => method.identifier === this.shippingMethod) || methods[0];
      this.shippingMethod = selected && selected.identifier;
      for (const method of methods) delete method.selected;
    }

    begin() {
      if (this.state !== "idle") throw invalidAccess("Payment session is not idle.");
      if (current) throw invalidAccess("Page already has an active payment session.");
      current = this;
      this.state = "active";
      record("begin", { version: this.version, request: this.request });
      this.sheet = new Sheet(this);
      this.sheet.show(this.request);
      setTimeout(() => this.ask("validatemerchant", { validationURL: control.validationURL }));
    }

    /** Sends the page an event that it must answer in time. */
    ask(name, detail) {
      if (this.state !== "active" && this.state !== "authorized") return;
      record(name, name === "paymentauthorized" ? { shape: shapeOf(detail.payment) } : detail);
      this.awaited = name;
      this.alarm = later(ANSWER_MILLISECONDS, () => {
        record("no answer in time", { event: name });
        this.cancel("unknown");
      });
      if (this.side.tell(name, detail)) return;
      // Without a handler, validatemerchant and paymentauthorized end the session; other events change nothing.
      clearTimeout(this.alarm);
      this.awaited = undefined;
      if (name === "validatemerchant") this.abort();
      else if (name === "paymentauthorized") this.cancel();
      else this.proceed(name);
    }

    answered(name) {
      if (this.awaited !== name) throw invalidAccess(`No answer to ${name} is awaited.`);
      clearTimeout(this.alarm);
      this.awaited = undefined;
    }

    completeMerchantValidation(session) {
      if (this.state !== "active" || this.awaited !== "validatemerchant") {
        throw invalidAccess("The session is not validating a merchant.");
      }
      if (session === null || typeof session !== "object") throw new TypeError("The merchant session must be an object.");
      this.answered("validatemerchant");
      const missing = SESSION_MEMBERS.filter((name) => session[name] === undefined);
      const fault = missing.length > 0 ? `it lacks ${missing.join(", ")}`
        : session.domainName !== location.hostname ? `it is for ${session.domainName}, not ${location.hostname}`
          : session.expiresAt < Date.now() ? "it has expired"
            : usedSessions.has(session.nonce) ? "it was used before" : undefined;
      record("merchant session", fault ? { refused: fault } : {
        displayName: session.displayName, domainName: session.domainName,
      });
      if (fault) {
        // Devices give no reason here: the sheet just closes.
        console.error(`Waybill's polyfill refuses the merchant session: ${fault}.`);
        setTimeout(() => this.cancel());
        return;
      }
      usedSessions.add(session.nonce);
      this.isValidated = true;
      this.sheet.say("");
      setTimeout(() => this.ask("paymentmethodselected", { paymentMethod: { type: "debit", network: "Visa" } }));
    }

    /** Continues as a device does after the page has answered an event. */
    proceed(name) {
      if (this.state !== "active") return;
      this.sheet.tellErrors(this.allErrors(), Object.keys(this.errors).length > 0);
      if (name === "paymentmethodselected" && this.wantsAddress() && !this.hasAddress) {
        this.hasAddress = true;
        this.question("shippingcontactselected");
        return;
      }
      const isReady = Object.keys(this.errors).length === 0;
      this.sheet.setReady(isReady);
      if (isReady) this.automate();
    }

    /** Takes the next of the steps that stand in for a person. */
    automate() {
      const step = control.automatic.shift();
      if (step === "pay") this.authorise();
      if (step === "cancel") this.cancel();
      if (step === "fail") this.cancel("unknown");
    }

    allErrors() { return [].concat(...Object.values(this.errors)); }

    /** Asks the page about what is chosen on the sheet. */
    question(name) {
      const details = {
        paymentmethodselected: () => ({ paymentMethod: { type: "debit", network: "Visa" } }),
        shippingcontactselected: () => ({ shippingContact: redacted(this.contact) }),
        shippingmethodselected: () => ({
          shippingMethod: copy(this.request.shippingMethods.find((one) => one.identifier === this.shippingMethod)),
        }),
        couponcodechanged: () => ({ couponCode: this.request.couponCode || "" }),
      };
      this.ask(name, details[name]());
    }

    /** A person chooses something on the sheet, which waits while another answer is awaited. */
    choose(name, change) {
      if (this.state !== "active" || !this.isValidated || this.awaited) {
        if (this.sheet) this.sheet.show(this.request);
        return;
      }
      change();
      this.sheet.setReady(false);
      this.sheet.say("");
      this.question(name);
    }

    askAgain() {
      const [name] = Object.keys(this.errors);
      if (name) this.choose(name, () => {});
    }

    wantsAddress() { return (this.request.requiredShippingContactFields || []).includes("postalAddress"); }

    update(name, update) {
      if (this.state !== "active" || this.awaited !== name) {
        throw invalidAccess("The session does not wait for this answer.");
      }
      const changed = Object.assign({}, this.request);
      for (const member of Object.keys(update).filter((one) => one.startsWith("new") && update[one])) {
        changed[member[3].toLowerCase() + member.slice(4)] = copy(update[member]);
      }
      const found = problems(changed, this.version);
      if (found.length > 0) throw new TypeError(`${found[0].path} ${found[0].message}`);
      this.answered(name);
      this.request = changed;
      this.selectMethod();
      this.sheet.show(changed);
      // An answer to a shipping method has no place for errors.
      const errors = name === "shippingmethodselected" ? [] : update.errors || [];
      delete this.errors[name];
      if (errors.length > 0) this.errors[name] = errors;
      const told = { newTotal: changed.total, errors: errors.length };
      if (update.newLineItems) told.newLineItems = changed.lineItems;
      if (update.newShippingMethods) told.newShippingMethods = changed.shippingMethods;
      record("answer to " + name, told);
      setTimeout(() => this.proceed(name));
    }

    authorise() {
      if (this.state !== "active" || !this.isValidated || this.awaited) return;
      this.sheet.setReady(false);
      this.sheet.tellErrors([], false);
      this.sheet.say("Processing …");
      this.state = "authorized";
      this.ask("paymentauthorized", { payment: payment(this.request, this.contact) });
    }

    /** Applies the page's result, whose order details are checked before anything is sent. Only errors keep the sheet. */
    finish(result) {
      if (this.state !== "authorized") throw invalidAccess("The payment is not authorized.");
      let details;
      try {
        details = orderDetails(result.orderDetails);
      } catch (error) {
        record("order details refused", { name: error.name, message: error.message });
        throw error;
      }
      this.answered("paymentauthorized");
      record("complete", { status: result.isSuccess ? "success" : "failure", hasOrderDetails: Boolean(details) });
      const errors = result.errors || [];
      if (errors.length > 0) {
        // Devices let the customer try again.
        this.state = "active";
        this.sheet.tellErrors(errors, false);
        this.sheet.say("Payment not completed");
        this.sheet.setReady(true);
        setTimeout(() => this.automate());
        return;
      }
      this.end("completed");
      this.sheet.say(result.isSuccess ? "Done" : "Payment not completed", result.isSuccess);
      if (details && result.isSuccess) handOver(details);
      later(700, () => this.sheet.close());
    }

    cancel(code) {
      if (this.state !== "active" && this.state !== "authorized") return;
      this.end("canceled");
      this.sheet.close();
      record("cancel", { code });
      this.side.tell("cancel", { sessionError: { code: code || "unknown", info: {} } });
    }

    abort() {
      if (this.state !== "active" && this.state !== "authorized") throw invalidAccess("The session is not active.");
      this.end("aborted");
      this.sheet.close();
      record("abort");
    }

    end(state) {
      clearTimeout(this.alarm);
      this.awaited = undefined;
      this.state = state;
      if (current === this) current = undefined;
    }
  }

  /** Returns the shape of a payment, without its bytes: names and lengths. */
  const shapeOf = (value) => {
    if (Array.isArray(value)) return value.map(shapeOf);
    if (value && typeof value === "object") {
      return Object.keys(value).reduce((all, name) => Object.assign(all, { [name]: shapeOf(value[name]) }), {});
    }
    return typeof value === "string" ? `${value.length} characters` : typeof value;
  };

  // --- Apple Pay JS -------------------------------------------------------------------------------------------

  const EVENTS = [
    "validatemerchant", "paymentmethodselected", "shippingcontactselected", "shippingmethodselected",
    "couponcodechanged", "paymentauthorized", "cancel",
  ];
  const machines = new WeakMap();
  const requireSecure = () => {
    if (!window.isSecureContext) throw invalidAccess("Trying to call an ApplePaySession API from an insecure context.");
  };

  class ApplePaySession extends EventTarget {
    constructor(version, request) {
      super();
      requireSecure();
      if (!Number.isInteger(version) || version < 1 || version > HIGHEST_VERSION) {
        throw invalidAccess(`"${version}" is not a supported version.`);
      }
      if (!isInGesture()) throw invalidAccess("Must create a new ApplePaySession from a user gesture handler.");
      const found = problems(request, version);
      if (found.length > 0) throw new TypeError(`Invalid payment request: ${found[0].path} ${found[0].message}`);
      for (const name of EVENTS) this["on" + name] = null;
      machines.set(this, new Machine(version, request, { tell: (name, detail) => this.#tell(name, detail) }));
    }

    #tell(name, detail) {
      const event = new Event(name);
      Object.assign(event, detail);
      const handler = this["on" + name];
      let isHeard = typeof handler === "function" || this.#heard.has(name);
      this.dispatchEvent(event);
      if (typeof handler === "function") handler.call(this, event);
      return isHeard;
    }

    #heard = new Set();

    addEventListener(name, ...rest) {
      this.#heard.add(name);
      super.addEventListener(name, ...rest);
    }

    begin() { machines.get(this).begin(); }
    abort() { machines.get(this).abort(); }
    completeMerchantValidation(session) { machines.get(this).completeMerchantValidation(session); }

    completePaymentMethodSelection(update, newLineItems) {
      this.#complete("paymentmethodselected", update, () => ({ newTotal: update, newLineItems }));
    }

    completeShippingMethodSelection(update, newTotal, newLineItems) {
      this.#complete("shippingmethodselected", update, () => ({ newTotal, newLineItems }));
    }

    completeShippingContactSelection(update, newShippingMethods, newTotal, newLineItems) {
      this.#complete("shippingcontactselected", update, () => ({ newShippingMethods, newTotal, newLineItems }));
    }

    completeCouponCodeChange(update) { this.#complete("couponcodechanged", update, () => update); }

    #complete(name, update, positional) {
      const machine = machines.get(this);
      // Before version 3, the arguments are positional.
      const told = machine.version < 3 ? positional() : update;
      if (told === null || typeof told !== "object" || !told.newTotal) {
        throw new TypeError("Member newTotal is required and must be an instance of ApplePayLineItem");
      }
      if (told.errors !== undefined) applePayErrors(told.errors);
      machine.update(name, told);
    }

    completePayment(result) {
      const machine = machines.get(this);
      if (machine.version < 3) {
        // An object becomes NaN, and that becomes 0, which is success.
        const status = Number(result) || 0;
        machine.finish({ isSuccess: status === ApplePaySession.STATUS_SUCCESS });
        return;
      }
      if (result === null || (typeof result !== "object" && typeof result !== "number")) {
        throw new TypeError("The result must be an object or a status");
      }
      const told = typeof result === "number" ? { status: result } : result;
      if (told.status === undefined) throw new TypeError("Member status is required and must be an instance of unsigned short");
      if (told.errors !== undefined) applePayErrors(told.errors);
      const isSuccess = Number(told.status) === ApplePaySession.STATUS_SUCCESS;
      machine.finish({ isSuccess, errors: told.errors, orderDetails: told.orderDetails });
    }

    static canMakePayments() {
      requireSecure();
      return true;
    }

    static supportsVersion(version) {
      requireSecure();
      if (!Number.isInteger(version) || version < 1) throw invalidAccess("The version must be a number from 1.");
      return version <= HIGHEST_VERSION;
    }

    static async applePayCapabilities() { return { paymentCredentialStatus: "paymentCredentialsAvailable" }; }
    static async canMakePaymentsWithActiveCard() { return true; }
    static async openPaymentSetup() { return true; }
  }
  const STATUSES = [
    "SUCCESS", "FAILURE", "INVALID_BILLING_POSTAL_ADDRESS", "INVALID_SHIPPING_POSTAL_ADDRESS",
    "INVALID_SHIPPING_CONTACT", "PIN_REQUIRED", "PIN_INCORRECT", "PIN_LOCKOUT",
  ];
  STATUSES.forEach((name, value) => {
    Object.defineProperty(ApplePaySession, "STATUS_" + name, { value });
    Object.defineProperty(ApplePaySession.prototype, "STATUS_" + name, { value });
  });

  class ApplePayError {
    constructor(code, contactField, message = "") {
      if (!ERROR_CODES.includes(code)) throw new TypeError(`"${code}" is no code of an ApplePayError`);
      if (contactField !== undefined && !CONTACT_FIELDS.includes(contactField)) {
        throw new TypeError(`"${contactField}" is no contact field of an ApplePayError`);
      }
      Object.assign(this, { code, contactField, message: String(message) });
    }
  }

  /** Returns a list of errors as it is, or throws what browsers throw for anything else. */
  const applePayErrors = (value) => {
    if (!Array.isArray(value) || !value.every((error) => error instanceof ApplePayError)) {
      throw new TypeError("The errors must be a sequence of ApplePayError");
    }
    return value;
  };

  // --- The Payment Request API -----------------------------------------------------------------------------------

  const NativePaymentRequest = window.PaymentRequest;

  class PaymentRequest extends EventTarget {
    constructor(methods, details, options = {}) {
      super();
      if (!Array.isArray(methods) || methods.length === 0) throw new TypeError("At least one payment method is required");
      const method = methods.find((candidate) => candidate.supportedMethods === APPLE_PAY);
      if (!method) {
        if (!NativePaymentRequest) throw new TypeError("no payment method is known");
        return new NativePaymentRequest(methods, details, options);
      }
      const data = method.data || {};
      if (!Number.isInteger(data.version) || data.version < 1) throw new TypeError("Member version is required");
      if (typeof data.merchantIdentifier !== "string") throw new TypeError("Member merchantIdentifier is required");
      this.id = details.id || digits(32);
      this.shippingAddress = null;
      this.shippingOption = null;
      for (const name of PaymentRequest.handlers) this["on" + name] = null;
      const fields = (data.requiredShippingContactFields || []).slice();
      for (const [option, field] of [
        ["requestPayerName", "name"], ["requestPayerEmail", "email"], ["requestPayerPhone", "phone"],
        ["requestShipping", "postalAddress"],
      ]) if (options[option] && !fields.includes(field)) fields.push(field);
      const own = { data, options, shown: false, details: Object.assign({}, details), heard: new Set() };
      this.waybill = own;
      if (details.shippingOptions && options.requestShipping) this.waybillSelect(details.shippingOptions);
      // The total and the items of a modifier count from the first answer on.
      const { newShippingMethods, special } = this.waybillCompute();
      const request = Object.assign({}, data, special, {
        currencyCode: details.total.amount.currency, total: toLine(details.total),
        lineItems: (details.displayItems || []).map(toLine),
      });
      if (newShippingMethods.length > 0) request.shippingMethods = newShippingMethods;
      delete request.version;
      delete request.merchantIdentifier;
      if (fields.length > 0) request.requiredShippingContactFields = fields;
      const found = problems(request, data.version);
      if (found.length > 0) throw new TypeError(`Invalid payment request: ${found[0].path} ${found[0].message}`);
      own.request = request;
    }

    addEventListener(name, ...rest) {
      this.waybill.heard.add(name);
      super.addEventListener(name, ...rest);
    }

    async canMakePayment() { return window.isSecureContext && this.waybill.data.version <= HIGHEST_VERSION; }

    show() {
      if (this.waybill.shown) return Promise.reject(new DOMException("The request was shown before.", "InvalidStateError"));
      if (!navigator.userActivation || !navigator.userActivation.isActive) {
        return Promise.reject(new DOMException("show() must be triggered by user activation.", "SecurityError"));
      }
      this.waybill.shown = true;
      return new Promise((resolve, reject) => {
        const side = { tell: (name, detail) => this.waybillTell(name, detail, resolve, reject) };
        const machine = new Machine(this.waybill.data.version, this.waybill.request, side);
        this.waybill.machine = machine;
        try { machine.begin(); } catch (error) { reject(new DOMException(error.message, "AbortError")); }
      });
    }

    async abort() {
      if (!this.waybill.machine) throw new DOMException("The request was not shown.", "InvalidStateError");
      this.waybill.machine.cancel();
    }

    /** The option that is selected is the last one that says so. */
    waybillSelect(options) {
      const selected = options.filter((option) => option.selected).pop();
      this.shippingOption = selected ? selected.id : null;
    }

    /** Returns what the details and the first modifier for Apple Pay make together. */
    waybillCompute() {
      const { details } = this.waybill;
      const data = (details.modifiers || []).filter((one) => one.supportedMethods === APPLE_PAY && one.data)
        .map((one) => JSON.parse(JSON.stringify(one.data)))
        .find((one) => one.paymentMethodType === undefined || one.paymentMethodType === "debit") || {};
      const special = {};
      for (const name of MODIFIER_MEMBERS) if (data[name] !== undefined) special[name] = data[name];
      const options = (details.shippingOptions || []).map((option) => ({
        label: option.label, detail: "", amount: option.amount.value, identifier: option.id,
        selected: option.id === this.shippingOption,
      }));
      return {
        newTotal: data.total || toLine(details.total), special,
        newLineItems: (details.displayItems || []).map(toLine).concat(data.additionalLineItems || []),
        newShippingMethods: options.concat(data.additionalShippingMethods || []),
      };
    }

    /** Returns the errors of an update or of `retry`, as WebKit finds them. */
    waybillErrors({ error, shippingAddress, payer, paymentMethod }, isRetry) {
      const { options, details } = this.waybill;
      const found = [];
      const add = (message, field) => {
        if (message !== undefined) found.push(new ApplePayError("shippingContactInvalid", field, message));
      };
      const each = (values, fields) => {
        for (const name of Object.keys(fields)) add((values || {})[name], fields[name]);
      };
      // Addresses are refused this way only while there are no shipping options.
      const hasOptions = (details.shippingOptions || []).length > 0;
      if (options.requestShipping && (isRetry || !hasOptions)) {
        add(error);
        each(shippingAddress, ADDRESS_FIELDS);
      }
      for (const [name, option] of [["name", "Name"], ["email", "Email"], ["phone", "Phone"]]) {
        if (options["requestPayer" + option]) each(payer, { [name]: PAYER_FIELDS[name] });
      }
      try {
        if (paymentMethod) found.push(...applePayErrors(paymentMethod));
      } catch (fault) {
        if (isRetry) throw fault;
        console.warn("Browsers ignore paymentMethodErrors that are no ApplePayErrors.");
      }
      return found;
    }

    waybillUpdate(name, told) {
      const { machine, details, options } = this.waybill;
      for (const member of ["total", "displayItems", "modifiers"]) if (told[member]) details[member] = told[member];
      if (told.shippingOptions && options.requestShipping) {
        details.shippingOptions = told.shippingOptions;
        this.waybillSelect(told.shippingOptions);
      }
      const { special, ...change } = this.waybillCompute();
      change.errors = this.waybillErrors({
        error: told.error, shippingAddress: told.shippingAddressErrors, payer: told.payerErrors,
        paymentMethod: told.paymentMethodErrors,
      }, false);
      machine.request = Object.assign({}, machine.request, special);
      machine.update(name, change);
    }

    waybillTell(name, detail, resolve, reject) {
      const { machine } = this.waybill;
      const end = (error) => {
        reject(error);
        if (this.waybill.response) this.waybill.response.waybillEnd(error);
      };
      if (name === "cancel") {
        end(new DOMException("The payment was canceled.", "AbortError"));
        return true;
      }
      if (name === "paymentauthorized") {
        // After `retry`, the same response has the next payment.
        const response = this.waybill.response || new PaymentResponse(this, machine);
        this.waybill.response = response;
        response.waybillAccept(detail.payment);
        resolve(response);
        return true;
      }
      const type = {
        validatemerchant: "merchantvalidation", shippingcontactselected: "shippingaddresschange",
        shippingmethodselected: "shippingoptionchange",
      }[name] || "paymentmethodchange";
      // A coupon is told as a payment method. Only that event may go unheard.
      const isHeard = typeof this["on" + type] === "function" || this.waybill.heard.has(type);
      if (type === "paymentmethodchange" && !isHeard) return false;
      const failed = (error) => {
        if (machine.state !== "active") return;
        machine.abort();
        end(error);
      };
      const event = new Event(type);
      if (type === "merchantvalidation") {
        event.methodName = APPLE_PAY;
        event.validationURL = detail.validationURL;
        event.complete = (session) => {
          Promise.resolve(session).then((value) => {
            try { machine.completeMerchantValidation(value); } catch (error) { failed(error); }
          }, () => failed(new DOMException("There is no merchant session.", "AbortError")));
        };
      } else {
        if (type === "paymentmethodchange") {
          event.methodName = APPLE_PAY;
          event.methodDetails = detail.paymentMethod || { couponCode: detail.couponCode };
        }
        if (name === "shippingmethodselected") this.shippingOption = detail.shippingMethod.identifier;
        if (name === "shippingcontactselected") {
          const contact = detail.shippingContact;
          this.shippingAddress = {
            country: contact.countryCode, postalCode: contact.postalCode, city: contact.locality,
            region: contact.administrativeArea,
          };
        }
        event.updateWith = (update) => {
          Promise.resolve(update).then((told) => {
            try { this.waybillUpdate(name, told || {}); } catch (error) { failed(error); }
          }, () => failed(new DOMException("The update was rejected.", "AbortError")));
        };
      }
      const handler = this["on" + type];
      this.dispatchEvent(event);
      if (typeof handler === "function") handler.call(this, event);
      return true;
    }
  }
  const toLine = (item) => {
    const made = { label: item.label, amount: item.amount.value };
    if (item.pending) made.type = "pending";
    return made;
  };
  PaymentRequest.handlers = [
    "merchantvalidation", "paymentmethodchange", "shippingaddresschange", "shippingoptionchange",
  ];
  const ADDRESS_FIELDS = {
    addressLine: "addressLines", city: "locality", country: "country", dependentLocality: "subLocality",
    phone: "phoneNumber", postalCode: "postalCode", recipient: "name", region: "administrativeArea",
  };
  const PAYER_FIELDS = { name: "name", email: "emailAddress", phone: "phoneNumber" };

  /** States: created, retrying, completed. */
  class PaymentResponse extends EventTarget {
    constructor(request, machine) {
      super();
      this.requestId = request.id;
      this.methodName = APPLE_PAY;
      Object.defineProperty(this, "waybill", { value: { request, machine, state: "created" } });
    }

    waybillAccept(details) {
      const { request } = this.waybill;
      const contact = details.shippingContact || {};
      const { shippingAddress, shippingOption } = request;
      Object.assign(this, { details, shippingAddress, shippingOption });
      this.payerName = contact.givenName ? `${contact.givenName} ${contact.familyName}` : null;
      this.payerEmail = contact.emailAddress || null;
      this.payerPhone = contact.phoneNumber || null;
      if (this.waybill.state !== "retrying") return;
      this.waybill.state = "created";
      this.waybill.resolve();
    }

    /** The customer has closed the sheet. */
    waybillEnd(error) {
      const { state, reject } = this.waybill;
      this.waybill.state = "completed";
      this.waybill.ended = error;
      if (state === "retrying") reject(error);
    }

    waybillRequire() {
      if (this.waybill.ended) throw this.waybill.ended;
      if (this.waybill.state !== "created") {
        throw new DOMException("The response was completed, or is being retried.", "InvalidStateError");
      }
    }

    async complete(status = "unknown", { data } = {}) {
      this.waybillRequire();
      // Values that JSON cannot express are lost here, as in the browser.
      const told = data === undefined ? {} : JSON.parse(JSON.stringify(data));
      this.waybill.machine.finish({ isSuccess: status === "success", orderDetails: told.orderDetails });
      this.waybill.state = "completed";
    }

    async retry(told = {}) {
      this.waybillRequire();
      const errors = this.waybill.request.waybillErrors(told, true);
      if (errors.length === 0) errors.push(new ApplePayError("unknown"));
      const authorised = new Promise((resolve, reject) => Object.assign(this.waybill, { resolve, reject }));
      this.waybill.state = "retrying";
      this.waybill.machine.finish({ isSuccess: false, errors });
      return authorised;
    }

    toJSON() { return { requestId: this.requestId, methodName: this.methodName, details: this.details }; }
  }

  // --- The button ---------------------------------------------------------------------------------------------

  // look: what differs in the style of the two buttons. caption: returns text and label of an element.
  const defineButton = (name, look, caption) => {
    // A name can be defined only once, and Apple's own script may have defined it already.
    if (customElements.get(name)) return;
    customElements.define(name, class extends HTMLElement {
      connectedCallback() {
        if (this.shadowRoot) return;
        const root = this.attachShadow({ mode: "open", delegatesFocus: true });
        sheetOf(root, `
          :host { display: inline-block; }
          button {
            background: #000; border: 1px solid #000; border-radius: var(--${name}-border-radius, 8px);
            color: #fff; cursor: pointer; height: var(--${name}-height, 44px); ${look.button}
          }
          button:focus-visible { outline: 3px solid #0071e3; outline-offset: 2px; }
          button:disabled { cursor: default; opacity: .35; }
          :host([buttonstyle^="white"]) button { background: #fff; border-color: #fff; color: #000; }
          :host([buttonstyle="${look.outline}"]) button { border-color: #000; }
          small { font-size: 12px; font-weight: 400; opacity: .7; }`);
        const { text, label } = caption(this);
        const button = element("button", { type: "button" }, text, element("small", {}, "simulated"));
        button.setAttribute("aria-label", `${label} (simulated)`);
        root.append(button);
        this.waybillDisable();
      }

      static get observedAttributes() { return ["disabled"]; }
      attributeChangedCallback() { this.waybillDisable(); }
      waybillDisable() {
        const button = this.shadowRoot && this.shadowRoot.querySelector("button");
        if (button) button.disabled = this.hasAttribute("disabled");
      }
    });
  };
  const fontOf = (size) => `font: 500 ${size} -apple-system, system-ui, "Helvetica Neue", sans-serif;`;

  defineButton("apple-pay-button", {
    button: `${fontOf("17px/1")} min-width: 140px; padding: 0 12px; white-space: nowrap;
      width: var(--apple-pay-button-width, 100%);`,
    outline: "white-outline",
  }, (host) => {
    const type = host.getAttribute("type") || "plain";
    const word = type === "plain" ? "" : type.replace(/-/g, " ").replace(/^./, (letter) => letter.toUpperCase()) + " with ";
    return { text: `${type === "pay" ? "" : word}Pay `, label: `${word}Apple Pay` };
  });
  defineButton("apple-wallet-button", {
    button: `${fontOf("15px/1.2")} padding: var(--apple-wallet-button-padding, 0 12px);
      width: var(--apple-wallet-button-width, auto);`,
    outline: "white-border",
  }, (host) => ({
    text: host.getAttribute("compact") === "true" ? "Track " : "Track with Apple Wallet ",
    label: "Track with Apple Wallet",
  }));
  // Pages ask a browser for the system's button before they show that of Wallet.
  const supports = CSS.supports.bind(CSS);
  CSS.supports = (...given) => given.join(":").replace(/[\s()]/g, "") === "-webkit-appearance:-apple-pay-button"
    || supports(...given);

  control.problems = problems;
  for (const [name, value] of Object.entries({ ApplePaySession, ApplePayError, PaymentRequest })) {
    Object.defineProperty(window, name, { value, writable: true, configurable: true });
  }
  window.waybill = Object.assign(window.waybill || {}, { polyfill: control });
})();
