// A text editor for JSON: line numbers, lines with problems, two-space indents, the browser's own undo.

const el = (name, members, ...children) => {
  const made = document.createElement(name);
  for (const key of Object.keys(members || {})) {
    if (key === "class") made.className = members[key];
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), members[key]);
    else if (key in made && typeof members[key] !== "string") made[key] = members[key];
    else made.setAttribute(key, members[key]);
  }
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
};

/** Replaces the selection so that the browser can undo it. */
function insert(area, text) {
  if (!document.execCommand("insertText", false, text)) area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
}

let lastNumber = 0;

class Editor {
  /**
   * @param options `{label, value, readOnly?, check?, onChange?}`; `check(text)` resolves to
   *   `[{line, column, path, message, rule}]`, or to undefined if nobody can tell now: then it is asked again. Those
   *   with the rule "advice" leave the text valid.
   */
  constructor(options) {
    this.options = options;
    this.problems = [];
    this.advice = [];
    this.isChecked = false;
    this.isUnanswered = false;
    this.lastCheck = 0;
    /** The lines whose numbers are marked. */
    this.marked = new Set();
    lastNumber += 1;
    const [hint, count] = [`editor-hint-${lastNumber}`, `editor-count-${lastNumber}`];
    this.gutter = el("div", { class: "gutter", "aria-hidden": "true" });
    this.area = el("textarea", {
      "aria-label": options.label, "aria-describedby": `${count} ${hint}`, spellcheck: false, wrap: "off",
      autocapitalize: "off", autocomplete: "off", readOnly: Boolean(options.readOnly),
    });
    this.count = el("p", { class: "count-of-problems", id: count, role: "status" });
    this.list = el("ul", { class: "problems", "aria-label": `Problems of: ${options.label}` });
    this.element = el(
      "div", {}, el("div", { class: "editor" }, this.gutter, this.area),
      el("p", { class: "hint", id: hint }, "Tab indents. To leave the editor, press Escape, then Tab."),
      this.count, this.list);
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("scroll", () => { this.gutter.scrollTop = this.area.scrollTop; });
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.set(options.value || "");
  }

  get value() { return this.area.value; }

  /** The value as JSON, or undefined while it is not valid. */
  get json() {
    if (this.problems.length > 0) return undefined;
    try { return JSON.parse(this.value); } catch (error) { return undefined; }
  }

  set(text) {
    this.area.value = text;
    this.changed(true);
  }

  changed(isImmediate) {
    this.drawNumbers();
    clearTimeout(this.timer);
    this.isChecked = false;
    if (this.options.onChange) this.options.onChange(this);
    const check = async () => {
      this.lastCheck += 1;
      const number = this.lastCheck;
      const text = this.value;
      const problems = this.options.check ? await this.options.check(text) : [];
      // The latest check wins, whichever answer arrives last.
      if (number !== this.lastCheck || text !== this.value) return;
      this.isUnanswered = !problems;
      if (!problems) {
        this.timer = setTimeout(check, 2000);
        this.draw();
        if (this.options.onChange) this.options.onChange(this);
        return;
      }
      const inOrder = problems.slice().sort((left, right) => left.line - right.line || left.column - right.column);
      this.problems = inOrder.filter(({ rule }) => rule !== "advice");
      this.advice = inOrder.filter(({ rule }) => rule === "advice");
      this.isChecked = true;
      this.draw();
      if (this.options.onChange) this.options.onChange(this);
    };
    this.timer = setTimeout(check, isImmediate ? 0 : 300);
  }

  draw() {
    this.drawNumbers();
    this.area.setAttribute("aria-invalid", String(this.problems.length > 0));
    const number = this.problems.length;
    const told = this.isUnanswered ? "This cannot be checked now. The page tries again …"
      : number === 0 ? "" : number === 1 ? "1 problem:" : `${number} problems:`;
    // A status that is written again is read out again.
    if (this.count.textContent !== told) this.count.textContent = told;
    this.list.replaceChildren(...this.problems.slice(0, 8).concat(this.advice.slice(0, 4)).map((problem) => el("li", {}, el(
      "button", { type: "button", class: problem.rule === "advice" ? "advice" : "", onclick: () => this.go(problem) },
      `Line ${problem.line}, column ${problem.column}: ${problem.path === "$" ? "" : problem.path + " "}${problem.message}`))));
    if (number > 8) this.list.append(el("li", { class: "note" }, `and ${number - 8} more`));
  }

