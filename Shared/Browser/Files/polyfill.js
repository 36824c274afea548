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

  function payment(request) {
    const identifier = digits(64);
    const contact = contactOf(request);
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
      box-sizing: border-box; color: #1d1d1f; font: 15px/1.4 -apple-system, system-ui, "Helvetica Neue", sans-serif;
      left: 50%; max-height: 92vh; max-width: 400px; overflow: auto; padding: 18px 20px 22px; position: absolute;
      transform: translateX(-50%); width: 100%;
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
      border-top: 1px solid rgba(128, 128, 128, .25); display: flex; gap: 12px; justify-content: space-between;
      padding: 7px 0;
    }
    dt { color: #6e6e73; } dd { margin: 0; text-align: right; }
    .total { font-size: 19px; font-weight: 600; }
    .total dt { color: inherit; }
    .errors { color: #c00; margin: 8px 0 0; }
    .status { color: #6e6e73; margin: 12px 0; min-height: 1.4em; text-align: center; }
    .done { color: #1a7f37; font-weight: 600; }
    button { border: 0; border-radius: 10px; cursor: pointer; font: inherit; }
    button:focus-visible { outline: 3px solid #0071e3; outline-offset: 2px; }
    .pay { background: #000; color: #fff; font-weight: 600; min-height: 46px; width: 100%; }
    .pay:disabled { opacity: .4; cursor: default; }
    .plain { background: none; color: #0066cc; min-height: 36px; padding: 0 8px; }
    footer { display: flex; justify-content: center; margin-top: 8px; }
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

  class Sheet {
    constructor(machine) {
      this.machine = machine;
      this.host = element("div", { "data-waybill-sheet": "" });
      this.root = this.host.attachShadow({ mode: "open" });
      sheetOf(this.root, style);
      this.status = element("p", { class: "status", role: "status" }, "Checking the merchant …");
      this.rows = element("dl");
      this.errors = element("p", { class: "errors", role: "alert" });
      this.pay = element("button", { class: "pay", type: "button", disabled: "" }, "Pay");
      this.cancel = element("button", { class: "plain", type: "button" }, "Cancel");
      const fail = element("button", { class: "plain", type: "button" }, "Fail on the device");
      this.pay.addEventListener("click", () => machine.authorise());
      this.cancel.addEventListener("click", () => machine.cancel());
      fail.addEventListener("click", () => machine.cancel("unknown"));
      const shade = element("div", { class: "shade" }, element(
        "div", { class: "sheet", role: "dialog", "aria-modal": "true", "aria-label": "Simulated Apple Pay" },
        element("header", {}, element("h2", {}, "Pay"), this.cancel),
        element("p", { class: "badge" }, "Waybill's polyfill: nothing is charged."),
        this.rows, this.errors, this.status, this.pay, element("footer", {}, fail)));
      this.buttons = [this.cancel, this.pay, fail];
      this.onKey = (event) => this.key(event);
      document.addEventListener("keydown", this.onKey, true);
      this.root.append(shade);
      this.before = document.activeElement;
      document.body.append(this.host);
      this.cancel.focus();
    }

    show(request, contact) {
      const row = (label, value, name) => element(
        "div", { class: name || "" }, element("dt", {}, label), element("dd", {}, value));
      const money = (amount) => `${amount === undefined ? "pending" : amount} ${request.currencyCode}`;
      this.rows.replaceChildren(row("Card", "Visa •••• 1234"));
      if ((request.requiredShippingContactFields || []).length > 0) {
        this.rows.append(row("Contact", `${contact.givenName} ${contact.familyName}, ${contact.locality}`));
      }
      for (const item of (request.lineItems || []).slice(0, 20)) this.rows.append(row(item.label, money(item.amount)));
      this.rows.append(row("Pay " + request.total.label, money(request.total.amount), "total"));
    }

    say(text, isDone) {
      this.status.textContent = text;
      this.status.classList.toggle("done", Boolean(isDone));
    }

    /** Keeps the keyboard in the sheet, also when nothing there has the focus. */
    key(event) {
      if (event.key === "Escape") this.machine.cancel();
      if (event.key !== "Tab") return;
      const buttons = this.buttons.filter(({ disabled }) => !disabled);
      const place = buttons.indexOf(this.root.activeElement) + (event.shiftKey ? -1 : 1);
      event.preventDefault();
      buttons[(place + buttons.length) % buttons.length].focus();
    }

    setReady(isReady) {
      // A button that is disabled loses the focus.
      if (!isReady && this.root.activeElement === this.pay) this.cancel.focus();
      this.pay.disabled = !isReady;
      if (isReady) this.pay.focus();
    }

    tellErrors(errors) { this.errors.textContent = errors.map((error) => error.message || error.code).join(" "); }

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
    }

    begin() {
      if (this.state !== "idle") throw invalidAccess("Payment session is not idle.");
      if (current) throw invalidAccess("Page already has an active payment session.");
      current = this;
      this.state = "active";
      record("begin", { version: this.version, request: this.request });
      this.sheet = new Sheet(this);
      this.sheet.show(this.request, contactOf(this.request));
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
      if (name === "paymentmethodselected" && this.wantsAddress()) {
        this.ask("shippingcontactselected", { shippingContact: redacted(contactOf(this.request)) });
        return;
      }
      this.sheet.setReady(true);
      const step = control.automatic.shift();
      if (step === "pay") this.authorise();
      if (step === "cancel") this.cancel();
      if (step === "fail") this.cancel("unknown");
    }

    wantsAddress() { return (this.request.requiredShippingContactFields || []).includes("postalAddress"); }

    update(name, update) {
      if (this.state !== "active" || this.awaited !== name) {
        throw invalidAccess("The session does not wait for this answer.");
      }
      const changed = Object.assign({}, this.request);
      if (update.newTotal) changed.total = copy(update.newTotal);
      if (update.newLineItems) changed.lineItems = copy(update.newLineItems);
      if (update.newShippingMethods) changed.shippingMethods = copy(update.newShippingMethods);
      const found = problems(changed, this.version);
      if (found.length > 0) throw new TypeError(`${found[0].path} ${found[0].message}`);
      this.answered(name);
      this.request = changed;
      this.sheet.show(changed, contactOf(changed));
      const errors = update.errors || [];
      this.sheet.tellErrors(errors);
      const told = { newTotal: changed.total, errors: errors.length };
      if (update.newLineItems) told.newLineItems = changed.lineItems;
      if (update.newShippingMethods) told.newShippingMethods = changed.shippingMethods;
      record("answer to " + name, told);
      if (errors.length > 0) this.sheet.setReady(false);
      else setTimeout(() => this.proceed(name));
    }

    authorise() {
      if (this.state !== "active" || !this.isValidated || this.awaited) return;
      this.sheet.setReady(false);
      this.sheet.say("Processing …");
      this.state = "authorized";
      this.ask("paymentauthorized", { payment: payment(this.request) });
    }

    /** Applies the page's result; `result.orderDetails` are checked before anything is sent. */
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
      if (!result.isSuccess) {
        // Devices let the customer try again.
        this.state = "active";
        this.sheet.tellErrors(result.errors || []);
        this.sheet.say("Payment not completed");
        this.sheet.setReady(true);
        return;
      }
      this.end("completed");
      this.sheet.say("Done", true);
      if (details) handOver(details);
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
      const { line, method: shipping } = PaymentRequest.converters;
      const fields = [];
      if (options.requestPayerName) fields.push("name");
      if (options.requestPayerEmail) fields.push("email");
      if (options.requestPayerPhone) fields.push("phone");
      if (options.requestShipping) fields.push("postalAddress");
      const request = Object.assign({}, data, {
        currencyCode: details.total.amount.currency, total: line(details.total),
        lineItems: (details.displayItems || []).map(line),
      });
      if (details.shippingOptions) {
        request.shippingMethods = details.shippingOptions.map(shipping);
        this.waybillSelect(details.shippingOptions);
      }
      delete request.version;
      delete request.merchantIdentifier;
      if (fields.length > 0) request.requiredShippingContactFields = fields;
      const found = problems(request, data.version);
      if (found.length > 0) throw new TypeError(`Invalid payment request: ${found[0].path} ${found[0].message}`);
      this.waybill = { data, request, shown: false };
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

    waybillTell(name, detail, resolve, reject) {
      const machine = this.waybill.machine;
      if (name === "cancel") {
        reject(new DOMException("The payment was canceled.", "AbortError"));
        return true;
      }
      if (name === "paymentauthorized") {
        resolve(new PaymentResponse(this.id, machine, detail.payment));
        return true;
      }
      const event = new Event(PaymentRequest.names[name]);
      if (name === "validatemerchant") {
        event.methodName = APPLE_PAY;
        event.validationURL = detail.validationURL;
        event.complete = (session) => {
          Promise.resolve(session).then(
            (value) => machine.completeMerchantValidation(value), () => machine.cancel());
        };
      } else {
        if (name === "paymentmethodselected") event.methodDetails = detail.paymentMethod;
        if (name === "shippingcontactselected") {
          const contact = detail.shippingContact;
          this.shippingAddress = {
            country: contact.countryCode, postalCode: contact.postalCode, city: contact.locality,
            region: contact.administrativeArea,
          };
        }
        event.updateWith = (update) => {
          Promise.resolve(update).then((told) => {
            const { line, method } = PaymentRequest.converters;
            const change = { newTotal: machine.request.total };
            if (told && told.total) change.newTotal = line(told.total);
            if (told && told.displayItems) change.newLineItems = told.displayItems.map(line);
            if (told && told.shippingOptions) {
              change.newShippingMethods = told.shippingOptions.map(method);
              this.waybillSelect(told.shippingOptions);
            }
            if (told && told.error) change.errors = [{ message: told.error }];
            machine.update(name, change);
          }).catch(() => machine.cancel());
        };
      }
      const handler = this["on" + event.type];
      this.dispatchEvent(event);
      if (typeof handler === "function") handler.call(this, event);
      return typeof handler === "function";
    }
  }
  PaymentRequest.converters = {
    line: (item) => {
      const made = { label: item.label, amount: item.amount.value };
      if (item.pending) made.type = "pending";
      return made;
    },
    method: (option) => ({ label: option.label, detail: "", amount: option.amount.value, identifier: option.id }),
  };
  PaymentRequest.handlers = [
    "merchantvalidation", "paymentmethodchange", "shippingaddresschange", "shippingoptionchange",
  ];
  PaymentRequest.names = {
    validatemerchant: "merchantvalidation", paymentmethodselected: "paymentmethodchange",
    shippingcontactselected: "shippingaddresschange", shippingmethodselected: "shippingoptionchange",
    couponcodechanged: "couponcodechange",
  };

  class PaymentResponse {
    constructor(requestId, machine, details) {
      const contact = details.shippingContact || {};
      Object.assign(this, { requestId, methodName: APPLE_PAY, details });
      this.payerName = contact.givenName ? `${contact.givenName} ${contact.familyName}` : null;
      this.payerEmail = contact.emailAddress || null;
      this.payerPhone = contact.phoneNumber || null;
      Object.defineProperty(this, "machine", { value: machine });
    }

    async complete(status = "unknown", { data } = {}) {
      if (this.machine.state !== "authorized") {
        throw new DOMException("The response was completed before.", "InvalidStateError");
      }
      // Values that JSON cannot express are lost here, as in the browser.
      const told = data === undefined ? {} : JSON.parse(JSON.stringify(data));
      this.machine.finish({ isSuccess: status === "success", orderDetails: told.orderDetails });
      if (status !== "success") this.machine.cancel();
    }

    toJSON() { return { requestId: this.requestId, methodName: this.methodName, details: this.details }; }
  }

  // --- The button ---------------------------------------------------------------------------------------------

  // A name can be defined only once, and Apple's own script may have defined it already.
  if (!customElements.get("apple-pay-button")) {
    customElements.define("apple-pay-button", class extends HTMLElement {
      connectedCallback() {
        if (this.shadowRoot) return;
        const root = this.attachShadow({ mode: "open", delegatesFocus: true });
        sheetOf(root, `
          :host { display: inline-block; }
          button {
            background: #000; border: 1px solid #000; border-radius: var(--apple-pay-button-border-radius, 8px);
            color: #fff; cursor: pointer; font: 500 17px/1 -apple-system, system-ui, "Helvetica Neue", sans-serif;
            height: var(--apple-pay-button-height, 44px); min-width: 140px; padding: 0 12px; white-space: nowrap;
            width: var(--apple-pay-button-width, 100%);
          }
          button:focus-visible { outline: 3px solid #0071e3; outline-offset: 2px; }
          button:disabled { cursor: default; opacity: .35; }
          :host([buttonstyle="white"]) button { background: #fff; border-color: #fff; color: #000; }
          :host([buttonstyle="white-outline"]) button { background: #fff; color: #000; }
          small { font-size: 12px; font-weight: 400; opacity: .7; }`);
        const type = this.getAttribute("type") || "plain";
        const word = type === "plain" ? "" : type.replace(/-/g, " ").replace(/^./, (letter) => letter.toUpperCase()) + " with ";
        const button = element(
          "button", { type: "button" }, `${type === "pay" ? "" : word}Pay `, element("small", {}, "simulated"));
        button.setAttribute("aria-label", `${word}Apple Pay (simulated)`);
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
  }

  control.problems = problems;
  for (const [name, value] of Object.entries({ ApplePaySession, ApplePayError, PaymentRequest })) {
    Object.defineProperty(window, name, { value, writable: true, configurable: true });
  }
  window.waybill = Object.assign(window.waybill || {}, { polyfill: control });
})();
