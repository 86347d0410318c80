// Parses the answer of `explain`: state of the object, facts, history with times, last lines of stderr. Pure.
import { lines_in, type Part, type Why } from "../i18n/reason";

// A text of the head and its data, if any.
export interface Said {
  reason: string;
  why: Why | null;
}

export interface Change {
  after_ms: number | null;  // Time since its creation; null: an entry for dropped changes.
  state: string;            // State as in lists: "alive", "restarting".
  where: Said;              // " on node heron, epoch 2"; may be empty.
  why: Said;
}

export interface Explanation {
  of: Said;         // "actor 3f2a (Trainer): alive on node heron, epoch 1"
  facts: Said[];
  history: Change[];
  wrote: string[];  // Last lines of its stderr.
}

const kHistory = "what it went through:";
const kWrote = "last lines of its stderr:";

// Returns one part per object: a trial, then the actor that runs it. `whys`: data of each line, or of a reason of several lines.
export function explanation_of(text: string, whys: (Why | null)[] = []): Explanation[] {
  const found: Explanation[] = [];
  let [in_history, in_wrote] = [false, false];
  const lines = text.replace(/\n+$/, "").split("\n");
  for (let [at, entry] = [0, 0]; at < lines.length; entry++) {
    const why = whys[entry] ?? null;
    const count = why ? lines_in(why) : 1;
    const line = lines.slice(at, at + count).join("\n");
    at += count;
    const now = found[found.length - 1];
    if (now && in_wrote) {
      now.wrote.push(line);
      continue;
    }
    const said = { reason: line.trim(), why };
    if (!said.reason) continue;
    if (!line.startsWith(" ") || !now) {
      found.push({ of: said, facts: [], history: [], wrote: [] });
      in_history = false;
    } else if (said.reason === kHistory) in_history = true;
    else if (said.reason === kWrote) in_wrote = true;
    else if (in_history) now.history.push(change_of(said));
    else now.facts.push(said);
  }
  return found;
}

// Parses "+0.30 s  alive on node heron, epoch 1: the fullest node that it fits on".
function change_of(said: Said): Change {
  const what = said.why?.[said.why.length - 1];
  const [, time, rest] = /^(made|…|\+[\d.]+ s) +([^]*)$/.exec(said.reason) ?? ["", "…", said.reason];
  if (time === "…") return { after_ms: null, state: "", where: { reason: "", why: null }, why: { reason: rest, why: Array.isArray(what) ? what : null } };
  const [, state, where, why] = /^([a-z_]+)( on node [^\s,:]+(?:, epoch \d+)?)?(?:: ([^]*))?$/.exec(rest) ?? ["", "", "", rest];
  const data = parts_of(what);
  return { after_ms: time === "made" ? 0 : Math.round(Number(time.slice(1, -2)) * 1000), state, where: { reason: where ?? "", why: data.where }, why: { reason: why ?? "", why: data.why } };
}

// Splits ["joined.because", ["explain.on", {"word": "starting"}, "heron", 1], ["place.fullest", [], []]].
function parts_of(what: Part | undefined): { where: Why | null; why: Why | null } {
  const [on, why] = Array.isArray(what) && what[0] === "joined.because" ? [what[1], what[2]] : [what, null];
  const reason = (part: Part | null | undefined) => (Array.isArray(part) ? part : null);
  return { where: Array.isArray(on) && on[0] === "explain.on" ? ["explain.on", "", ...on.slice(2)] : null, why: reason(why) };
}
