// The frame around all pages: the current page, links to the others, keys, and whether the broker answers.

import { Component, html, render, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, findStomp, get, loggedIn, useAsked, useLink } from "./api.js";
import { duration, seen } from "./format.js";
import { Told, Trouble, tell } from "./parts.js";
import { go, href, useRoute } from "./route.js";
import Login from "./pages/login.js";
import Overview from "./pages/overview.js";

// by the first part of the path: title, key (after `g`), and the page, which is fetched on first use
const PAGES = {
  "": { title: "Overview", key: "o", page: Overview },
  queues: { title: "Queues", key: "q", load: (path) => (path.length ? import("./pages/queue.js") : import("./pages/queues.js")) },
  logs: { title: "Logs", key: "l", load: (path) => (path.length ? import("./pages/log.js") : import("./pages/logs.js")) },
  exchanges: { title: "Exchanges", key: "e", load: (path) => (path.length ? import("./pages/exchange.js") : import("./pages/exchanges.js")) },
  messages: { title: "Find a message", key: "m", load: () => import("./pages/message.js") },
  connections: { title: "Connections", key: "c", load: (path) => (path.length ? import("./pages/connection.js") : import("./pages/connections.js")) },
  nodes: { title: "Nodes", key: "n", load: () => import("./pages/nodes.js") },
  prepared: { title: "Prepared", key: "p", load: () => import("./pages/prepared.js") },
  workers: { title: "Spark and Celery", key: "w", load: () => import("./pages/workers.js") },
  users: { title: "Users", key: "u", load: () => import("./pages/users.js") },
  broker: { title: "Broker", key: "b", load: () => import("./pages/broker.js") },
};

// ---- pages

class Guard extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }

  render({ children }, { error }) {
    return error ? html`<${Trouble} of=${{ message: `This page has failed: ${error.message}. Reload it. If it fails again, please report it.` }} />` : children;
  }
}

function Page({ name, path, query }) {
  const found = Object.hasOwn(PAGES, name) ? PAGES[name] : undefined; // `constructor` is not a page
  const kind = `${name} ${path.length > 0}`;
  const [loaded, setLoaded] = useState({ kind: "", module: null, failed: false });
  useEffect(() => {
    if (!found?.load) return;
    found.load(path).then(
      (module) => setLoaded({ kind, module, failed: false }),
      () => setLoaded({ kind, module: null, failed: true }),
    );
  }, [kind]);
  if (!found) return html`<h1>There is no such page</h1><p><a href=${href([])}>To the overview</a></p>`;
  if (found.page) return html`<${found.page} path=${path} query=${query} />`;
  if (loaded.kind === kind && loaded.failed) return html`<${Trouble} of=${{ message: "This page could not be loaded: the broker does not answer, or its version has changed. Reload the page." }} />`;
  if (loaded.kind !== kind) return html`<p class="muted" role="status">Loading…</p>`;
  return html`<${loaded.module.default} path=${path} query=${query} />`;
}

// ---- the frame

function Nav({ name }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [name]);
  return html`<nav class=${`main ${isOpen ? "open" : ""}`} aria-label="Pages">
    <a class="brand" href="#/"><span aria-hidden="true" class="mark"></span>Radiator</a>
    <button class="menu plain" aria-expanded=${isOpen} aria-controls="pages" onClick=${() => setOpen(!isOpen)}>Menu</button>
    <ul id="pages">${Object.entries(PAGES).map(([page, { title }]) => html`<li key=${page}>
      <a href=${href(page ? [page] : [])} aria-current=${page === name ? "page" : undefined}>${title}</a></li>`)}</ul>
  </nav>`;
}

const THEMES = ["", "light", "dark"];
const THEME_NAMES = { "": "Auto", light: "Light", dark: "Dark" };

function storedTheme() {
  try {
    return localStorage.getItem("radiator-theme") ?? "";
  } catch {
    return ""; // the browser stores nothing
  }
}

function useThemeSetting() {
  const [theme, setTheme] = useState(storedTheme);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("radiator-theme", theme);
    } catch {
      // as above
    }
    dispatchEvent(new Event("radiator-theme"));
  }, [theme]);
  return [theme, () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length])];
}

// Who has logged in here. A login that the browser itself sends, or a certificate, cannot be ended by this page.
const BY_LOGIN = new Set(["password", "token", "jwt"]);

function isBySession(session) {
  return Boolean(session?.user) && BY_LOGIN.has(session.recognised_by) && session.until_ms !== null;
}

