// Actions: a button, a dialog that says what will happen, and the same as a command and as an HTTP call.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { HAS_DOTS, Problem, USUAL_STOMP, ask, link } from "./api.js";
import { quoted, seen } from "./format.js";
import { Code, Name, Trouble, tell } from "./parts.js";

// A command line for this user; the terminal asks for the password.
export function commandLine(words) {
  const login = link.user === null ? "" : `${encodeURIComponent(link.user)}@`;
  const at = link.stomp.replace("://", `://${login}`);
  return `${at && at !== USUAL_STOMP ? `RADIATOR_BROKER=${quoted(at)} ` : ""}${["radiator", ...words].map(quoted).join(" ")}`;
}

// Words of a command that are not options, whatever they begin with.
export function behindDashes(...words) {
  return words.some((one) => one.startsWith("-")) ? ["--", ...words] : words;
}

const KINDS = new Set(["queue", "fanout", "topic", "exchange", "log", "temp-queue", "reply-queue"]);

// A queue as one word of a command: by its name, or by its address where the name would be taken for something else.
export function queueWord(name) {
  return /^[^-/\s][^\s]*$/.test(name) && !KINDS.has(name) ? name : `/queue/${name}`;
}

// No command line can carry a NUL.
const isPossible = (words) => !words.some((one) => String(one).includes("\0"));

export function curlLine({ method, path, body }) {
  const words = ["curl", "--fail", ...(link.user === null ? [] : ["--user", quoted(link.user)])];
  if (HAS_DOTS.test(path)) words.push("--path-as-is");
  if (method !== "GET") words.push("-X", method);
  const lines = [`${words.join(" ")} ${quoted(location.origin + path)}`];
  if (body !== undefined) lines.push(`-H 'Content-Type: application/json'`, `-d ${quoted(seen(JSON.stringify(body)))}`);
  return lines.join(" \\\n  ");
}

const SHOWN_BY_HAND = 10;

// How to do the same without this page. clis: words after `radiator`, of one or several commands; calls: likewise.
export function SameByHand({ clis, calls }) {
  const more = calls.length > SHOWN_BY_HAND ? `\n# … and so on: ${calls.length} in all` : "";
  return html`<details class="by-hand" open><summary>The same without this page</summary>
    ${clis.length > 0 && clis.every(isPossible) && html`<${Code} label="On the command line" text=${clis.slice(0, SHOWN_BY_HAND).map(commandLine).join("\n") + more} />`}
    ${calls.length > 0 && html`<${Code} label="Over HTTP" text=${calls.slice(0, SHOWN_BY_HAND).map(curlLine).join("\n") + more} />`}
  </details>`;
}

// A button that opens a dialog. label: of the button; title, children: of the dialog. fields: what can be chosen, as
// {name, label, type ("text", "number", "checkbox", "textarea", "select"), value, options, hint, required, min, max};
// make(values): {cli, call: {method, path, body}}, or several as {clis, calls}. said(answer, or answers): the text shown
// afterwards. typed: what must be typed before. done(): called afterwards. isDangerous: it removes something.
export function Act({ label, title, children, fields = [], make, said, typed, done, isDangerous, disabled, kind = "" }) {
  const [isOpen, setOpen] = useState(false);
  return html`<button class=${`${kind} ${isDangerous ? "danger" : ""}`} disabled=${disabled} onClick=${() => setOpen(true)}>${label}</button>
    ${isOpen && html`<${Dialog} ...${{ title, children, fields, make, said, typed, done, isDangerous, label }} close=${() => setOpen(false)} />`}`;
}

