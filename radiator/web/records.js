// Reads a log, some records at a time. It moves no group.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { SameByHand } from "./actions.js";
import { get, pathOf, withQuery } from "./api.js";
import { Body } from "./body.js";
import { readEvents } from "./events.js";
import { many, moment } from "./format.js";
import { Empty, Name, Table, Trouble } from "./parts.js";
import { go, href } from "./route.js";

const RECORDS = 50; // of a page
const BEGIN = 160; // characters of a body that are shown before it is opened
const LONGEST_MS = 10000;
const READ_AT_ONCE = 64; // partitions of one stream

const PLACES = { earliest: "the beginning", newest: `the last ${RECORDS}`, offset: "an offset", time: "a time" };

// In the URL: `from`, as the API takes it, and `partition`.
export function ReadLog({ name, log, query }) {
  const [partition, from] = [query.get("partition") ?? "", query.get("from")];
  return html`<section aria-label="Read">
    <${Where} key=${`${partition} ${from}`} name=${name} log=${log} partition=${partition} from=${from} />
    ${from === null
      ? html`<${Empty}>${`Choose a position: up to ${RECORDS} records are read from there on. This moves no group.`}</${Empty}>`
      : html`<${Records} key=${`${partition} ${from}`} name=${name} isSingle=${log.partitions.next.length === 1} partition=${partition} from=${from} />`}</section>`;
}

function Where({ name, log, partition, from }) {
  const all = log.partitions.next.length;
  const offset = /^\d+:(\d+)$/.exec(from ?? "")?.[1];
  const [values, setValues] = useState({ partition: partition || (all > READ_AT_ONCE ? "0" : ""), place: offset ? "offset" : "earliest", offset: offset ?? "", time: "" });
  const [problem, setProblem] = useState(undefined);
  const field = (key) => ({ value: values[key], onInput: (event) => setValues({ ...values, [key]: event.target.value }) });
  const read = async (event) => {
    event.preventDefault();
    try {
      go(["logs", name], { tab: "read", partition: values.partition, from: await fromOf(name, log, values) });
    } catch (wrong) {
      setProblem(wrong);
    }
  };
  const isOne = values.place === "offset" || all > READ_AT_ONCE;
  return html`<form class="bar" onSubmit=${read}>
      <label>Partition <input type="number" min="0" max=${all - 1} ...${field("partition")} required=${isOne} placeholder=${isOne ? "" : "all"} /></label>
      <label>From <select ...${field("place")}>${Object.entries(PLACES).map(([place, words]) => html`<option key=${place} value=${place} selected=${place === values.place}>${words}</option>`)}</select></label>
      ${values.place === "offset" && html`<label>Offset <input type="number" min="0" required ...${field("offset")} /></label>`}
      ${values.place === "time" && html`<label>Time <input type="datetime-local" step="0.001" required ...${field("time")} /></label>`}
      <button class="primary">Read</button></form>
    ${problem && html`<${Trouble} of=${problem} />`}`;
}

async function fromOf(name, log, { partition, place, offset, time }) {
  const { first, next } = log.partitions;
  const chosen = partition === "" ? next.map((_, nth) => nth) : [Number(partition)];
  if (place === "earliest") return place;
  if (place === "offset") return `${partition}:${offset}`;
  if (place === "newest") {
    const each = Math.ceil(RECORDS / chosen.length);
    return chosen.map((nth) => `${nth}:${Math.max(first[nth] ?? 0, (next[nth] ?? 0) - each)}`).join();
  }
  const { offsets } = await get(withQuery(pathOf("logs", name, "offsets"), { time_ms: Math.max(0, new Date(time).getTime()) }));
  return chosen.map((nth) => `${nth}:${offsets[nth] ?? 0}`).join();
}

// ---- what is there

