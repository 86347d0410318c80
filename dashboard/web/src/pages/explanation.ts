// What `explain` says of a thing, taken apart: what it is, facts about it, what it went through with times, what it wrote last. Pure.

export interface Change {
  after_ms: number | null;  // Since it was created; null: changes that are not kept.
  state: string;            // As lists have it: "alive", "restarting".
  where: string;            // " on node heron, epoch 2"; may be empty.
  why: string;
}

export interface Explanation {
  of: string;         // "actor 3f2a (Trainer): alive on node heron, epoch 1"
  facts: string[];
  history: Change[];
  said: string[];     // The last lines on its stderr.
}

const kHistory = "what it went through:";
const kSaid = /^(last lines of its|the last it wrote to) stderr:$/;

// A trial comes before the actor that runs it: each has a part of its own.
export function explanation_of(text: string): Explanation[] {
  const found: Explanation[] = [];
  let [in_history, in_said] = [false, false];
  for (const line of text.replace(/\n+$/, "").split("\n")) {
    const now = found[found.length - 1];
    if (now && in_said) {
      now.said.push(line);
      continue;
    }
    const words = line.trim();
    if (!words) continue;
    if (!line.startsWith(" ") || !now) {
      found.push({ of: words, facts: [], history: [], said: [] });
      in_history = false;
    } else if (words === kHistory) in_history = true;
    else if (kSaid.test(words)) in_said = true;
    else if (in_history) now.history.push(change_of(words));
    else now.facts.push(words);
  }
  return found;
}

// "+0.30 s  alive on node heron, epoch 1: the fullest node that it fits on"
function change_of(words: string): Change {
  const [, time, rest] = /^(made|…|\+[\d.]+ s) +(.*)$/.exec(words) ?? ["", "…", words];
  if (time === "…") return { after_ms: null, state: "", where: "", why: rest };
  const [, state, where, why] = /^([a-z_]+)( on node [^\s,:]+(?:, epoch \d+)?)?(?:: (.*))?$/.exec(rest) ?? ["", "", "", rest];
  return { after_ms: time === "made" ? 0 : Math.round(Number(time.slice(1, -2)) * 1000), state, where: where ?? "", why: why ?? "" };
}