  /** Numbers the lines, and marks those with problems. Only what differs is made: a text may have thousands of lines. */
  drawNumbers() {
    const lines = this.value.split("\n").length;
    const { children } = this.gutter;
    if (children.length !== lines) {
      while (children.length > lines) this.gutter.lastChild.remove();
      const added = document.createDocumentFragment();
      for (let line = children.length + 1; line <= lines; line += 1) added.append(el("span", {}, String(line)));
      this.gutter.append(added);
      this.area.rows = Math.min(lines, 22);
    }
    const bad = new Set(this.problems.map(({ line }) => line).filter((line) => line <= lines));
    for (const line of this.marked) if (!bad.has(line) && line <= lines) children[line - 1].className = "";
    for (const line of bad) children[line - 1].className = "bad";
    this.marked = bad;
  }

  go(problem) {
    const lines = this.value.split("\n");
    const offset = lines.slice(0, problem.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + problem.column - 1;
    this.area.focus();
    this.area.setSelectionRange(offset, offset);
    const height = this.area.scrollHeight / Math.max(lines.length, 1);
    this.area.scrollTop = Math.max(0, (problem.line - 4) * height);
  }

  key(event) {
    const { selectionStart: start, selectionEnd: end, value } = this.area;
    // After Escape, the next Tab leaves the editor, so that keyboard users are not trapped in it.
    if (event.key === "Escape") { this.isLeaving = true; return; }
    if (event.key === "Tab" && !this.isLeaving && !event.shiftKey && !this.area.readOnly) {
      event.preventDefault();
      insert(this.area, "  ");
    } else if (event.key === "Enter" && !this.area.readOnly) {
      event.preventDefault();
      const line = value.slice(value.lastIndexOf("\n", start - 1) + 1, start);
      const indent = /^ */.exec(line)[0];
      insert(this.area, "\n" + indent + (/[{[]\s*$/.test(line) ? "  " : ""));
    } else if ((event.key === "{" || event.key === "[") && start === end && !this.area.readOnly) {
      const next = value[start];
      if (next === undefined || /[\s,}\]]/.test(next)) {
        event.preventDefault();
        insert(this.area, event.key + (event.key === "{" ? "}" : "]"));
        this.area.setSelectionRange(start + 1, start + 1);
      }
    }
    this.isLeaving = false;
  }
}

/** Returns line and column of a value by its JSON path, in a text that parses; of its container if it is missing. */
function placeOf(text, path) {
  const offsets = new Map();
  let at = 0;
  const space = () => { while (/\s/.test(text[at] || "")) at += 1; };
  const string = () => {
    const start = at;
    at += 1;
    while (at < text.length && text[at] !== "\"") at += text[at] === "\\" ? 2 : 1;
    at += 1;
    return text.slice(start + 1, at - 1);
  };
  const value = (name) => {
    space();
    offsets.set(name, at);
    const open = text[at];
    if (open === "\"") { string(); return; }
    if (open !== "{" && open !== "[") { while (at < text.length && !/[,\]}\s]/.test(text[at])) at += 1; return; }
    at += 1;
    for (let index = 0; ; index += 1) {
      space();
      if (at >= text.length || text[at] === "}" || text[at] === "]") break;
      if (text[at] === ",") { at += 1; space(); }
      if (open === "{") {
        const member = string();
        space();
        at += 1;
        value(`${name}.${member}`);
      } else {
        value(`${name}[${index}]`);
      }
    }
    at += 1;
  };
  value("$");
  let name = path;
  while (name && !offsets.has(name)) name = name.slice(0, Math.max(name.lastIndexOf("."), name.lastIndexOf("[")));
  const before = text.slice(0, offsets.get(name) || 0).split("\n");
  return { line: before.length, column: before[before.length - 1].length + 1 };
}

export { Editor, el, placeOf };
