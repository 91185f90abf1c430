// What the broker remembers of the last hour, as columns of numbers, kept up to date.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";

const KEPT = 3600; // samples

// path: of a history. columns: {times (in seconds since the epoch), last_ms, and the values of each name}.
export function useHistory(path, everyMs) {
  const [state, setState] = useState({ columns: null, problem: null });
  const kept = useRef(null);
  useEffect(() => {
    kept.current = null;
    setState({ columns: null, problem: null });
    const ended = new AbortController();
    let timer = 0;
    const look = async () => {
      clearTimeout(timer);
      if (!document.hidden) {
        try {
          const old = kept.current;
          const answer = await get(old ? `${path}?after_ms=${old.last_ms}` : path, ended.signal);
          kept.current = joined(old, answer);
          setState({ columns: kept.current, problem: null });
        } catch (problem) {
          if (ended.signal.aborted) return;
          setState((before) => ({ ...before, problem }));
        }
      }
      timer = setTimeout(look, everyMs);
    };
    look();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [path]);
  return state;
}

function joined(old, { first_ms, every_ms, names, samples }) {
  const found = { every_ms, last_ms: old?.last_ms ?? 0, times: old ? [...old.times] : [] };
  const size = samples[0]?.length ?? 0;
  const isBehind = (at) => first_ms + at * every_ms > found.last_ms;
  let begin = 0;
  while (old && begin < size && !isBehind(begin)) begin += 1;
  if (old?.last_ms && begin < size && first_ms + begin * every_ms > old.last_ms + every_ms) {
    old = withGap(old, names, every_ms); // the broker has restarted: its history begins again
    found.times = [...old.times];
  }
  for (let at = begin; at < size; at += 1) found.times.push((first_ms + at * every_ms) / 1000);
  names.forEach((name, nth) => {
    found[name] = old ? old[name].concat(samples[nth].slice(begin)) : samples[nth];
  });
  if (size > begin) found.last_ms = first_ms + (size - 1) * every_ms;
  const over = found.times.length - KEPT;
  if (over > 0) {
    found.times = found.times.slice(over);
    for (const name of names) found[name] = found[name].slice(over);
  }
  return found;
}

// Adds a sample without values, so that no line is drawn over a time that was not counted.
function withGap(old, names, every_ms) {
  const times = [...old.times, (old.last_ms + every_ms) / 1000];
  return { ...old, times, ...Object.fromEntries(names.map((name) => [name, [...old[name], null]])) };
}
