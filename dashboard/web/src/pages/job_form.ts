// The form that submits a job: what it sends, the same as YAML, and the field that an error of the head is about. Pure.
import type { JobSpec } from "./job_rows";
import { limits_of_texts, names_of } from "./queue_settings";
import { yaml_bytes, yaml_list, yaml_text, yaml_value } from "./yaml_text";

export const kForm = {
  command: "", name: "", project: "", pool: "default", nodes: "1", cpus: "1", gpus: "0", memory: "0", mode: "single", minutes: "0", restarts: "0", priority: "normal", directory: "",
  environment: "", setup: "", env: "", isolated: "", mounts: "", output: "", stop_signal: "TERM", notify: "", array: "1",
  min_nodes: "0", grow: "", share_nodes: "", labels: "", node_names: "", resources: "", parameter_servers: "0", shm: "0", teardown: "", max_resumes: "0", debug: "0", graceful: "30", log_policies: "", access: "read", note: "", alternatives: "",
};
export type Form = typeof kForm;
export const kStopSignals = ["TERM", "INT", "USR1", "USR2", "HUP"];
// Fields that the form shows only on demand.
export const kFurther: (keyof Form)[] = [
  "env", "setup", "teardown", "mounts", "isolated", "shm", "output", "min_nodes", "grow", "share_nodes", "labels", "node_names", "resources", "parameter_servers", "stop_signal", "graceful", "max_resumes", "debug", "log_policies", "access", "notify", "note", "array", "alternatives",
];
export const kAccess = ["none", "read", "write"];

export const lines_of = (text: string) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const number = (text: string) => (Number.isFinite(Number(text)) ? Number(text) : 0);
const whole = (text: string) => Math.round(number(text));
const gib = (text: string) => Math.round(number(text) * 2 ** 30);
const seconds = (minutes: string) => Math.round(number(minutes) * 60);
export const array_of = (form: Form): number => whole(form.array);