function Header({ session, again, openHelp }) {
  const [theme, nextTheme] = useThemeSetting();
  const logOut = async () => {
    try {
      await ask("DELETE", "/v1/session");
      tell("You are logged out.");
    } catch (problem) {
      tell(problem.message, true);
    }
    again();
  };
  return html`<header>
    <span class="muted">${session?.node ? html`node <b>${seen(session.node)}</b> ` : ""}${session?.version ? `Radiator ${seen(session.version)}` : ""}</span>
    <span class="grow"></span>
    ${session?.user && html`<span>${seen(session.user)}</span>`}
    ${isBySession(session) && html`<button class="plain" onClick=${logOut}>Log out</button>`}
    <button class="plain" onClick=${nextTheme} aria-label=${`${THEME_NAMES[theme]} colours`}>${THEME_NAMES[theme]}</button>
    <button class="plain" onClick=${openHelp} aria-label="Help">?</button>
  </header>`;
}

function Away() {
  const { isUp, since } = useLink();
  const [, setCount] = useState(0);
  useEffect(() => {
    if (isUp) return undefined;
    const timer = setInterval(() => {
      setCount((n) => n + 1);
      get("/healthz").catch(() => {}); // pages with nothing to ask for come back too
    }, 1000);
    return () => clearInterval(timer);
  }, [isUp]);
  if (isUp) return null;
  return html`<p class="away" role="alert">The broker has not answered for ${duration(Date.now() - since)}. What you see is from before; this page goes on by itself once it answers.</p>`;
}

function Help({ close }) {
  const frame = useRef(null);
  useEffect(() => frame.current.showModal(), []);
  const keys = [["/", "to the filter"], ["?", "this help"], ["Esc", "close, or leave the filter"], ...Object.values(PAGES).map(({ key, title }) => [`g ${key}`, title])];
  return html`<dialog ref=${frame} aria-labelledby="help-title" onClose=${close}>
    <h2 id="help-title">Keys</h2>
    <table><tbody>${keys.map(([key, what]) => html`<tr key=${key}><td><kbd>${key}</kbd></td><td>${what}</td></tr>`)}</tbody></table>
    <p class="muted">Each page's state is in its address: send it to others, and they see the same. Everything here can be done with the command line (<code>radiator --help</code>) and over HTTP (<a href="/v1/openapi.json">/v1/openapi.json</a>).</p>
    <form method="dialog" class="buttons"><button>Close</button></form>
  </dialog>`;
}

function useKeys(openHelp) {
  useEffect(() => {
    let isGoing = false;
    const pressed = (event) => {
      const isTyping = event.target.matches?.("input, textarea, select");
      if (event.key === "Escape" && isTyping && !event.target.closest("dialog")) event.target.blur();
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.key === "/") {
        const filter = document.querySelector("[data-filter]");
        if (filter) {
          event.preventDefault();
          filter.focus();
          filter.select();
        }
      } else if (event.key === "?") {
        openHelp();
      } else if (isGoing) {
        const found = Object.entries(PAGES).find(([, { key }]) => key === event.key);
        if (found) go(found[0] ? [found[0]] : []);
      }
      isGoing = event.key === "g";
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function App() {
  const { path, query } = useRoute();
  const { isLoginNeeded } = useLink();
  const [isHelping, setHelping] = useState(false);
  const main = useRef(null);
  const asked = useAsked("/v1/session", 5000);
  const session = asked.answer;
  useKeys(() => setHelping(true));
  const name = path[0] ?? "";
  const place = path.join("/");
  useEffect(() => {
    const title = [...path.slice(1).reverse().map(seen), (Object.hasOwn(PAGES, name) && PAGES[name].title) || "", "Radiator"].filter(Boolean);
    document.title = title.join(" · ");
  }, [place]);
  useEffect(() => {
    if (session?.rights) findStomp(session);
  }, [session?.user, session?.version]);
  useEffect(() => {
    if (session && (session.user !== null || !session.users)) loggedIn(); // it may be from another tab
  }, [asked.at]);
  const isStranger = session?.users && session.user === null;
  const again = () => asked.again();
  const entered = () => {
    loggedIn();
    again();
  };
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>To the page</a>
    <${Nav} name=${name} />
    <div class="frame">
      <${Header} session=${session} again=${again} openHelp=${() => setHelping(true)} />
      <${Away} />
      <main id="main" ref=${main} tabindex="-1">
        ${isLoginNeeded || isStranger
          ? html`<${Login} entered=${entered} />`
          : html`<${Guard} key=${place}><${Page} name=${name} path=${path.slice(1)} query=${query} /></${Guard}>`}
      </main>
    </div>
    <${Told} />
    ${isHelping && html`<${Help} close=${() => setHelping(false)} />`}`;
}

render(html`<${App} />`, document.getElementById("app"));
