// The form that submits a job: what it sends, the same as YAML, and the field that an error of the head is about. Pure.
import { yaml_bytes, yaml_list, yaml_text, yaml_value } from "./yaml_text";
import type { JobSpec } from "./job_rows";

export const kForm = {
  command: "", name: "", project: "", pool: "default", nodes: "1", cpus: "1", gpus: "0", memory: "0", mode: "single", minutes: "0", restarts: "0", priority: "normal", directory: "",
  environment: "", setup: "", env: "", isolated: "", mounts: "", output: "", stop_signal: "TERM", notify: "", array: "1",
};
export type Form = typeof kForm;
export const kStopSignals = ["TERM", "INT", "USR1", "USR2", "HUP"];
// Fields that the form shows only on demand.
export const kFurther: (keyof Form)[] = ["setup", "env", "isolated", "mounts", "output", "stop_signal", "notify", "array"];

const lines_of = (text: string) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const number = (text: string) => (Number.isFinite(Number(text)) ? Number(text) : 0);
export const array_of = (form: Form): number => Math.round(number(form.array));

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

// Empty fields are left out, so that the head fills in the defaults.
export function spec_of(form: Form): Partial<JobSpec> {
  const texts = Object.fromEntries((["name", "directory", "project", "environment", "output"] as const).filter((key) => form[key].trim()).map((key) => [key, form[key].trim()]));
  const env = variables_of(form.env);
  const mounts = lines_of(form.mounts);
  const notify = form.notify.split(/[,，]/).map((one) => one.trim()).filter(Boolean);
  return {
    ...texts, command: ["bash", "-c", form.command], ...(form.setup.trim() ? { setup: form.setup } : {}), ...(Object.keys(env).length ? { env } : {}), ...(form.isolated ? { isolated: true } : {}), ...(mounts.length ? { mounts } : {}), ...(notify.length ? { notify } : {}),
    nodes: Math.round(number(form.nodes)), cpus: number(form.cpus), gpus: number(form.gpus), memory_bytes: Math.round(number(form.memory) * 2 ** 30), mode: form.mode,
    duration_s: Math.round(number(form.minutes) * 60), max_restarts: Math.round(number(form.restarts)), priority: form.priority, pool: form.pool, stop_signal: form.stop_signal,
  };
}

// One job of an array, as `volador job submit --array` makes it. `unique`: the end of the batch's name if the form has no name.
export function task_of(form: Form, index: number, unique: string): Partial<JobSpec> {
  const spec = spec_of(form);
  const batch = spec.name || "batch-" + unique;
  const name = `${batch}-${index}`;
  return { ...spec, name, batch, batch_index: index, batch_size: array_of(form), ...(spec.output ? { output: `${spec.output}/${name}` } : {}) };
}

const kFields: Record<string, keyof Form> = {
  mount: "mounts", env: "env", duration_s: "minutes", max_restarts: "restarts", memory_bytes: "memory", "resources.cpus": "cpus", "resources.gpus": "gpus", "resources.memory": "memory", batch_size: "array", batch_index: "array", batch: "name",
};
// Field that a message of the head is about: `pool: there is no pool "x"` and `mount "a": …` name it first. Null: none of the form.
export function field_of(message: string): keyof Form | null {
  const first = /^(?:spec\.)?([a-z_]+(?:\.[a-z_]+)?)(?=:| ")/.exec(message)?.[1] ?? "";
  const key = kFields[first] ?? first;
  return key in kForm ? (key as keyof Form) : null;
}

const kDefaults: Partial<Record<keyof JobSpec, unknown>> = { nodes: 1, cpus: 1, gpus: 0, memory_bytes: 0, mode: "single", duration_s: 0, max_restarts: 0, priority: "normal", pool: "default", stop_signal: "TERM", environment: "host", isolated: false };

// The job as `volador job submit --file` takes it, without what is the default anyway.
export function job_yaml(spec: Partial<JobSpec>): string {
  const lines: string[] = [];
  const put = (key: string, text: string) => lines.push(`${key}: ${text}`);
  const given = (key: keyof JobSpec) => spec[key] !== undefined && spec[key] !== "" && spec[key] !== kDefaults[key];
  const [shell, flag, script] = spec.command ?? [];
  if (spec.command?.length) put("command", shell === "bash" && flag === "-c" && spec.command.length === 3 ? yaml_value(script, 1) : yaml_list(spec.command));
  for (const key of ["name", "project", "pool", "environment", "mode", "priority", "directory", "output", "stop_signal", "note"] as const) if (given(key)) put(key, yaml_text(String(spec[key])));
  if (given("setup")) put("setup", yaml_value(spec.setup!, 1));
  for (const key of ["nodes", "cpus", "gpus"] as const) if (given(key)) put(key, String(spec[key]));
  if (given("memory_bytes")) put("memory", yaml_bytes(spec.memory_bytes!));
  if (given("duration_s")) put("duration", `${spec.duration_s}s`);
  for (const key of ["max_restarts", "isolated"] as const) if (given(key)) put(key, String(spec[key]));
  if (spec.mounts?.length) lines.push("mounts:", ...spec.mounts.map((one) => "  - " + yaml_text(one)));
  const env = Object.entries(spec.env ?? {});
  if (env.length) lines.push("env:", ...env.map(([name, value]) => `  ${yaml_text(name)}: ${yaml_value(value, 2)}`));
  return lines.join("\n") + "\n";
}