// Variables by name. A line without "=" is a name that the head refuses with the line itself.
export function variables_of(text: string): Record<string, string> {
  const out: Record<string, string> = {};
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const at = line.indexOf("=");
    if (at < 0) out[""] = line.trim();
    else out[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return out;
}

// Texts such as "zone=a, disk=ssd". Null: one of them is no pair.
function pairs_of(text: string): Record<string, string> | null {
  const pairs = names_of(text).map((one) => /^([^=\s]+)\s*=\s*(.+)$/.exec(one));
  return pairs.every((one) => one !== null) ? Object.fromEntries(pairs.map((one) => [one![1], one![2]])) : null;
}
const amounts_of = (text: string) => limits_of_texts({ cpus: "", gpus: "", memory: "", others: text });
// A line such as "notify: loss is nan".
const policy_of = (line: string) => {
  const [, action, pattern] = /^([^\s:]+):?\s*(.*)$/.exec(line) ?? ["", "", line];
  return { pattern, action };
};

type Given = Partial<JobSpec>;
const without_empty = (spec: Given): Given => Object.fromEntries(Object.entries(spec).filter(([, value]) => value && (typeof value !== "object" || Object.keys(value).length > 0)));

// Empty fields are left out, so that the head fills in the defaults.
export const spec_of = (form: Form): Given => ({
  ...without_empty({
    name: form.name.trim(), directory: form.directory.trim(), project: form.project.trim(), environment: form.environment.trim(), output: form.output.trim(), note: form.note.trim(),
    setup: form.setup.trim() && form.setup, teardown: form.teardown.trim() && form.teardown, env: variables_of(form.env), isolated: Boolean(form.isolated), mounts: lines_of(form.mounts), shm_bytes: gib(form.shm),
    min_nodes: whole(form.min_nodes), grow: Boolean(form.grow), share_nodes: Boolean(form.share_nodes), labels: pairs_of(form.labels) ?? {}, node_names: names_of(form.node_names), resources: amounts_of(form.resources) ?? {}, parameter_servers: form.mode === "tensorflow" ? whole(form.parameter_servers) : 0,
    max_resumes: whole(form.max_resumes), debug_s: seconds(form.debug), graceful_s: whole(form.graceful), log_policies: lines_of(form.log_policies).map(policy_of), access: form.access, notify: names_of(form.notify),
  }),
  command: ["bash", "-c", form.command], nodes: whole(form.nodes), cpus: number(form.cpus), gpus: number(form.gpus), memory_bytes: gib(form.memory), mode: form.mode,
  duration_s: seconds(form.minutes), max_restarts: whole(form.restarts), priority: form.priority, pool: form.pool, stop_signal: form.stop_signal,
});

// One job of an array, as `volador job submit --array` makes it. `unique`: the end of the batch's name if the form has no name.
export function task_of(form: Form, index: number, unique: string): Partial<JobSpec> {
  const spec = spec_of(form);
  const batch = spec.name || "batch-" + unique;
  const name = `${batch}-${index}`;
  return { ...spec, name, batch, batch_index: index, batch_size: array_of(form), ...(spec.output ? { output: `${spec.output}/${name}` } : {}) };
}

const kSecondsOf: Record<string, number> = { s: 1, m: 60, min: 60, h: 3600, d: 86_400 };
const kBytesOf: Record<string, number> = { "": 1, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };
// Null: no such amount.
function seconds_of_text(text: string): number | null {
  if (!/^(?:\d+(?:\.\d+)?(?:s|min|m|h|d))+$/.test(text)) return text === "0" ? 0 : null;
  return [...text.matchAll(/([\d.]+)([a-z]+)/g)].reduce((sum, [, amount, unit]) => sum + Number(amount) * kSecondsOf[unit], 0);
}
function gib_of_text(text: string): string | null {
  const found = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(text);
  return found && found[2] in kBytesOf ? String((Number(found[1]) * kBytesOf[found[2]]) / 2 ** 30) : null;
}
const amount_in = (key: keyof Form, text: string): Partial<Form> | null => (/^\d+(?:\.\d+)?$/.test(text) ? { [key]: text } : null);
const time_in = (key: keyof Form, text: string, unit: number): Partial<Form> | null => {
  const time = seconds_of_text(text);
  return time === null ? null : { [key]: String(time / unit) };
};
const size_in = (key: keyof Form, text: string): Partial<Form> | null => {
  const size = gib_of_text(text);
  return size === null ? null : { [key]: size };
};
const kWords = ["name", "project", "pool", "mode", "priority", "directory", "environment", "output", "stop_signal", "access", "note", "setup", "teardown"];
const kAmounts = ["cpus", "gpus", "min_nodes", "max_resumes", "parameter_servers"];
// What `FIELD=VALUE` of an alternative changes in the form, as `volador job submit --or` reads it. Null: no field, or no value for it.
function change_of(text: string): Partial<Form> | null {
  const [, field, value] = /^\s*([a-z_]+)\s*=\s*(.*?)\s*$/.exec(text) ?? [];
  if (!field) return null;
  if (kWords.includes(field)) return { [field]: value };
  if (kAmounts.includes(field)) return amount_in(field as keyof Form, value);
  const nodes = /^(?:(\d+)-)?(\d+)$/.exec(value);
  switch (field) {
    case "nodes": return nodes && { nodes: nodes[2], ...(nodes[1] ? { min_nodes: nodes[1] } : {}) };
    case "max_restarts": return amount_in("restarts", value);
    case "memory": return size_in("memory", value);
    case "shm": return size_in("shm", value);
    case "duration": return time_in("minutes", value, 60);
    case "debug": return time_in("debug", value, 60);
    case "graceful": return time_in("graceful", value, 1);
    default: return null;
  }
}

const changes_of = (line: string) => line.split(/[,，]/).filter((one) => one.trim());
// What is wrong in the form before the head sees it: the field, the text that says so, and the part that it is about.
export type Wrong = { at: keyof Form; key: "queue.others.form" | "job.labels.form" | "job.alternatives.form" | "job.alternatives.array"; what: string };
export function wrong_of(form: Form): Wrong | null {
  if (!pairs_of(form.labels)) return { at: "labels", key: "job.labels.form", what: "" };
  if (!amounts_of(form.resources)) return { at: "resources", key: "queue.others.form", what: "" };
  const lines = lines_of(form.alternatives);
  const bad = lines.flatMap(changes_of).find((one) => !change_of(one));
  if (bad) return { at: "alternatives", key: "job.alternatives.form", what: bad.trim() };
  return lines.length && array_of(form) !== 1 ? { at: "alternatives", key: "job.alternatives.array", what: "" } : null;
}

// The jobs that the form submits: one, those of its array, or itself and its alternatives. `spec` makes the one with this index; `line`: the alternative's text.
export interface Jobs { kind: "one" | "array" | "alternatives"; size: number; spec: (index: number) => Given; line: (index: number) => string }
export function jobs_of(form: Form, unique: string): Jobs {
  const lines = lines_of(form.alternatives);
  const line = (index: number) => lines[index - 1] ?? "";
  if (lines.length) return { kind: "alternatives", size: lines.length + 1, line, spec: (index) => ({ ...spec_of(changes_of(line(index)).reduce((before, one) => ({ ...before, ...change_of(one) }), form)), one_of: unique }) };
  if (array_of(form) !== 1) return { kind: "array", size: Math.max(1, array_of(form)), line, spec: (index) => task_of(form, index, unique) };
  return { kind: "one", size: 1, line, spec: () => spec_of(form) };
}

const kFields: Record<string, keyof Form> = {
  mount: "mounts", env: "env", duration_s: "minutes", max_restarts: "restarts", memory_bytes: "memory", "resources.cpus": "cpus", "resources.gpus": "gpus", "resources.memory": "memory", batch_size: "array", batch_index: "array", batch: "name", shm_bytes: "shm", debug_s: "debug", graceful_s: "graceful",
};
// Field that a message of the head is about: `pool: there is no pool "x"` and `mount "a": …` name it first. Null: none of the form.
export function field_of(message: string): keyof Form | null {
  const first = /^(?:spec\.)?([a-z_]+(?:\.[a-z_]+)?)(?=[:,]| ")/.exec(message)?.[1] ?? "";
  const key = kFields[first] ?? (first.startsWith("resources.") ? "resources" : first);
  return key in kForm ? (key as keyof Form) : null;
}

const kDefaults: Partial<Record<keyof JobSpec, unknown>> = { nodes: 1, cpus: 1, gpus: 0, memory_bytes: 0, mode: "single", duration_s: 0, max_restarts: 0, priority: "normal", pool: "default", stop_signal: "TERM", environment: "host", isolated: false, access: "read", graceful_s: 30 };

// The job as `volador job submit --file` takes it, without what is the default anyway. `alternatives`: lines of the form.
export function job_yaml(spec: Given, alternatives: string[] = []): string {
  const lines: string[] = [];
  const put = (key: string, text: string) => lines.push(`${key}: ${text}`);
  const given = (key: keyof JobSpec) => spec[key] !== undefined && spec[key] !== "" && spec[key] !== kDefaults[key];
  const map = (key: "env" | "labels") => {
    const rows = Object.entries(spec[key] ?? {});
    if (rows.length) lines.push(`${key}:`, ...rows.map(([name, value]) => `  ${yaml_text(name)}: ${yaml_value(value, 2)}`));
  };
  const [shell, flag, script] = spec.command ?? [];
  if (spec.command?.length) put("command", shell === "bash" && flag === "-c" && spec.command.length === 3 ? yaml_value(script, 1) : yaml_list(spec.command));
  for (const key of ["name", "project", "pool", "environment", "mode", "priority", "directory", "output", "stop_signal", "access", "note"] as const) if (given(key)) put(key, yaml_text(String(spec[key])));
  for (const key of ["setup", "teardown"] as const) if (given(key)) put(key, yaml_value(spec[key]!, 1));
  for (const key of ["nodes", "min_nodes", "grow", "share_nodes", "parameter_servers", "cpus", "gpus"] as const) if (given(key)) put(key, String(spec[key]));
  if (given("memory_bytes")) put("memory", yaml_bytes(spec.memory_bytes!));
  if (given("shm_bytes")) put("shm", yaml_bytes(spec.shm_bytes!));
  for (const key of ["duration", "graceful", "debug"] as const) if (given(`${key}_s`)) put(key, `${spec[`${key}_s`]}s`);
  for (const key of ["max_restarts", "max_resumes", "isolated"] as const) if (given(key)) put(key, String(spec[key]));
  if (spec.mounts?.length) lines.push("mounts:", ...spec.mounts.map((one) => "  - " + yaml_text(one)));
  map("env");
  map("labels");
  const amounts = Object.entries(spec.resources ?? {});
  if (amounts.length) lines.push("resources:", ...amounts.map(([name, amount]) => `  ${yaml_text(name)}: ${amount}`));
  for (const key of ["node_names", "notify"] as const) if (spec[key]?.length) put(key, yaml_list(spec[key]!));
  if (spec.log_policies?.length) lines.push("log_policies:", ...spec.log_policies.map((one) => `  - pattern: ${yaml_text(one.pattern)}\n    action: ${yaml_text(one.action)}`));
  const plain = (value: string) => (/^[\w./-]+$/.test(value) ? value : JSON.stringify(value));
  const one_map = (line: string) => `{${changes_of(line).map((one) => one.trim().split(/\s*=\s*(.*)/s)).map(([field, value]) => `${field}: ${plain(value ?? "")}`).join(", ")}}`;
  if (alternatives.length) lines.push("alternatives:", "  - {}", ...alternatives.map((one) => `  - ${one_map(one)}`));
  return lines.join("\n") + "\n";
}
