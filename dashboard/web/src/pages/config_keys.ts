// The keys of a configuration with their meanings: what the editor completes at a place of the text. Pure.
import { parseDocument } from "yaml";
import sections from "../i18n/config_keys.json";
import chinese from "../i18n/config_keys_zh.json";

interface Section {
  at: string;
  when?: string[];  // Only with this value of this key.
  keys: Record<string, string[]>;  // What the value is, its default, and what it means.
}
const kSections = sections as unknown as Section[];
const kChinese = chinese as Record<string, string>;
const kTypes = kSections.filter((one) => one.at === "hyperparameters" && one.when).map((one) => one.when![1]);

export interface Offer {
  name: string;
  detail: string;  // What the value is; empty for values.
  about: string;
  fallback: string;  // Default; empty: none.
}
export interface Place {
  path: string[];      // Keys around the cursor; "[]" after a key: an item of its list.
  key: string | null;  // The key whose value is being written; null: a key is.
  from: number;        // Offset at which the word begins.
}

const kKey = /^(\s*)((?:- +)*)(?:"([^"]*)"|'([^']*)'|([\w.$/-]+))\s*:(?:\s|$)/;
const key_in = (line: string) => {
  const found = kKey.exec(line);
  return found && { indent: found[1].length + found[2].length, listed: found[2].length > 0, dash: found[1].length, name: found[3] ?? found[4] ?? found[5] };
};

// Where in the text this offset is; null: in a comment.
export function place_of(text: string, offset: number): Place | null {
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  const line = text.slice(start, offset);
  if (/(?:^|\s)#/.test(line)) return null;
  const opening = flow_of(line);
  const head = opening.rest;
  const dash = /^(\s*)((?:- +)*)/.exec(line)!;
  const indent = dash[1].length + dash[2].length;
  const path = around(text.slice(0, start), dash[2] ? dash[1].length + 1 : indent, dash[2].length > 0);
  const own = key_in(line);
  if (opening.keys) {
    const flow_path = own ? [...path, own.name, ...opening.keys] : [...path, ...opening.keys];
    const value = /^\s*([\w.-]+)\s*:\s*([\w.-]*)$/.exec(head);
    const word = value ? value[2] : (/([\w.-]*)$/.exec(head)?.[1] ?? "");
    return { path: flow_path, key: value ? value[1] : null, from: offset - word.length };
  }
  const value = /:\s+([\w.-]*)$/.exec(line);
  if (own && value) return { path, key: own.name, from: offset - value[1].length };
  const word = /^\s*(?:- +)*([\w.-]*)$/.exec(line);
  return word ? { path, key: null, from: offset - word[1].length } : null;
}

// Braces of the line that are still open: keys before the inner ones, and the text after the last comma or brace.
function flow_of(line: string): { keys: string[] | null; rest: string } {
  const open: string[] = [];
  let part = "";
  for (const letter of line) {
    if (letter === "{") {
      open.push(/([\w.-]+)\s*:\s*$/.exec(part)?.[1] ?? "");
      part = "";
    } else if (letter === "}") {
      open.pop();
      part = "";
    } else if (letter === ",") {
      part = "";
    } else {
      part += letter;
    }
  }
  return { keys: open.length ? open.slice(1) : null, rest: part };
}

// The keys above whose blocks have something at this indentation. `listed`: it is an item of a list.
function around(text: string, indent: number, listed: boolean): string[] {
  const path: string[] = [];
  let [least, list] = [indent, listed];
  for (const line of text.split("\n").reverse()) {
    if (least === 0) break;
    const key = key_in(line);
    if (!key) continue;
    if (key.indent < least) {
      path.unshift(key.name + (list ? "[]" : ""));
      list = key.listed;
      least = list ? key.dash + 1 : key.indent; // A list may stand at the indentation of its key.
    } else if (key.listed && key.indent === least && !list) {
      list = true;
      least = key.dash + 1;
    }
  }
  return path;
}

const text_in = (of: string, zh: boolean) => (zh ? kChinese[of] ?? of : of);

function sections_at(path: string[], text: string): Section[] {
  if (path[0] === "hyperparameters") {
    if (path.length < 2) return [];
    const type = read(text, [...path, "type"]);
    return kSections.filter((one) => one.at === "hyperparameters" && one.when?.[1] === type);
  }
  const at = path.join(".");
  const known = kSections.filter((one) => one.at === at || (one.at === "devices[]" && at === "resources.devices[]"));
  return known.filter((one) => !one.when || read(text, [...path, one.when[0]]) === one.when[1]);
}

function read(text: string, path: string[]): unknown {
  try {
    const value = parseDocument(text, { strict: false, uniqueKeys: false, logLevel: "silent" }).getIn(path);
    return typeof value === "object" ? undefined : value;
  } catch {
    return undefined; // Aliases that nothing anchors, while the text is being written.
  }
}

// The values that a description lists: "one of best, all, none".
export function values_in(kind: string): string[] {
  if (kind === "true or false") return ["true", "false"];
  if (kind.startsWith("one of ")) return kind.slice(7).split(", ");
  return kind === "cancel_retries or exclude_node" ? kind.split(" or ") : [];
}

const described = (path: string[], name: string, text: string): string[] | undefined => {
  for (const section of sections_at(path, text)) if (section.keys[name]) return section.keys[name];
  return undefined;
};

// What may be written there.
export function offers_at(text: string, place: Place, zh: boolean): Offer[] {
  const { path, key } = place;
  const in_hyperparameter = path[0] === "hyperparameters" && path.length > 1;
  if (key !== null) {
    const values = in_hyperparameter && key === "type" ? kTypes : values_in(described(path, key, text)?.[0] ?? "");
    const about = text_in(described(path, key, text)?.[2] ?? "", zh);
    return values.map((name) => ({ name, detail: "", about, fallback: "" }));
  }
  const found = sections_at(path, text).flatMap((section) => Object.entries(section.keys));
  const offers = found.map(([name, [kind, fallback, about]]) => ({ name, detail: text_in(kind, zh), about: text_in(about, zh), fallback: fallback === "required" ? "" : fallback }));
  return in_hyperparameter && !found.length ? [{ name: "type", detail: kTypes.join(", "), about: "", fallback: "" }] : offers;
}

// The meaning of a key, for the form.
export function about_key(path: string[], zh: boolean): string {
  const name = path[path.length - 1];
  const at = path.slice(0, -1).join(".");
  const found = kSections.find((one) => one.at === at && one.keys[name]);
  return found ? text_in(found.keys[name][2], zh) : "";
}
// The values that a key may have, as its description lists them.
export function values_of(path: string[]): string[] {
  const name = path[path.length - 1];
  const at = path.slice(0, -1).join(".");
  return values_in(kSections.find((one) => one.at === at && one.keys[name])?.keys[name][0] ?? "");
}
export { kTypes };