function Records({ name, isSingle, partition, from }) {
  const path = withQuery(pathOf("logs", name, "events"), { from, partition });
  const [round, setRound] = useState(0);
  const [state, setState] = useState({ records: [], place: "", how: "", problem: undefined });
  useEffect(() => {
    const ended = new AbortController();
    const set = (changes) => ended.signal.aborted || setState((old) => ({ ...old, ...changes }));
    setState({ records: [], place: "", how: "", problem: undefined });
    read(name, path, ended.signal, set).catch((problem) => set({ how: "refused", problem }));
    return () => ended.abort();
  }, [path, round]);
  const { records, place, how, problem } = state;
  return html`
    ${problem && html`<${Trouble} of=${problem} />`}
    ${records.length > 0 && html`<${Table} label="Records" columns=${COLUMNS} rows=${records} keyOf=${(one) => one.id} />`}
    <p class="muted" role="status">${SENTENCES[how]?.(records.length) ?? `Reading… ${many(records.length, "record")} so far.`}</p>
    <nav class="pages" aria-label="Pages">
      ${place && place !== from && how !== "" && html`<a class="button" href=${href(["logs", name], { tab: "read", partition, from: place })}>${`Next ${RECORDS}`}</a>`}
      <button onClick=${() => setRound(round + 1)}>Read again</button></nav>
    <${SameByHand} clis=${commandsOf(name, isSingle ? "0" : partition, from)} calls=${[{ method: "GET", path }]} />`;
}

const SENTENCES = {
  enough: (n) => `${many(n, "record")}.`,
  end: (n) => (n ? `${many(n, "record")}, and then the end.` : "Nothing is there yet: this is the end."),
  large: (n) => `${many(n, "record")}: the next one is too large for this page. The command line can read it.`,
  late: (n) => `${many(n, "record")}: no more came in time. Read again.`,
  ended: (n) => `${many(n, "record")}: the broker has ended the stream. Read again.`,
  refused: () => "",
};

// Reads up to RECORDS of the records that are there now.
async function read(name, path, signal, set) {
  const { partitions } = await get(pathOf("logs", name), signal);
  const records = [];
  let how = "";
  const take = ({ id, message }) => {
    if (message) records.push(message);
    how = isEnd(id, partitions.next) ? "end" : records.length >= RECORDS ? "enough" : "";
    set({ records: [...records], place: id });
    return how !== "";
  };
  const late = AbortSignal.timeout(LONGEST_MS);
  try {
    const ended = await readEvents(path, AbortSignal.any([signal, late]), take);
    set({ how: how || ended });
  } catch (problem) {
    if (!late.aborted) throw problem;
    set({ how: "late" });
  }
}

// A place such as 0:18,1:5 has the offset to read next in each partition.
function isEnd(place, next) {
  return place.split(",").map((one) => one.split(":").map(Number)).every(([nth, at]) => at >= (next[nth] ?? 0));
}

// The command line reads from one offset, or from the beginning.
function commandsOf(name, partition, from) {
  const offset = /^\d+:(\d+)$/.exec(from)?.[1];
  if (from !== "earliest" && !(offset && partition)) return [];
  const one = partition ? ["--partition", partition] : [];
  return [["receive", `/log/${name}`, "--from", offset ? `offset:${offset}` : from, ...one, "--count", String(RECORDS), "--until", "end"]];
}

const COLUMNS = [
  { key: "place", title: "Record", cell: ({ partition, offset }) => `${partition}:${offset}` },
  { key: "at", title: "Accepted", wide: true, cell: ({ timestamp }) => moment(timestamp) },
  { key: "body", title: "Body", cell: (record) => html`<${Opened} of=${record} />` },
];

function Opened({ of }) {
  const [isOpen, setOpen] = useState(false);
  const begin = of.body === undefined ? "(bytes)" : of.body.slice(0, BEGIN) + (of.body.length > BEGIN ? "…" : "");
  const headers = Object.entries(of.headers);
  return html`<details class="record" onToggle=${(event) => setOpen(event.target.open)}><summary><${Name} of=${begin || "(empty)"} /></summary>
    ${isOpen && html`<p class="muted">Accepted ${moment(of.timestamp)}, sent to <${Name} of=${of.destination} /></p>
      ${headers.length > 0 && html`<ul class="headers inline">${headers.map(([name, value]) => html`<li key=${name}><${Name} of=${name} />: <${Name} of=${value} /></li>`)}</ul>`}
      <${Body} of=${of} />`}</details>`;
}
