// Requests to the playground's server. None of them rejects: a page that waits for an answer hears that there is none.

/** Tells at the top of the page whether the playground answers. */
function showAnswer(isThere) {
  const line = document.querySelector("#away");
  const text = isThere ? "" : "The playground does not answer. The page tries again …";
  if (line.textContent !== text) line.textContent = text;
}

/** Sends a request. Resolves to `{status, answer}`, with the status 0 if no whole answer came; never rejects. */
async function call(method, path, body) {
  const options = { method, headers: {}, cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let status;
  let text;
  try {
    const response = await fetch(path, options);
    text = await response.text();
    status = response.status;
  } catch (error) {
    showAnswer(false);
    return { status: 0, answer: { error: { message: "The playground does not answer. Try again." } } };
  }
  showAnswer(true);
  // An answer without JSON still has its status.
  try { return { status, answer: JSON.parse(text) }; } catch (error) { return { status, answer: {} }; }
}

/** Returns the reason that an answer gives for a refusal, or another text. */
const reasonOf = (answer, otherwise) => (answer.error && answer.error.message) || otherwise;

/** Resolves to the problems of a text, or to undefined if nobody can tell now. */
async function review(kind, text) {
  const { status, answer } = await call("POST", "/playground/validate", { kind, text });
  if (status === 200) return answer.problems || [];
  // The page opens a session that has ended again.
  if (status === 0 || status === 401 || status >= 500) return undefined;
  return [{ line: 1, column: 1, path: "$", message: reasonOf(answer, `cannot be checked: status ${status}`) }];
}

export { call, reasonOf, review };
