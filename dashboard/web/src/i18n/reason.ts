// Builds the text of a reason from its data: a sentence of the catalogue and its parameters (runtime/language/reason.h). Pure.
import { bytes } from "../format";
import type { Resources } from "../live/protocol";
import catalogue from "./reasons.json";

export type Why = [string, ...Part[]] | [];
export type Part = string | number | Why | { word: string } | { amounts: Resources };

const kSentences: Record<string, { zh: string } | undefined> = catalogue;

// Returns the reason in Chinese; null: the catalogue lacks a sentence (a newer head). `word` translates a state such as "running".
export function said(why: Why, word: (of: string) => string): string | null {
  const [key, ...parts] = why;
  if (key === undefined) return "";
  const sentence = Object.hasOwn(kSentences, key) ? kSentences[key] : undefined;
  if (!sentence) return null;
  const words = parts.map((part) => part_said(part, word));
  if (words.includes(null)) return null;
  return sentence.zh.replace(/\{(\d+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_: string, place: string, one?: string, many?: string) => (one === undefined ? words[+place] ?? "" : parts[+place] === 1 ? one : many ?? ""));
}

function part_said(part: Part, word: (of: string) => string): string | null {
  if (typeof part === "string") return part;
  if (typeof part === "number") return String(part);
  if (Array.isArray(part)) return said(part, word);
  if ("word" in part) return word(part.word);
  const amounts = Object.entries(part.amounts);
  return amounts.length === 0 ? "无" : amounts.map(([name, amount]) => (name === "memory" ? `${bytes(amount, "zh-CN")} 内存` : `${amount} ${name === "cpus" ? "CPU" : name === "gpus" ? "GPU" : name}`)).join("，");
}

// Returns whether the reason contains the sentence `key`, at any depth.
export const says = (why: Why | null | undefined, key: string): boolean =>
  !!why && (why[0] === key || why.some((part) => Array.isArray(part) && says(part, key)));

// Returns the number of lines of its text.
export const lines_in = (why: Why): number => 1 + why.slice(1).reduce((sum: number, part) => sum + (typeof part === "string" ? part.split("\n").length - 1 : Array.isArray(part) ? lines_in(part) - 1 : 0), 0);
