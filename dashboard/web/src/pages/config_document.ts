// Changes single values of a configuration in its text: all other bytes, comments and unknown keys among them, stay as they are. Pure.
import { isAlias, isMap, isScalar, isSeq, parseDocument, type Document, type Pair, type Range, type YAMLMap } from "yaml";

type AnyMap = YAMLMap<unknown, unknown>;
type AnyPair = Pair<unknown, unknown>;

const read = (text: string): Document => parseDocument(text, { uniqueKeys: false, strict: false, logLevel: "silent" });
const range_of = (node: unknown): Range | null => (node as { range?: Range | null } | null)?.range ?? null;
const name_of = (pair: AnyPair): string => (isScalar(pair.key) ? String(pair.key.value) : "");
const pair_in = (map: AnyMap, name: string): AnyPair | undefined => map.items.find((one) => name_of(one) === name);
const is_null = (node: unknown): boolean => node === null || node === undefined || (isScalar(node) && node.value === null && (node.source ?? "") === "");

export class Config {
  private readonly document: Document;
  constructor(readonly text: string) {
    this.document = read(text);
  }

  // Whether the form can change it: the text is a map, or empty.
  get usable(): boolean {
    return this.document.errors.length === 0 && (this.document.contents === null || isMap(this.document.contents) || is_null(this.document.contents));
  }

  private node(path: string[]): unknown {
    let node: unknown = this.document.contents;
    for (const name of path) {
      if (!isMap(node)) return undefined;
      node = pair_in(node as AnyMap, name)?.value;
    }
    return node;
  }

  // The value as JSON has it; undefined: the key is absent.
  value(path: string[]): unknown {
    const node = this.node(path);
    if (node === undefined) return undefined;
    return isAlias(node) ? node.resolve(this.document)?.toJSON() : node === null ? null : (node as { toJSON(): unknown }).toJSON();
  }

  // What a field of the form shows: texts without their quotes, other values as they are written.
  shown(path: string[]): string {
    const node = this.node(path);
    const range = range_of(node);
    if (!range || is_null(node)) return "";
    if (isScalar(node) && typeof node.value === "string") return node.value;
    return this.text.slice(range[0], range[1]).trimEnd();
  }

  names(path: string[]): string[] {
    const node = this.node(path);
    return isMap(node) ? (node as AnyMap).items.map(name_of).filter(Boolean) : [];
  }

  // The text with this value, given as YAML in one line; null: without the key, and without the maps that this leaves empty. Returns null where the structure of the text does not allow it.
  with(path: string[], source: string | null): string | null {
    if (!this.usable) return null;
    if (!isMap(this.document.contents)) return source === null ? this.text : ended(this.text) + block(path, source, 0);
    let map = this.document.contents as AnyMap;
    for (let depth = 0; depth < path.length; ++depth) {
      const pair = pair_in(map, path[depth]);
      if (!pair) return source === null ? this.text : this.added(map, path.slice(depth), source);
      if (depth === path.length - 1) {
        if (source !== null) return this.replaced(pair, source);
        return depth > 0 && map.items.length === 1 ? this.with(path.slice(0, depth), null) : this.removed(map, pair);
      }
      if (is_null(pair.value)) return source === null ? this.text : this.filled(map, pair, path.slice(depth + 1), source);
      if (!isMap(pair.value)) return null;
      map = pair.value as AnyMap;
    }
    return null;
  }

  // The text with another name of a key.
  renamed(path: string[], name: string): string | null {
    const parent = this.node(path.slice(0, -1));
    const range = isMap(parent) ? range_of(pair_in(parent as AnyMap, path[path.length - 1])?.key) : null;
    return range && this.text.slice(0, range[0]) + name + this.text.slice(range[1]);
  }

  private colon(pair: AnyPair): number {
    return this.text.indexOf(":", range_of(pair.key)![1]);
  }

