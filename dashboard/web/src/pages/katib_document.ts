// A text with one resource of kind Experiment that a form reads and changes. Comments stay; a change writes the text anew in one layout. Pure.
import { isCollection, isMap, isScalar, parseDocument, type Document, type Scalar } from "yaml";

export type Path = (string | number)[];

// "spec.parameters[0].name", as the head names a place.
export const text_of_path = (path: Path): string => path.reduce<string>((text, one) => (typeof one === "number" ? `${text}[${one}]` : text ? `${text}.${one}` : one), "");

export class ResourceText {
  private readonly document: Document;
  constructor(readonly text: string) {
    this.document = read(text);
  }

  // Whether the form can change it: the text is one map, and its kind, if any, is Experiment.
  get usable(): boolean {
    const { errors, contents } = this.document;
    if (errors.length || !isMap(contents)) return false;
    const kind = this.document.get("kind");
    return kind === undefined || kind === "Experiment";
  }

  // As JSON has it; undefined: absent.
  value(path: Path): unknown {
    const node = this.document.getIn(path, true);
    return isCollection(node) ? node.toJS(this.document) : isScalar(node) ? node.value : undefined;
  }

  // What a field shows.
  shown(path: Path): string {
    const node = this.document.getIn(path, true);
    if (!isScalar(node) || node.value === null || node.value === undefined) return "";
    return typeof node.value === "string" ? node.value : ((node as Scalar).source ?? String(node.value));
  }

  // A copy of the value with its comments, for another place of the text.
  copy(path: Path): unknown {
    const node = this.document.getIn(path, true);
    return isCollection(node) || isScalar(node) ? node.clone() : undefined;
  }

  list(path: Path): unknown[] {
    const value = this.value(path);
    return Array.isArray(value) ? value : [];
  }
  maps(path: Path): Record<string, unknown>[] {
    return this.list(path).map((one) => (typeof one === "object" && one !== null ? (one as Record<string, unknown>) : {}));
  }

  // The text after these changes, in their order. A value of undefined removes the key, and the maps and lists that this leaves empty. Null: the structure of the text does not allow it.
  with(...changes: [path: Path, value: unknown][]): string | null {
    const changed = read(this.text);
    try {
      for (const [path, value] of changed_paths(changes)) {
        if (value === undefined) remove(changed, path);
        else put(changed, path, value);
      }
      return changed.toString({ lineWidth: 0, blockQuote: "literal", flowCollectionPadding: false });
    } catch {
      return null;
    }
  }
}

const read = (text: string): Document => parseDocument(text, { compat: "yaml-1.1", logLevel: "error" });
const changed_paths = (changes: [Path, unknown][]) => changes.filter(([path]) => path.length > 0);

function put(document: Document, path: Path, value: unknown): void {
  // A key without a value gives way to what comes below it.
  for (let depth = 1; depth < path.length; ++depth) {
    const above = document.getIn(path.slice(0, depth), true);
    if (isScalar(above) && above.value === null) document.deleteIn(path.slice(0, depth));
  }
  const now = document.getIn(path, true);
  if (isScalar(now) && (typeof value !== "object" || value === null)) {
    const node = document.createNode(value) as Scalar;
    node.comment = now.comment;
    if (typeof now.value === "string" && typeof value === "string") node.type = now.type;
    document.setIn(path, node);
  } else document.setIn(path, document.createNode(value, { aliasDuplicateObjects: false }));
}

function remove(document: Document, path: Path): void {
  if (!document.hasIn(path)) return;
  document.deleteIn(path);
  const above = path.slice(0, -1);
  const left = above.length ? document.getIn(above, true) : null;
  if (isCollection(left) && left.items.length === 0) remove(document, above);
}

// ---- What the form makes of the fields ----

// A whole number where the text is one; otherwise the text, which the head refuses by name. Empty: absent.
export const whole = (text: string): unknown => (text.trim() === "" ? undefined : /^-?\d+$/.test(text.trim()) ? Number(text) : text.trim());
// A number where the text is its shortest form: "0." and "0.10" stay texts, which the head reads as numbers too, so that they can be written.
export const number = (text: string): unknown => (text.trim() === "" ? undefined : String(Number(text)) === text.trim() && Number.isFinite(Number(text)) ? Number(text) : text.trim());
export const word = (text: string): unknown => (text.trim() === "" ? undefined : text);
export function words(text: string): unknown {
  const all = text.split(/[,，]/).map((one) => one.trim()).filter(Boolean);
  return all.length ? all : undefined;
}

