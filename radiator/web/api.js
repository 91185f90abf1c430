// The console's requests to the broker's HTTP API (docs/HTTP.md), and how its pages stay up to date.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

const TIMEOUT_MS = 30000;

export class Problem extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

const UNREACHABLE = new Problem(0, "unreachable", "The broker does not answer. This page continues by itself once it does.");

// ---- whether there is a broker, and whether it knows us

const listeners = new Set();
export const link = { isUp: true, isLoginNeeded: false, since: 0, stomp: "", user: null };

function note(isUp, isLoginNeeded) {
  if (isUp === link.isUp && isLoginNeeded === link.isLoginNeeded) return;
  if (isUp !== link.isUp) link.since = Date.now();
  link.isUp = isUp;
  link.isLoginNeeded = isLoginNeeded;
  for (const tell of listeners) tell();
}

export function useLink() {
  const [, setCount] = useState(0);
  useEffect(() => {
    const tell = () => setCount((n) => n + 1);
    listeners.add(tell);
    return () => listeners.delete(tell);
  }, []);
  return { ...link };
}

// ---- where programs reach it

export const USUAL_STOMP = "stomp://127.0.0.1:61613"; // the command line's default

// Finds out link.user, who has logged in here (null: nobody has to), and link.stomp, the address for this user's STOMP
// programs. A user who may not see the configuration gets the usual port. session: the answer to /v1/session.
export async function findStomp(session) {
  let found;
  link.user = ["password", "token"].includes(session.recognised_by) ? session.user : null;
  try {
    if (session.rights?.see.includes("/#")) found = stompOf((await get("/v1/configuration")).configuration);
  } catch {
    // then it is guessed
  }
  const scheme = location.protocol === "https:" ? "stomps" : "stomp";
  link.stomp = found ?? `${scheme}://${location.hostname}:${scheme === "stomps" ? 61612 : 61613}`;
  for (const tell of listeners) tell();
}

function stompOf(configuration) {
  const { value } = configuration.find(({ section, name }) => section === "server" && name === "listen");
  const at = value.map((one) => /^(stomps?):\/\/.*:([1-9][0-9]*)$/.exec(one)).find(Boolean); // port 0: any, not told here
  return at ? `${at[1]}://${location.hostname}:${at[2]}` : undefined;
}

// ---- one request

// A browser removes such parts from a path, and would ask for something else.
export const HAS_DOTS = /\/\.\.?(?=[/?]|$)/;

export async function ask(method, path, body, signal) {
  if (HAS_DOTS.test(path)) throw new Problem(0, "", "A browser cannot request anything with the name `.` or `..`; the command line can.");
  const init = { method, signal: AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])]) };
  if (body !== undefined) {
    init.headers = { "Content-Type": "application/json" };
    init.body = JSON.stringify(body);
  }
  let answer, text;
  try {
    answer = await fetch(path, init);
    text = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    note(false, link.isLoginNeeded);
    throw UNREACHABLE;
  }
  note(true, link.isLoginNeeded || answer.status === 401); // an answer that needs no login does not end that: see loggedIn
  if (answer.ok) return text ? JSON.parse(text) : {};
  let found = {};
  try {
    found = JSON.parse(text);
  } catch {
    // a proxy in between has answered
  }
  throw new Problem(answer.status, found.code ?? "", found.detail ?? `The broker answered with the status ${answer.status}.`);
}

export function loggedIn() {
  note(true, false);
}

export const get = (path, signal) => ask("GET", path, undefined, signal);

export function pathOf(...parts) {
  return `/v1/${parts.map(encodeURIComponent).join("/")}`;
}

export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

// ---- asked again and again

// The answer to a GET, repeated every everyMs while the page is visible, and at once when `again` is called. The last
// answer stays while the next one is under way and while the broker is away; another path begins without one, unless
// `keeps` says that it is another view of the same. path null: nothing is asked.
export function useAsked(path, everyMs = 2000, keeps = false) {
  const [state, setState] = useState({ path, answer: undefined, problem: undefined, at: 0 });
  const again = useRef(() => {});
  useEffect(() => {
    if (path === null) return undefined;
    const ended = new AbortController();
    let timer = 0;
    let isUnderWay = false;
    const look = async () => {
      clearTimeout(timer);
      if (isUnderWay) return;
      if (document.hidden) return;
      isUnderWay = true;
      try {
        const answer = await get(path, ended.signal);
        setState({ path, answer, problem: undefined, at: Date.now() });
      } catch (problem) {
        if (ended.signal.aborted) return;
        setState((old) => ({ ...(old.path === path || keeps ? old : { answer: undefined, at: 0 }), path, problem }));
      } finally {
        isUnderWay = false;
      }
      if (everyMs && !ended.signal.aborted) timer = setTimeout(look, everyMs);
    };
    again.current = look;
    document.addEventListener("visibilitychange", look);
    look();
    return () => {
      ended.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [path, everyMs]);
  const isOther = state.path !== path && !keeps;
  return { ...(isOther ? { answer: undefined, problem: undefined, at: 0 } : state), again: () => again.current() };
}
