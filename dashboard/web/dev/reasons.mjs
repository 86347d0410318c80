// Reasons in the format of the head: the English text and its data.
import { readFileSync } from "node:fs";

const kSentences = JSON.parse(readFileSync(new URL("../src/i18n/reasons.json", import.meta.url), "utf8"));

function text_of(part) {
  if (typeof part !== "object") return String(part);
  if (part.word) return part.word;
  if (part.amounts) return Object.entries(part.amounts).map(([name, amount]) => `${name} ${amount}`).join(", ") || "nothing";
  if (part.length === 0) return "";
  const [key, ...parts] = part;
  return kSentences[key].en.replace(/\{(\d+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, place, one, many) => (one === undefined ? text_of(parts[place]) : parts[place] === 1 ? one : many));
}

export const reasoned = (why) => ({ reason: text_of(why), why });

// Builds the answer of /api/v1/explain from pairs of an indentation and a text or reason.
export const explained = (lines) => ({
  text: lines.map(([indent, what]) => " ".repeat(indent) + (typeof what === "string" ? what : text_of(what)) + "\n").join(""),
  why: lines.map(([, what]) => (typeof what === "string" ? null : what)),
});