  private replaced(pair: AnyPair, source: string): string | null {
    const { text } = this;
    const colon = this.colon(pair);
    if (colon < 0) return null;
    const range = range_of(pair.value);
    if (!range || is_null(pair.value)) return text.slice(0, colon + 1) + " " + source + text.slice(colon + 1);
    const gap = text.slice(colon + 1, range[0]);
    const end = text.slice(range[0], range[1]).trimEnd().length + range[0];
    // A block below the key gives way to a value beside it; a comment behind the colon stays. So does what marks a text of several lines.
    const comment = /#[^\n]*/.exec(gap)?.[0];
    if (gap.includes("\n") || /^[|>]/.test(text.slice(range[0]))) return text.slice(0, colon + 1) + " " + source + (comment ? "  " + comment : "") + text.slice(end);
    return text.slice(0, range[0]) + source + text.slice(end);
  }

  private added(map: AnyMap, path: string[], source: string): string | null {
    const { text } = this;
    const last = map.items[map.items.length - 1];
    if (map.flow || !last) {
      const range = range_of(map)!;
      const at = last ? this.end_of(last) : range[0] + 1;
      const rest = text.slice(at, range[1] - 1);
      const comma = last && !rest.includes(",") ? ", " : last ? " " : "";
      const put = rest.includes(",") ? at + rest.indexOf(",") + 1 : at;
      return text.slice(0, put) + comma + flow(path, source) + text.slice(put);
    }
    const first = range_of(map.items[0].key)![0];
    const indent = first - (text.lastIndexOf("\n", first - 1) + 1);
    const at = this.line_after(this.end_of(last));
    const before = text.slice(0, at);
    return ended(before) + block(path, source, indent) + text.slice(at);
  }

  // Where a key has no value yet.
  private filled(map: AnyMap, pair: AnyPair, path: string[], source: string): string | null {
    const { text } = this;
    const colon = this.colon(pair);
    if (map.flow) return text.slice(0, colon + 1) + " {" + flow(path, source) + "}" + text.slice(colon + 1);
    const start = range_of(pair.key)![0];
    const indent = start - (text.lastIndexOf("\n", start - 1) + 1) + 2;
    const at = this.line_after(colon);
    return ended(text.slice(0, at)) + block(path, source, indent) + text.slice(at);
  }

  private removed(map: AnyMap, pair: AnyPair): string | null {
    const { text } = this;
    const start = range_of(pair.key)![0];
    const end = this.end_of(pair);
    if (map.flow) {
      const after = /^\s*,\s*/.exec(text.slice(end))?.[0].length ?? 0;
      const before = after ? 0 : (/,\s*$/.exec(text.slice(0, start))?.[0].length ?? 0);
      return text.slice(0, start - before) + text.slice(end + after);
    }
    const line = text.lastIndexOf("\n", start - 1) + 1;
    if (text.slice(line, start).trim() !== "") return null; // The first key of a list's item.
    return text.slice(0, line) + text.slice(this.line_after(end));
  }

  private end_of(pair: AnyPair): number {
    const range = is_null(pair.value) ? null : range_of(pair.value);
    if (!range) return this.colon(pair) + 1;
    return range[0] + this.text.slice(range[0], range[1]).trimEnd().length;
  }

  private line_after(offset: number): number {
    const end = this.text.indexOf("\n", offset);
    return end < 0 ? this.text.length : end + 1;
  }
}

const ended = (text: string): string => (text === "" || text.endsWith("\n") ? text : text + "\n");
const block = ([name, ...rest]: string[], source: string, indent: number): string => " ".repeat(indent) + name + ":" + (rest.length ? "\n" + block(rest, source, indent + 2) : ` ${source}\n`);
const flow = ([name, ...rest]: string[], source: string): string => `${name}: ${rest.length ? `{${flow(rest, source)}}` : source}`;

// The texts of a list, joined by commas; null: the list has something else in it.
export function list_shown(value: unknown): string | null {
  if (value === undefined || value === null) return "";
  return Array.isArray(value) && value.every((one) => typeof one === "string" || typeof one === "number") ? value.join(", ") : null;
}
export const is_list = (value: unknown): boolean => isSeq(value) || Array.isArray(value);
