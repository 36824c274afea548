// The page of the verifier: sends a package and a root certificate to the program that served it, and shows the report.

const one = (selector) => document.querySelector(selector);
let root;
let dropped;

/** Fills a list with one line for each of some findings. */
function list(selector, items) {
  one(selector).replaceChildren(...items.map((parts) => {
    const line = document.createElement("li");
    for (const [name, text] of parts) {
      const part = line.appendChild(document.createElement(name));
      part.textContent = text;
      line.append(" ");
    }
    return line;
  }));
}

function show(title, summary = "", report = {}) {
  one("#verdict").textContent = title;
  one("#verdict").className = `small-title ${report.valid === undefined ? "" : report.valid ? "good" : "bad"}`;
  one("#summary").textContent = summary;
  const findings = (name) => (report[name] || []).map(
    ({ code, place, message }) => [["strong", place], ["span", message], ["code", code]]);
  list("#violations", findings("violations"));
  list("#advice", findings("guidelines"));
  list("#files", (report.files || []).map(({ name, size }) => [["code", name], ["span", `${size} bytes`]]));
  one("#advice-title").hidden = !(report.guidelines || []).length;
  one("#files-title").hidden = !(report.files || []).length;
}

/** Returns the bytes of a file in base64. */
async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let index = 0; index < bytes.length; index += 8192) {
    text += String.fromCharCode(...bytes.subarray(index, index + 8192));
  }
  return btoa(text);
}

async function judge(file) {
  dropped = file;
  show("Reading …");
  try {
    const response = await fetch("/verifier/judge", {
      method: "POST", cache: "no-store", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ name: file.name, package: await base64(file), root: root && await root.text() }),
    });
    const report = await response.json();
    if (dropped !== file) return;
    if (!response.ok) return show("It cannot be judged", report.error && report.error.message);
    const count = report.violations.length;
    const title = report.valid ? "Wallet would take it"
      : `Wallet would refuse it: ${count} ${count === 1 ? "reason" : "reasons"}`;
    show(title, `${report.file}${report.signedAt ? `, signed ${report.signedAt}` : ""}`, report);
  } catch (error) {
    if (dropped === file) show("It cannot be judged", "The program that served this page does not answer.");
  }
}

one("#package").addEventListener("change", ({ target }) => { if (target.files[0]) judge(target.files[0]); });
one("#root").addEventListener("change", ({ target }) => {
  root = target.files[0];
  if (dropped) judge(dropped);
});
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files[0]) judge(event.dataTransfer.files[0]);
});
fetch("/verifier/root").then((response) => response.json()).then(({ name }) => {
  one("#root-note").textContent = name ? `Without one: ${name}.` : "Needed: this program was started without one.";
});
