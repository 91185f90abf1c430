// The page's address, as #/queues/orders?tab=messages. It determines all that a page shows, so that it can be sent
// to somebody else, and Back works.

import { useEffect, useState } from "./vendor/htm-preact.js";

export function parsed(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path ? path.split("/").map(decoded) : [], query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // somebody typed it
  }
}

export function href(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(path, query) {
  location.hash = href(path, query);
}

export function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parsed(hash);
}

// Changes a part of the query without a new entry in the history, as for a filter that is being typed.
export function replaceQuery(changes) {
  const { path, query } = parsed(location.hash);
  const next = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, "", href(path, next));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
