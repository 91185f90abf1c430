// Spark and Celery as the broker sees them: queues, logs, groups and consumers by the names that both make.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { get, pathOf, useAsked, withQuery } from "../api.js";
import { bytes, count, duration, many, seen } from "../format.js";
import { Asked, Code, Empty, Facts, Filter, More, Name, QueueLink, Table, Tabs, To, Trouble, Verdict } from "../parts.js";
import { replaceQuery } from "../route.js";
import { Checkouts, useCheckouts } from "./prepared.js";

const WORKERS_SHOWN = 50; // each costs a request
const QUEUES_SHOWN = 20; // the same
const LOGS_SHOWN = 100;
const CHECKOUT = "$checkout/"; // the prefix of logs of checkouts, which have a table of their own
const BEHIND_CHECKOUTS = "$checkout0"; // the first name after those
const TABS = [["celery", "Celery"], ["spark", "Spark"]];

export default function Workers({ query }) {
  const tab = query.get("tab") === "spark" ? "spark" : "celery";
  return html`<h1>Spark and Celery</h1>
    <${Tabs} tabs=${TABS} current=${tab} path=${["workers"]} />
    ${tab === "spark" ? html`<${Spark} query=${query} />` : html`<${Celery} query=${query} />`}`;
}

// The answers to several GETs by their paths, made one after the other, repeatedly; refused ones are left out.
function useEach(paths, everyMs) {
  const [answers, setAnswers] = useState({});
  const key = paths.join("\n");
  useEffect(() => {
    const ended = new AbortController();
    let timer = 0;
    const look = async () => {
      const found = {};
      for (const path of document.hidden ? [] : paths) {
        try {
          found[path] = await get(path, ended.signal);
        } catch {
          if (ended.signal.aborted) return;
        }
      }
      if (!document.hidden) setAnswers(found);
      timer = setTimeout(look, everyMs);
    };
    look();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [key, everyMs]);
  return answers;
}

// ---- Celery

const PIDBOX = "#.pidbox"; // what Celery calls the mailboxes of its remote control

function Celery({ query }) {
  const exchange = query.get("exchange") || "celery";
  const controls = useAsked(withQuery("/v1/exchanges", { match: PIDBOX, limit: LOGS_SHOWN }), 5000);
  const boxes = useAsked(withQuery("/v1/queues", { match: PIDBOX, limit: 4 * WORKERS_SHOWN }), 5000);
  const there = useAsked(withQuery("/v1/exchanges", { match: exchange, limit: 1 }), 5000);
  const isThere = Object.hasOwn(there.answer?.exchanges ?? {}, exchange);
  const tasks = useAsked(isThere ? pathOf("exchanges", exchange) : null, 5000);
  const queues = [...new Set((tasks.answer?.bindings ?? []).map((one) => one.queue))];
  const { workers, replies } = mailboxes(Object.entries(controls.answer?.exchanges ?? {}), boxes.answer?.queues ?? []);
  const shownQueues = queues.slice(0, QUEUES_SHOWN);
  const shownWorkers = workers.slice(0, WORKERS_SHOWN);
  const why = (name) => pathOf("queues", name, "why");
  const answers = useEach([...shownQueues, ...shownWorkers.map((one) => one.box)].map(why), 3000);
  const looked = shownQueues.map((name) => ({ name, ...answers[why(name)] }));
  const people = shownWorkers.map((one) => ({ ...one, ...holding(answers[why(one.box)], looked) }));
  return html`
    <${Asked} of=${boxes}>${() => html`<${CeleryWorkers} of=${people} all=${workers.length} />`}</${Asked}>
    <section class="part"><h2>Queues of tasks</h2>
      <div class="bar"><${Filter} query=${query} name="exchange" label="Exchange of tasks" placeholder="Exchange: celery" /><span class="muted">Celery binds its queues to the exchange <b><${Name} of=${exchange} /></b>.</span></div>
      <${Asked} of=${there}>${() => !isThere && html`<${Empty}>There is no exchange of that name: no worker and no program of Celery has declared its queues yet. <code>broker_url = "radiator://HOST:61613"</code> and <code>import radiator.kombu</code> do; then they are shown here.</${Empty}>`}</${Asked}>
      ${isThere && tasks.problem && tasks.problem.code !== "unreachable" && html`<${Trouble} of=${tasks.problem} />`}
      ${tasks.answer && !queues.length && html`<${Empty}>No queue is bound to it.</${Empty}>`}
      ${shownQueues.length > 0 && html`<${Table} label="Queues of tasks" columns=${taskColumns(people)} rows=${looked} keyOf=${(one) => one.name} />`}
      ${queues.length > QUEUES_SHOWN && html`<p class="muted">${`The first ${QUEUES_SHOWN} of ${count(queues.length)}. `}<${To} path=${["exchanges", "exchange", exchange]}>All of its bindings</${To}></p>`}
    </section>
    <section class="card" aria-label="Control and replies"><h2>Control and replies</h2>
      <${Facts} rows=${[
        ["Control exchanges", controls.answer && many(Object.values(controls.answer.exchanges).filter((one) => one.type === "fanout").length, "exchange")],
        ["Mailboxes of workers", boxes.answer && html`<${To} path=${["queues"]} query=${{ text: "pidbox" }}>${many(workers.length, "queue")}</${To}>`],
        ["Who awaits answers to inspect and control", boxes.answer && many(replies.length, "mailbox", "mailboxes")],
      ]} />
      <p class="muted">Results by <code>rpc://</code> come to queues named by a UUID, one for each program that waits for results.</p></section>
    <p class="muted">What the broker cannot know: which tasks of a worker run and which only wait there (prefetch), the name of a task, and whether it has failed. Without <code>acks_late</code> a task is acked when it begins, so no number here counts it while it runs. <code>celery inspect active</code> asks the workers. A single task is found by its id, which is its correlation-id: <${To} path=${["messages"]}>Find a message</${To}>.</p>`;
}

// Queues that are called WORKER.APP.pidbox, of the control exchange APP.pidbox; and UUID.reply.APP.pidbox of programs.
function mailboxes(controls, queues) {
  const names = controls.filter(([, one]) => one.type === "fanout").map(([name]) => name);
  const workers = [];
  const replies = [];
  for (const { name, consumers } of queues) {
    const control = names.find((one) => name.endsWith(`.${one}`));
    if (!control) continue;
    const owner = name.slice(0, -control.length - 1);
    if (owner.endsWith(".reply")) replies.push(name);
    else workers.push({ box: name, worker: owner, control, isThere: consumers > 0 });
  }
  return { workers, replies };
}

// The worker's connection is the one that reads its mailbox; its unacked messages of task queues are the worker's.
function holding(box, queues) {
  const connection = box?.consumer_list?.[0]?.connection;
  if (connection === undefined) return { connection, queues: [], unacked: null };
  const own = queues.flatMap((queue) => (queue.consumer_list ?? []).filter((one) => one.connection === connection).map((one) => ({ name: queue.name, unacked: one.unacked })));
  // all consumers of a worker share one window, so each of them reports what all have
  return { connection, queues: [...new Set(own.map((one) => one.name))], unacked: Math.max(0, ...own.map((one) => one.unacked)) };
}

function CeleryWorkers({ of, all }) {
  const columns = [
    { key: "worker", title: "Worker", cell: (one) => html`<${Name} of=${one.worker} />` },
    { key: "connection", title: "Connection", wide: true, cell: (one) => (one.connection === undefined ? html`<span class="muted">${one.isThere ? "…" : "none"}</span>` : html`<${To} path=${["connections", String(one.connection)]}>${seen(one.connection)}</${To}>`) },
    { key: "queues", title: "Takes from", cell: (one) => html`<span>${one.queues.length ? one.queues.map((name, nth) => html`${nth ? ", " : ""}<${QueueLink} key=${name} name=${name} />`) : "–"}</span>` },
    { key: "unacked", title: "Unacked", right: true, cell: (one) => count(one.unacked) },
    { key: "control", title: "Control", wide: true, cell: (one) => html`<${QueueLink} name=${one.box} />` },
  ];
  return html`<section class="part"><h2>${all ? many(all, "worker") : "Workers"}</h2>
    ${!all && html`<${Empty}>No worker of Celery has remote control here. A worker that is started with <code>broker_url = "radiator://HOST:61613"</code> would be here under its name, unless it has <code>worker_enable_remote_control = False</code>.</${Empty}>`}
    ${all > 0 && html`<${Table} label="Workers" columns=${columns} rows=${of} keyOf=${(one) => one.box} />`}
    ${all > of.length && html`<p class="muted">${`The first ${of.length} of ${count(all)}.`}</p>`}</section>`;
}

const taskColumns = (workers) => [
  { key: "name", title: "Queue", cell: (one) => html`<${QueueLink} name=${one.name} />` },
  { key: "verdict", title: "How it is", cell: (one) => html`<${Verdict} of=${one.verdict} />` },
  { key: "ready", title: "Waiting", right: true, cell: (one) => count(one.ready) },
  { key: "unacked", title: "With workers", right: true, cell: (one) => count(one.unacked) },
  { key: "delayed", title: "Not due", right: true, wide: true, cell: (one) => count(one.delayed) },
  { key: "oldest", title: "Oldest", right: true, wide: true, cell: (one) => duration(one.oldest_ms) },
  { key: "consumers", title: "Consumers", wide: true, cell: (one) => html`${count(one.consumers)}${named(one, workers)}` },
];

function named(queue, workers) {
  const names = workers.filter((one) => one.queues.includes(queue.name)).map((one) => one.worker);
  return names.length ? html`: <${Name} of=${names.join(", ")} />` : "";
}

// ---- Spark

function Spark({ query }) {
  return html`
    <${Groups} after=${query.get("after")} />
    <${SparkCheckouts} after=${query.get("checkout")} />
    <${SparkPrepared} />
    <${Version} app=${query.get("app") ?? ""} />
    <p class="muted">What the broker cannot know: how far a query has read in a log, which only the query’s checkpoint has (its progress says it, in <code>latestOffset</code>); and whether a query runs that has nothing checked out, prepared or open just now. A reader is seen only while a batch reads.</p>`;
}

function Groups({ after }) {
  const asked = useAsked(withQuery("/v1/logs", { after, limit: LOGS_SHOWN }), 3000, true);
  const columns = [
    { key: "log", title: "Log", cell: (one) => html`<${To} path=${["logs", one.name]}><${Name} of=${one.name} /></${To}>` },
    { key: "group", title: "Group", cell: (one) => (one.group === null ? html`<span class="muted">none</span>` : html`<${Name} of=${one.group} />`) },
    { key: "lag", title: "Unread", right: true, cell: (one) => count(one.unread) },
    { key: "records", title: "Records", right: true, wide: true, cell: (one) => count(one.records) },
    { key: "readers", title: "Readers now", right: true, wide: true, cell: (one) => count(one.readers) },
  ];
  const rowsOf = (logs) => Object.entries(logs).filter(([name]) => !name.startsWith(CHECKOUT)).flatMap(([name, { unread, records, readers }]) => {
    const groups = Object.entries(unread);
    return (groups.length ? groups : [[null, null]]).map(([group, behind]) => ({ name, group, unread: behind, records, readers }));
  });
  return html`<section class="part"><h2>Logs and groups</h2>
    <${Asked} of=${asked}>${({ logs }) => {
      const names = Object.keys(logs).sort(); // JavaScript puts names that are numbers first
      if (!names.length) return html`<${Empty}>${after ? "There are no more logs." : html`There is no log. <code>radiator declare log clicks --partitions 2</code> makes one, and a query of Spark reads it with <code>subscribe="clicks"</code>.`}</${Empty}>`;
      const rows = rowsOf(logs);
      const last = names[names.length - 1];
      return html`<${Table} label="Logs and groups" columns=${columns} rows=${rows.slice(0, 2 * LOGS_SHOWN)} keyOf=${(one) => JSON.stringify([one.name, one.group])} />
        ${rows.length > 2 * LOGS_SHOWN && html`<p class="muted">${`The first ${2 * LOGS_SHOWN} of ${count(rows.length)} groups: a log’s own page has all of its.`}</p>`}
        ${names.length === LOGS_SHOWN && html`<${More} after=${last.startsWith(CHECKOUT) ? BEHIND_CHECKOUTS : last} />`}`;
    }}</${Asked}></section>`;
}

function SparkCheckouts({ after }) {
  const found = useCheckouts(after, 3000);
  return html`<section class="part"><h2>Checked out of queues</h2>
    <${Asked} of=${found}>${() => html`
      ${found.rows.length ? html`<${Checkouts} of=${found} />` : html`<${Empty}>No group has messages of a queue. A query with <code>mode="checkout"</code> would be here under its group.</${Empty}>`}
      ${found.next && html`<${More} name="checkout" after=${found.next} />`}`}</${Asked}></section>`;
}

function SparkPrepared() {
  const asked = useAsked("/v1/prepared", 3000);
  const sum = (rows, key) => rows.reduce((all, one) => all + one[key], 0);
  return html`<section class="card" aria-label="Prepared by sinks"><h2>Prepared by sinks</h2>
    <${Asked} of=${asked}>${({ prepared }) => {
      const own = prepared.filter((one) => one.name.startsWith("spark-"));
      if (!own.length) return html`<${Empty}>No sink of Spark has anything prepared. Each task of a batch keeps its rows here (<code>delivery="exactlyOnce"</code>) until the driver commits them all.</${Empty}>`;
      return html`<${Facts} rows=${[["Transactions", html`<${To} path=${["prepared"]} query=${{ text: "spark-" }}>${count(own.length)}</${To}>`], ["Messages", count(sum(own, "messages"))], ["Size", bytes(sum(own, "bytes"))], ["Oldest", duration(Math.max(...own.map((one) => one.age_ms)))]]} />
        <p class="muted">That is normal while a batch runs. A transaction older than any running batch was left by a batch that failed: it is aborted after <code>prepared_max_s</code>.</p>`;
    }}</${Asked}></section>`;
}

const LEDGER = `python -c "from radiator.integrations.spark.sink import ledger; print(ledger('counts', '/queue/counts'))"`;

function Version({ app }) {
  const [typed, setTyped] = useState(app);
  const asked = useAsked(app ? pathOf("apps", app) : null, 3000);
  const find = (event) => {
    event.preventDefault();
    replaceQuery({ app: typed });
  };
  return html`<section class="card" aria-label="Versions of apps"><h2>The last version of an app</h2>
    <form class="bar" onSubmit=${find}>
      <input aria-label="App" placeholder="App" value=${typed} maxlength="255" onInput=${(event) => setTyped(event.target.value)} autocomplete="off" spellcheck=${false} /><button>Show</button></form>
    ${app && html`<${Asked} of=${asked}>${({ version }) => html`<p>${version === null ? "No version was committed for the app " : `Version ${count(version)} is the last that was committed for the app `}<b><${Name} of=${app} /></b>.</p>`}</${Asked}>`}
    <p class="muted">A sink’s app is <code>txnAppId</code>, or <code>spark-</code> and the query’s id, with the digest of its destination behind a space. For the app counts, and its destination, this says it:</p>
    <${Code} label="The name of a sink’s app" text=${LEDGER} /></section>`;
}