export const kSpaceOf: Record<string, Record<string, unknown>> = {
  double: { min: "0.001", max: "0.1" },
  int: { min: "1", max: "10" },
  discrete: { list: ["1", "2", "4"] },
  categorical: { list: ["a", "b"] },
};

const kShells = ["bash", "sh", "/bin/bash", "/bin/sh"];
const kPlain = /^(?:[\w@%+=:,./-]|\$\{trial(?:Parameters|Spec)\.[^}\s]*\})+$/;
const kPlaceholder = /\$\{trial(?:Parameters|Spec)\.[^}\s]*\}/g;
function in_quotes(text: string): string {
  if (kPlain.test(text)) return text;
  if (text.includes("'") && !/["\\`$!]/.test(text.replace(kPlaceholder, ""))) return `"${text}"`;
  return `'${text.replace(/'/g, `'\\''`)}'`;
}

// The command of a container as a line or a script of a shell.
export function script_of(container: Record<string, unknown>): string {
  const texts = [container.command, container.args].flatMap((one) => (Array.isArray(one) ? one.map(String) : []));
  if (texts.length === 3 && kShells.includes(texts[0]) && texts[1] === "-c") return texts[2];
  return texts.map(in_quotes).join(" ");
}
export const command_of = (script: string): unknown => (script.trim() === "" ? undefined : ["bash", "-c", script]);

// ---- Parameters: those of the search and those of the trials that take their values ----

const kParameters: Path = ["spec", "parameters"];
const kTrialParameters: Path = ["spec", "trialTemplate", "trialParameters"];

// The first of these names that is free: "lr", "parameter_2".
export function free_name(taken: unknown[], stem: string): string {
  for (let i = taken.length + 1; ; ++i) if (!taken.includes(`${stem}_${i}`)) return `${stem}_${i}`;
}

export function with_parameter(text: ResourceText): string | null {
  const taken = text.maps(kParameters).map((one) => one.name);
  const name = free_name(taken, "parameter");
  return text.with([[...kParameters, taken.length], { name, parameterType: "double", feasibleSpace: kSpaceOf.double }], [[...kTrialParameters, text.list(kTrialParameters).length], { name, reference: name }]);
}
export function renamed_parameter(text: ResourceText, index: number, name: string): string | null {
  const old = text.shown([...kParameters, index, "name"]);
  const follow = text.maps(kTrialParameters).flatMap((one, i): [Path, unknown][] => (one.reference === old ? [[[...kTrialParameters, i, "reference"], name]] : []));
  return text.with([[...kParameters, index, "name"], name], ...follow);
}
export function without_parameter(text: ResourceText, index: number): string | null {
  const old = text.shown([...kParameters, index, "name"]);
  const gone = text.maps(kTrialParameters).flatMap((one, i): [Path, unknown][] => (one.reference === old ? [[[...kTrialParameters, i], undefined]] : [])).reverse();
  return text.with([[...kParameters, index], undefined], ...gone);
}

// ---- Settings of an algorithm ----

export interface Setting { name: string; form: string; words: string[]; usual?: string; low?: number; high?: number; above_low: boolean; below_high: boolean }
export interface Algorithm { name: string; early_stopping: boolean; external: boolean; settings: Setting[] }

// The values that a setting takes, in signs: "> 0", "1 … 10", "0 < x < 1".
export function range_of({ low, high, above_low, below_high }: Setting): string {
  if (low === undefined) return "";
  if (high === undefined) return `${above_low ? ">" : "≥"} ${low}`;
  if (high >= 1e5) return `${above_low ? ">" : "≥"} ${low}`;
  return above_low || below_high ? `${low} ${above_low ? "<" : "≤"} x ${below_high ? "<" : "≤"} ${high}` : `${low} … ${high}`;
}

// The text with this value of a setting of the list at `path`; an empty value removes it.
export function with_setting(text: ResourceText, path: Path, name: string, value: string): string | null {
  const index = text.maps(path).findIndex((one) => one.name === name);
  if (index < 0) return value.trim() === "" ? text.text : text.with([[...path, text.list(path).length], { name, value }]);
  return text.with(value.trim() === "" ? [[...path, index], undefined] : [[...path, index, "value"], value]);
}
