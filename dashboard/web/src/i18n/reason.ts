// Builds the text of a reason from its data: a sentence of the catalogue and its parameters (runtime/language/reason.h). Pure.
import { bytes } from "../format";
import type { Resources } from "../live/protocol";
import catalogue from "./reasons.json";

export type Why = [string, ...Part[]] | [];
export type Part = string | number | Why | { word: string } | { amounts: Resources };

export type Sentences = Record<string, string | undefined>;
// How a language writes what is no sentence.
interface Writing { sentences: Sentences; word: (of: string) => string; amounts: (of: Resources) => string }

const kChinese: Sentences = Object.fromEntries(Object.entries(catalogue as Record<string, { zh: string }>).map(([key, { zh }]) => [key, zh]));

function amounts_zh(amounts: Resources): string {
  const all = Object.entries(amounts);
  return all.length === 0 ? "无" : all.map(([name, amount]) => (name === "memory" ? `${bytes(amount, "zh-CN")} 内存` : `${amount} ${name === "cpus" ? "CPU" : name === "gpus" ? "GPU" : name}`)).join("，");
}
function amounts_en(amounts: Resources): string {
  const all = Object.entries(amounts);
  return all.length === 0 ? "nothing" : all.map(([name, amount]) => `${name} ${name === "memory" ? bytes(amount, "en") : amount}`).join(", ");
}

// Returns the reason in Chinese; null: the catalogue lacks a sentence (a newer head). `word` translates a state such as "running".
export const said = (why: Why, word: (of: string) => string): string | null => written(why, { sentences: kChinese, word, amounts: amounts_zh });
// The same in English, of which most of the page has the text already (reasons_en.ts).
export const said_en = (why: Why, sentences: Sentences): string | null => written(why, { sentences, word: (of) => of, amounts: amounts_en });

function written(why: Why, by: Writing): string | null {
  const [key, ...parts] = why;
  if (key === undefined) return "";
  const sentence = Object.hasOwn(by.sentences, key) ? by.sentences[key] : undefined;
  if (sentence === undefined) return null;
  const words = parts.map((part) => part_written(part, by));
  if (words.includes(null)) return null;
  return sentence.replace(/\{(\d+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_: string, place: string, one?: string, many?: string) => (one === undefined ? words[+place] ?? "" : parts[+place] === 1 ? one : many ?? ""));
}

function part_written(part: Part, by: Writing): string | null {
  if (typeof part === "string") return part;
  if (typeof part === "number") return String(part);
  if (Array.isArray(part)) return written(part, by);
  return "word" in part ? by.word(part.word) : by.amounts(part.amounts);
}

// Returns whether the reason contains the sentence `key`, at any depth.
export const says = (why: Why | null | undefined, key: string): boolean =>
  !!why && (why[0] === key || why.some((part) => Array.isArray(part) && says(part, key)));

// Returns the number of lines of its text.
export const lines_in = (why: Why): number => 1 + why.slice(1).reduce((sum: number, part) => sum + (typeof part === "string" ? part.split("\n").length - 1 : Array.isArray(part) ? lines_in(part) - 1 : 0), 0);
