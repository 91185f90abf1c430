// All logs: how much is in them, who reads, and how far behind.

import { html } from "../vendor/htm-preact.js";
import { Act, refuse } from "../actions.js";
import { pathOf, useAsked, withQuery } from "../api.js";
import { bytes, count, many } from "../format.js";
import { Asked, Empty, Filter, More, Name, Table, To, byName } from "../parts.js";

const ROWS = 100;
const HOUR_MS = 3600000;

export default function Logs({ query }) {
  const [match, after] = [query.get("match"), query.get("after")];
  const asked = useAsked(withQuery("/v1/logs", { match, after, limit: ROWS }), 3000, true);
  const empty = ({ logs }) => {
    if (Object.keys(logs).length) return undefined;
    if (match || after) return html`<${Empty}>No log matches, or there are no more. <${To} path=${["logs"]}>All logs</${To}></${Empty}>`;
    return html`<${Empty}>No log yet. A log keeps what is sent to /log/NAME for a time, and each group that reads it has a position of its own. Declare one here, or in config.toml.</${Empty}>`;
  };
  return html`<h1>Logs</h1>
    <div class="bar"><${Filter} query=${query} name="match" label="A pattern of names: clicks.* is one more word, clicks.# any number" placeholder="Names like clicks.#" />
      <span class="grow"></span><${Declare} done=${asked.again} /></div>
    <${Asked} of=${asked} empty=${empty}>${({ logs }) => html`<${Rows} rows=${byName(logs)} />`}</${Asked}>`;
}

function Rows({ rows }) {
  const columns = [
    { key: "name", title: "Name", cell: ([name]) => html`<${To} path=${["logs", name]}><${Name} of=${name} /></${To}>` },
    { key: "partitions", title: "Partitions", right: true, wide: true, cell: ([, log]) => count(log.partitions) },
    { key: "records", title: "Records", right: true, cell: ([, log]) => count(log.records) },
    { key: "bytes", title: "Bytes", right: true, wide: true, cell: ([, log]) => bytes(log.bytes) },
    { key: "readers", title: "Readers", right: true, wide: true, cell: ([, log]) => count(log.readers) },
    { key: "unread", title: "Most unread", cell: ([, log]) => html`<${MostUnread} of=${log.unread} />` },
    { key: "retention", title: "Keeps", right: true, wide: true, cell: ([, log]) => (log.retention_bytes === null ? "any size" : bytes(log.retention_bytes)) },
    { key: "damaged", title: "Damaged", right: true, wide: true, cell: ([, log]) => (log.damaged ? html`<span class="verdict needs">${count(log.damaged)}</span>` : "0") },
  ];
  return html`<${Table} label="Logs" columns=${columns} rows=${rows} keyOf=${([name]) => name} />
    ${rows.length === ROWS && html`<${More} after=${rows[ROWS - 1][0]} />`}`;
}

function MostUnread({ of }) {
  const groups = Object.entries(of);
  if (!groups.length) return html`<span class="muted">no group</span>`;
  const [name, unread] = groups.reduce((most, one) => (one[1] > most[1] ? one : most));
  const others = groups.length > 1 ? `, of ${many(groups.length, "group")}` : "";
  return html`${count(unread)} <span class="muted inline">by <${Name} of=${name} />${others}</span>`;
}

function Declare({ done }) {
  const fields = [
    { name: "name", label: "Name", required: true },
    { name: "partitions", label: "Partitions", type: "number", min: 1, max: 1024, value: "1", hint: "The number never changes. Records with the same key come in order." },
    { name: "partition_key", label: "Partition key", hint: "Where the key is in a JSON body, such as /customer/id. Empty: in the header partition-key." },
    { name: "hours", label: "Keep records for this many hours", type: "number", min: 0, step: "any", value: "168", hint: "0: no record is deleted for its age." },
    { name: "retention_bytes", label: "Keep at most", placeholder: "10GiB", hint: "Empty: any size." },
    { name: "schema", label: "Avro schema of bodies", type: "textarea", rows: 3, hint: "Empty: any body." },
  ];
  const said = ({ created, warnings = [] }) => [created ? "The log is declared." : "The log was there already, with these settings.", ...warnings].join(" ");
  return html`<${Act} label="Declare a log…" title="Declare a log" fields=${fields} make=${declared} said=${said} done=${done}>
    <p>The log survives a restart. Its partitions stay as they are for good.</p></${Act}>`;
}

function declared({ name, partitions, partition_key, hours, retention_bytes, schema }) {
  if (!name) refuse("A log needs a name.");
  const settings = {
    partitions: Number(partitions),
    retention_ms: Math.round(Number(hours) * HOUR_MS),
    ...(partition_key && { partition_key }),
    ...(retention_bytes && { retention_bytes }),
    ...(schema && { schema }),
  };
  const options = Object.entries(settings).map(([key, value]) => `--${key.replace("_", "-")}=${value}`);
  return { cli: ["declare", "log", `/log/${name}`, ...options], call: { method: "PUT", path: pathOf("logs", name), body: settings } };
}
