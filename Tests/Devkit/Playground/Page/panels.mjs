// The parts of a block: its tabs, and the panel of generated texts.

import { el } from "./editor.mjs";

let lastIdentifier = 0;

/** ARIA tabs of a block. `panels` maps names to elements; returns the element and a function that selects. */
function tabs(block, panels) {
  const heading = block.closest("section").getAttribute("aria-labelledby");
  const list = el("div", { class: "tabs", role: "tablist", "aria-labelledby": heading });
  const element = el("div", {}, list);
  const buttons = {};
  const select = (name) => {
    for (const other of Object.keys(panels)) {
      buttons[other].setAttribute("aria-selected", String(other === name));
      buttons[other].tabIndex = other === name ? 0 : -1;
      buttons[other].panel.hidden = other !== name;
    }
  };
  for (const name of Object.keys(panels)) {
    lastIdentifier += 1;
    const panel = el(
      "div", { class: "panel", role: "tabpanel", id: `panel-${lastIdentifier}`, "aria-labelledby": `tab-${lastIdentifier}` },
      panels[name]);
    const button = el("button", {
      type: "button", role: "tab", id: `tab-${lastIdentifier}`, "aria-controls": panel.id, onclick: () => select(name),
    }, name);
    button.panel = panel;
    buttons[name] = button;
    list.append(button);
    element.append(panel);
  }
  list.addEventListener("keydown", (event) => {
    const names = Object.keys(panels);
    const index = names.findIndex((name) => buttons[name] === document.activeElement);
    const places = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: -1 };
    if (places[event.key] === undefined || index < 0) return;
    event.preventDefault();
    const next = names[(places[event.key] + names.length) % names.length];
    select(next);
    buttons[next].focus();
  });
  select(Object.keys(panels)[0]);
  const count = (name, number) => {
    buttons[name].replaceChildren(name, ...(number > 0 ? [" ", el("span", { class: "count" }, String(number))] : []));
  };
  return { element, select, count };
}

/** The panel of generated texts: `[{title, text}]` from `make()`, made again after each edit. */
class SourcePanel {
  constructor(make) {
    this.make = make;
    this.element = el("div", { class: "sources" });
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.draw(), 150);
  }

  draw() {
    const parts = this.make();
    if (!parts) {
      this.element.replaceChildren(el("p", { class: "empty" }, "There is no source while an editor has problems."));
      return;
    }
    this.element.replaceChildren(...parts.flatMap(({ title, text }) => {
      const code = el("code", {}, text);
      const told = el("span", { class: "note", role: "status" });
      const copy = async () => {
        try {
          await navigator.clipboard.writeText(text);
          told.textContent = "Copied ";
        } catch (error) {
          getSelection().selectAllChildren(code);
          told.textContent = "Press ⌘C or Ctrl+C ";
        }
      };
      return [
        el("div", { class: "source-head" }, el("h4", {}, title), el(
          "span", {}, told, el("button", { class: "small-button", type: "button", onclick: copy }, "Copy"))),
        el("pre", { class: "code", tabindex: "0", role: "group", "aria-label": title, "data-source": title }, code),
      ];
    }));
  }
}

export { SourcePanel, tabs };