function Dialog({ title, children, fields, make, said, typed, done, isDangerous, label, close }) {
  const frame = useRef(null);
  const [values, setValues] = useState(() => Object.fromEntries(fields.map((one) => [one.name, one.value ?? ""])));
  const [name, setName] = useState("");
  const [state, setState] = useState({ isBusy: false, problem: null, at: 0 });
  useEffect(() => {
    frame.current.showModal();
  }, []);
  const found = attempted(make, values);
  const calls = found.calls ?? (found.call ? [found.call] : []);
  const clis = found.clis ?? (found.cli ? [found.cli] : []);
  const isTyped = typed === undefined || name === typed || name === seen(typed); // what cannot be typed is compared as shown
  const isReady = !found.problem && isTyped && !state.isBusy;
  const carryOut = async (event) => {
    event.preventDefault();
    if (!isReady) return;
    setState({ isBusy: true, problem: null, at: 0 });
    const answers = [];
    for (const call of calls) {
      try {
        answers.push(await ask(call.method, call.path, call.body));
      } catch (problem) {
        const before = answers.length && calls.length > 1 ? ` ${answers.length} of ${calls.length} were done before.` : "";
        setState({ isBusy: false, problem: `${problem.message}${before}`, at: answers.length });
        return;
      }
      setState({ isBusy: true, problem: null, at: answers.length });
    }
    tell(said(found.calls ? answers : answers[0]));
    leave(true);
  };
  // after a partial result, done() is called only once the dialog is closed: its subject may be gone
  const leave = (isDone) => {
    close();
    if (isDone || state.at) done?.();
  };
  return html`<dialog ref=${frame} aria-labelledby="dialog-title" onClose=${() => leave(false)}>
    <form method="dialog" onSubmit=${carryOut}>
      <h2 id="dialog-title">${title}</h2>
      ${children}
      ${fields.map((one) => html`<${Field} key=${one.name} of=${one} value=${values[one.name]} set=${(value) => setValues({ ...values, [one.name]: value })} />`)}
      ${typed !== undefined && html`<label class="field"><span>Type <b><${Name} of=${typed} /></b> to confirm</span>
        <input value=${name} onInput=${(event) => setName(event.target.value)} autocomplete="off" spellcheck=${false} /></label>`}
      ${found.problem && html`<p class="muted">${seen(found.problem)}</p>`}
      ${!found.problem && html`<${SameByHand} clis=${clis} calls=${calls} />`}
      ${state.isBusy && calls.length > 1 && html`<p class="muted" role="status">${`${state.at} of ${calls.length} done.`}</p>`}
      ${state.problem && html`<${Trouble} of=${{ message: state.problem }} />`}
      <div class="buttons">
        <button type="button" onClick=${() => leave(false)}>Cancel</button>
        <button type="submit" class=${isDangerous ? "danger" : "primary"} disabled=${!isReady}>${label.replace(/…$/, "")}</button>
      </div>
    </form>
  </dialog>`;
}

// make may refuse what was chosen so far by throwing a Problem or an Error with a sentence
function attempted(make, values) {
  try {
    return make(values);
  } catch (problem) {
    return { problem: problem.message };
  }
}

export function refuse(sentence) {
  throw new Problem(0, "", sentence);
}

function Field({ of, value, set }) {
  const id = `field-${of.name}`;
  const hint = of.hint && html`<small>${of.hint}</small>`;
  const common = { id, required: of.required, onInput: (event) => set(event.target.value) };
  if (of.type === "checkbox") {
    return html`<label class="field row"><input id=${id} type="checkbox" checked=${value} onInput=${(event) => set(event.target.checked)} /> ${of.label} ${hint}</label>`;
  }
  if (of.type === "select") {
    return html`<label class="field" for=${id}>${of.label}<select ...${common} value=${value}>${of.options.map(([name, title]) => html`<option key=${name} value=${name} selected=${name === value}>${title}</option>`)}</select>${hint}</label>`;
  }
  if (of.type === "textarea") {
    return html`<label class="field" for=${id}>${of.label}<textarea ...${common} rows=${of.rows ?? 6} spellcheck=${false} value=${value}></textarea>${hint}</label>`;
  }
  const more = { type: of.type ?? "text", min: of.min, max: of.max, step: of.step, list: of.list, placeholder: of.placeholder };
  return html`<label class="field" for=${id}>${of.label}<input ...${common} ...${more} value=${value} autocomplete="off" spellcheck=${false} />${hint}</label>`;
}
