// How numbers, times and names are written. Nothing here knows the broker or the page.

const KIB = 1024;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function count(n) {
  return n === null || n === undefined ? "–" : Math.round(n).toLocaleString("en-US");
}

export function rate(n) {
  if (n === null || n === undefined) return "–";
  return n >= 100 || Number.isInteger(n) ? count(n) : n.toFixed(1);
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  let unit = 0;
  while (n >= KIB && unit < UNITS.length - 1) {
    n /= KIB;
    unit += 1;
  }
  return `${unit && n < 100 ? n.toFixed(1) : Math.round(n)} ${UNITS[unit]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function moment(ms) {
  if (!ms) return "–";
  const at = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function many(n, one, more = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : more}`;
}

// a character that would be invisible, or change the direction of the text around it, is shown as its number
const ODD = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export function seen(text) {
  return String(text).replace(ODD, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// A word of a command line, quoted for any POSIX shell. What cannot be seen, or would act on a terminal, is made by
// printf, byte by byte: so the line does the same whether it is copied or typed, also in sh, which lacks $'...'.
export function quoted(word) {
  const text = String(word);
  if (/^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$/.test(text)) return text;
  if (seen(text.replaceAll("\n", "")) === text.replaceAll("\n", "")) return `'${text.replaceAll("'", "'\\''")}'`;
  const [, begin, ends] = /^(.*?)(\n*)$/s.exec(text); // $(...) removes newlines at its end
  return `"$(printf '${octal(begin)}')"${ends && `'${ends}'`}`;
}

function octal(text) {
  return Array.from(new TextEncoder().encode(text), (one) => {
    const char = String.fromCharCode(one);
    return /[A-Za-z0-9_ .,:/=]/.test(char) ? char : `\\${one.toString(8).padStart(3, "0")}`;
  }).join("");
}

export function asHex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = data.subarray(at, at + 16);
    const hex = Array.from(row, (one) => one.toString(16).padStart(2, "0")).join(" ");
    const text = Array.from(row, (one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}
