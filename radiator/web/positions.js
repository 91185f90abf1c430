// The groups of a log: where each goes on, how to set that, and how to undo it.

import { html, useState } from "./vendor/htm-preact.js";
import { Act, behindDashes, commandLine, curlLine, refuse } from "./actions.js";
import { pathOf, useAsked, withQuery } from "./api.js";
import { count, many, moment } from "./format.js";
import { Asked, Code, Empty, Name, Pages, Table, To, inOrder } from "./parts.js";
import { href } from "./route.js";

const GROUPS = 20; // of a page: each is asked for
const PARTITIONS = 50;
const SHOWN = 8; // positions in one line
const READ_AT_ONCE = 64; // partitions of one stream

export function Groups({ name, log, query }) {
  const groups = [...log.groups].sort(inOrder);
  const first = Number(query.get("group_first") ?? 0) || 0;
  const given = query.get("group");
  const group = given ?? groups[0];
  return html`<section class="part" aria-label="Groups"><div class="bar"><h2>Groups</h2><span class="grow"></span><${Make} name=${name} log=${log} /></div>
    ${groups.length === 0 && html`<${Empty}>No group has a position here. The first SUBSCRIBE of a group creates it, and so does setting its position.</${Empty}>`}
    ${groups.length > 0 && html`<div class="scrolls" role="region" aria-label="Groups" tabindex="0"><table>
      <caption class="unseen">Groups</caption>
      <thead><tr><th scope="col">Group</th><th scope="col" class="right">Behind</th><th scope="col" class="wide">Positions, by partition</th></tr></thead>
      <tbody>${groups.slice(first, first + GROUPS).map((one) => html`<${Row} key=${one} name=${name} group=${one} log=${log} isCurrent=${one === group} />`)}</tbody>
    </table></div>`}
    <${Pages} first=${first} size=${GROUPS} all=${groups.length} name="group_first" />
    ${groups.length >= 1000 && html`<p class="muted">The broker lists the first 1,000 groups of a log here; every other one has a page at #/logs/NAME?group=GROUP.</p>`}
    ${group !== undefined && html`<${Group} key=${group} name=${name} group=${group} log=${log} query=${query} />`}
  </section>`;
}

// Never negative, if more is acked than the log had when it was asked; what retention has removed is not counted.
const behind = (log, offsets) => offsets.map((at, nth) => Math.max(0, log.partitions.next[nth] - Math.max(at, log.partitions.first[nth])));
const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);

const listed = (offsets) => (offsets === null ? "nowhere" : offsets.slice(0, SHOWN).join(", ") + (offsets.length > SHOWN ? `, … (${count(offsets.length)} partitions)` : ""));

function Row({ name, group, log, isCurrent }) {
  const { answer } = useAsked(pathOf("logs", name, "positions", group), 3000);
  const offsets = answer?.offsets;
  return html`<tr><td><${To} path=${["logs", name]} query=${{ group }} aria-current=${isCurrent ? "true" : undefined}><${Name} of=${group} /></${To}></td>
    <td class="right">${offsets ? count(sum(behind(log, offsets))) : "–"}</td>
    <td class="wide">${offsets ? listed(offsets) : "–"}</td></tr>`;
}

// ---- one group

function Group({ name, group, log, query }) {
  const asked = useAsked(pathOf("logs", name, "positions", group), 2000);
  return html`<section class="card part" aria-label="Group"><h2>Group <${Name} of=${group} /></h2>
    <${Asked} of=${asked}>${({ offsets }) => html`
      ${offsets === null
        ? html`<${Empty}>The group has no position: its next SUBSCRIBE says where it begins.</${Empty}>`
        : html`<${Positions} log=${log} offsets=${offsets} query=${query} />`}
      ${offsets !== null && offsets.length <= READ_AT_ONCE && html`<p><a href=${href(["logs", name], { tab: "read", from: fromOf(log, offsets) })}>Read on from its positions</a> <span class="muted">(this moves no group)</span></p>`}
      <${Move} name=${name} group=${group} log=${log} was=${offsets} done=${asked.again} />`}</${Asked}>
  </section>`;
}

const fromOf = (log, offsets) => offsets.map((at, nth) => `${nth}:${Math.max(at, log.partitions.first[nth])}`).join();

function Positions({ log, offsets, query }) {
  const begin = Number(query.get("position_first") ?? 0) || 0;
  const { first, next } = log.partitions;
  const far = behind(log, offsets);
  const rows = offsets.map((at, nth) => ({ at, nth }));
  const columns = [
    { key: "nth", title: "Partition", cell: ({ nth }) => nth },
    { key: "first", title: "First", right: true, wide: true, cell: ({ nth }) => first[nth] },
    { key: "at", title: "Position", right: true, cell: ({ at }) => at },
    { key: "next", title: "Next", right: true, cell: ({ nth }) => next[nth] },
    { key: "behind", title: "Behind", right: true, cell: ({ nth }) => count(far[nth]) },
  ];
  return html`<${Table} label="Positions" columns=${columns} rows=${rows.slice(begin, begin + PARTITIONS)} keyOf=${({ nth }) => nth} />
    <${Pages} first=${begin} size=${PARTITIONS} all=${rows.length} name="position_first" />`;
}

// ---- moving it

const WORDS = { earliest: "the beginning", latest: "the end", time: "a time", offsets: "offsets" };

// How to set a group to these offsets; null: how to have it forgotten.
function setting(name, group, offsets) {
  const path = pathOf("logs", name, "positions", group);
  const words = behindDashes(`/log/${name}`, group);
  return offsets === null
    ? { cli: ["position", "--forget", ...words], call: { method: "DELETE", path } }
    : { cli: ["position", "--to", `offset:${offsets.join()}`, ...words], call: { method: "PUT", path, body: { offsets } } };
}

function Undo({ of: { cli, call } }) {
  return html`<h3>How to take it back</h3>
    ${!cli.some((one) => one.includes("\0")) && html`<${Code} label="Take it back on the command line" text=${commandLine(cli)} />`}
    <${Code} label="Take it back over HTTP" text=${curlLine(call)} />`;
}

// By log and group, where a group was before it was moved from this page; it survives a visit to another page.
const moved = new Map();

function Move({ name, group, log, was, done }) {
  const [values, setValues] = useState({ place: "earliest", time: "", offsets: was?.join() ?? "" });
  const time_ms = values.place === "time" ? new Date(values.time).getTime() : NaN;
  const found = useAsked(Number.isNaN(time_ms) ? null : withQuery(pathOf("logs", name, "offsets"), { time_ms: Math.max(0, time_ms) }), 0);
  const field = (key) => ({ value: values[key], onInput: (event) => setValues({ ...values, [key]: event.target.value }) });
  const goal = () => {
    try {
      return target();
    } catch {
      return undefined; // the dialog says why
    }
  };
  const target = () => offsetsOf(values, log.partitions, found);
  const id = JSON.stringify([name, group]);
  const [, look] = useState(0);
  const note = () => {
    moved.set(id, was);
    look((n) => n + 1);
  };
  const undone = () => {
    moved.delete(id);
    look((n) => n + 1);
  };
  const said = ({ offsets }) => {
    note();
    return offsets === null ? `The group is forgotten; it was at ${listed(was)}.` : `The group goes on at ${listed(offsets)}; it was at ${listed(was)}.`;
  };
  const back = moved.get(id);
  return html`<div class="bar"><label>Go on at <select ...${field("place")}>${Object.entries(WORDS).map(([place, words]) => html`<option key=${place} value=${place} selected=${place === values.place}>${words}</option>`)}</select></label>
      ${values.place === "time" && html`<label>Time <input type="datetime-local" step="0.001" ...${field("time")} /></label>`}
      ${values.place === "offsets" && html`<label>Offsets <input ...${field("offsets")} placeholder="120,0,77" autocomplete="off" spellcheck=${false} /></label>`}
      <${Act} label="Set position…" title="Set the position of this group" make=${() => setting(name, group, target())} said=${said} done=${done}>
        <${Change} name=${name} group=${group} was=${was} to=${goal()} /></${Act}>
      ${was !== null && html`<${Act} label="Forget…" title="Forget the position of this group" isDangerous make=${() => setting(name, group, null)} said=${said} done=${done}>
        <${Change} name=${name} group=${group} was=${was} /></${Act}>`}</div>
    ${back !== undefined && html`<div class="undo"><p>${back === null ? "It had no position before it was set here." : `It was at ${listed(back)} before it was moved here.`}</p>
      <${Act} label="Take it back…" title="Take the position back" make=${() => setting(name, group, back)} done=${done}
        said=${({ offsets }) => { undone(); return `Taken back: the group is at ${listed(offsets)}.`; }} />
      <${Undo} of=${setting(name, group, back)} /></div>`}`;
}

function Change({ name, group, was, to }) {
  return html`<p>${was === null ? "It has no position now. " : `It is at ${listed(was)} now. `}${to && `It will go on at ${listed(to)}. `}The broker refuses this while the group has subscriptions.</p>
    <${Undo} of=${setting(name, group, was)} />`;
}

// The chosen offsets, by partition; throws a sentence for impossible ones.
function offsetsOf({ place, time, offsets }, { first, next }, found) {
  if (place === "earliest") return first;
  if (place === "latest") return next;
  if (place === "time") {
    if (!time) refuse("Choose a time: the group goes on with the first record accepted then or later.");
    return found.answer?.offsets ?? refuse(found.problem?.message ?? `Looking for the offsets of ${moment(new Date(time).getTime())}…`);
  }
  const all = offsets.split(",").map((one) => one.trim());
  if (all.length !== next.length || !all.every((one) => /^\d{1,15}$/.test(one))) refuse(`Write an offset for each of ${many(next.length, "partition")}, with commas between, such as ${next.slice(0, SHOWN).join()}.`);
  return all.map(Number);
}

function Make({ name, log }) {
  const fields = [
    { name: "group", label: "Group", required: true },
    { name: "place", label: "Goes on at", type: "select", value: "latest", options: [["earliest", WORDS.earliest], ["latest", WORDS.latest]] },
  ];
  const make = ({ group, place }) => {
    if (!group) refuse("A group needs a name.");
    if (log.groups.includes(group)) refuse("This group exists: choose it in the table.");
    return setting(name, group, offsetsOf({ place }, log.partitions));
  };
  return html`<${Act} label="Make a group…" title="Make a group" fields=${fields} make=${make} said=${({ offsets }) => `The group is created, and goes on at ${listed(offsets)}.`}>
    <p>The group exists from now on, and its first SUBSCRIBE begins at this position.</p></${Act}>`;
}
