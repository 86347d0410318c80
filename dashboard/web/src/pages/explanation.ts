// Takes the answer of `explain` apart by its data: state of the object, facts, history with times, last lines of stderr. Pure.
import { lines_in, type Part, type Why } from "../i18n/reason";

// A text of the head and its data, if any. A text that is empty follows from the data.
export interface Said {
  reason: string;
  why: Why | null;
}

export interface Change {
  time: string;        // Since its creation, as "+0.30 s"; empty: its creation.
  state: string;       // State as in lists: "alive", "restarting"; empty: an entry for dropped changes.
  node: string;        // Empty: on none.
  epoch: number;
  why: Why | null;
}

export interface Explanation {
  of: Said;         // "actor 3f2a (Trainer): alive on node heron, epoch 1"
  facts: Said[];
  history: Change[];
  wrote: string[];  // Last lines of its stderr.
}

const kObjects = ["explain.trial", "explain.actor", "explain.group", "explain.group_removed", "explain.node"];

// Returns one part per object: a trial, then the actor that runs it. `whys`: data of each line, or of a reason of several lines; null: a line of a program or plain text.
export function explanation_of(text: string, whys: (Why | null)[] = []): Explanation[] {
  const found: Explanation[] = [];
  let in_wrote = false;
  const lines = text.replace(/\n+$/, "").split("\n");
  for (let [at, entry] = [0, 0]; at < lines.length; entry++) {
    const why = whys[entry] ?? null;
    const count = why ? lines_in(why) : 1;
    const line = lines.slice(at, at + count).join("\n");
    at += count;
    const now = found[found.length - 1];
    const key = why?.[0] ?? "";
    const said = { reason: line.trim(), why };
    if (!now || kObjects.includes(key)) {
      in_wrote = false;
      if (said.reason) found.push({ of: said, facts: [], history: [], wrote: [] });
    } else if (in_wrote) now.wrote.push(line);
    else if (key === "explain.stderr") in_wrote = true;
    else if (key === "explain.made") now.history.push(change_of("", why![1]));
    else if (key === "explain.later") now.history.push(change_of(String(why![1]), why![2]));
    else if (key !== "explain.history" && said.reason) now.facts.push(said);
  }
  return found;
}

// Reads ["joined.because", ["explain.on", {"word": "starting"}, "heron", 1], ["place.fullest", [], []]].
function change_of(time: string, what: Part | undefined): Change {
  const reason = (part: Part | null | undefined): Why | null => (Array.isArray(part) && part.length > 0 ? part : null);
  const [on, why] = Array.isArray(what) && what[0] === "joined.because" ? [reason(what[1]), reason(what[2])] : [reason(what), null];
  if (on?.[0] !== "explain.on" && on?.[0] !== "explain.state") return { time, state: "", node: "", epoch: 0, why: reason(what) };
  const [, state, node, epoch] = on;
  return { time, state: state_of(state ?? ""), node: typeof node === "string" ? node : "", epoch: typeof epoch === "number" ? epoch : 0, why };
}

// Reads {"word": "starting"}, or a sentence of its own: ["state.alive"].
function state_of(part: Part): string {
  if (Array.isArray(part)) return String(part[0] ?? "").replace(/^state\./, "");
  return typeof part === "object" && "word" in part ? part.word : String(part);
}
