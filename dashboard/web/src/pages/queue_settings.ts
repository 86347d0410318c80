// Settings of the job queue: pools, projects, environments, preemption and reports. Pure.
import type { Resources } from "../live/protocol";
import { yaml_bytes, yaml_list, yaml_text, yaml_value } from "./yaml_text";

export interface Pool { name: string; projects: string[]; note: string }
export interface Project { name: string; weight: number; limits: Resources; urgent_jobs: number; note: string; members?: string[] }
export interface Environment { name: string; source: string; note: string }
// Secrets are "***".
export interface Notification { name: string; kind: string; url: string; secret: string; addresses: string[]; events: string[]; projects: string[] }
export interface MailServer { host: string; port: number; security: string; user: string; password: string; from: string }
export interface QueueSettings { pools: Pool[]; projects: Project[]; environments: Environment[]; preemption: string; version: number; notifications?: Notification[]; mail?: MailServer | null; maxima?: Record<string, number> | null; private_jobs?: boolean }
export interface PoolState { pool: Pool; nodes: string[]; total: Resources; free: Resources; running: number; queued: number }
export interface ProjectState { project: Project; used: Resources; running: number; queued: number; urgent: number }
export interface QueueReply { settings: QueueSettings; pools: PoolState[]; projects: ProjectState[] }

export const kPreemptions = ["never", "very_urgent", "urgent"];
export type List = "pools" | "projects" | "environments";

// The settings with an entry in place of the one named `before`, whose members that the form does not have are kept; "": a further
// one. `entry` null: without it.
export function with_entry<L extends List>(settings: QueueSettings, list: L, before: string, entry: QueueSettings[L][number] | null): QueueSettings {
  const all = settings[list] as { name: string }[];
  const at = all.findIndex((one) => one.name === before);
  const rest = at < 0 ? [...all, ...(entry ? [entry] : [])] : [...all.slice(0, at), ...(entry ? [{ ...all[at], ...entry }] : []), ...all.slice(at + 1)];
  return { ...settings, [list]: rest };
}

// Field of a form that a message of the head is about: "projects: vision: weight: expected …" is about weight. "": none.
export function field_of_setting(message: string): string {
  const limit = /^projects: .*?: limits: .*got ([^\s:]+): /.exec(message)?.[1];
  if (limit) return ["cpus", "gpus", "memory"].includes(limit) ? limit : "others";
  const member = /^settings\.[a-z]+(?:\[\d+\])?\.([a-z_]+)/.exec(message)?.[1];
  if (member) return member;
  const found = /^(?:pools|projects|environments): (?:.*?: )?(weight|urgent_jobs|note|source): /.exec(message);
  if (found) return found[1];
  if (message.startsWith("preemption: ")) return "preemption";
  return /^(?:pools|projects|environments): /.test(message) ? "name" : "";
}
export const is_conflict = (message: string): boolean => message.startsWith("version: ");

// Limits as a form has them: memory in GiB, custom resources as "licence=2, disk=10". Empty: no limit.
export interface LimitTexts { cpus: string; gpus: string; memory: string; others: string }
export function texts_of_limits(limits: Resources): LimitTexts {
  const text = (name: string, unit = 1) => (name in limits ? String(limits[name] / unit) : "");
  const others = Object.entries(limits).filter(([name]) => !["cpus", "gpus", "memory"].includes(name)).sort(([a], [b]) => (a < b ? -1 : 1));
  return { cpus: text("cpus"), gpus: text("gpus"), memory: text("memory", 2 ** 30), others: others.map(([name, amount]) => `${name}=${amount}`).join(", ") };
}
// Null: `others` is not of the form NAME=NUMBER, ….
export function limits_of_texts({ cpus, gpus, memory, others }: LimitTexts): Resources | null {
  const limits: Resources = {};
  if (cpus.trim()) limits.cpus = Number(cpus);
  if (gpus.trim()) limits.gpus = Number(gpus);
  if (memory.trim()) limits.memory = Math.round(Number(memory) * 2 ** 30);
  for (const part of others.split(",").map((one) => one.trim()).filter(Boolean)) {
    const found = /^([^=\s]+)\s*=\s*(-?[\d.]+)$/.exec(part);
    if (!found) return null;
    limits[found[1]] = Number(found[2]);
  }
  return Object.values(limits).every(Number.isFinite) ? limits : null;
}

export const names_of = (text: string): string[] => [...new Set(text.split(/[,，]/).map((one) => one.trim()).filter(Boolean))];

// The settings as `volador job queue --apply` takes them.
export function settings_yaml(settings: QueueSettings): string {
  const lines = [`preemption: ${settings.preemption || "never"}`];
  const list = <T extends { name: string; note: string }>(key: List, entries: T[], fields: (entry: T) => string[]) => {
    if (!entries.length) return;
    lines.push(`${key}:`);
    for (const entry of entries) {
      const all = [...fields(entry), ...(entry.note ? [`note: ${yaml_value(entry.note, 3)}`] : [])];
      lines.push(`  ${yaml_text(entry.name)}:${all.length ? "" : " {}"}`, ...all.map((one) => "    " + one));
    }
  };
  list("pools", settings.pools, (pool) => (pool.projects.length ? [`projects: ${yaml_list(pool.projects)}`] : []));
  list("projects", settings.projects, (project) => {
    const limits = Object.entries(project.limits).sort(([a], [b]) => (a < b ? -1 : 1));
    return [
      `weight: ${project.weight || 1}`,
      ...(limits.length ? ["limits:", ...limits.map(([name, amount]) => `  ${yaml_text(name)}: ${name === "memory" ? yaml_bytes(amount) : amount}`)] : []),
      ...(project.urgent_jobs > 0 ? [`urgent_jobs: ${project.urgent_jobs}`] : []),
      ...(project.members?.length ? [`members: ${yaml_list(project.members)}`] : []),
    ];
  });
  list("environments", settings.environments, (environment) => [`source: ${yaml_text(environment.source)}`]);
  const put = (indent: string, fields: Record<string, string | string[]>) => {
    for (const [key, value] of Object.entries(fields)) if (value.length) lines.push(`${indent}${key}: ${Array.isArray(value) ? yaml_list(value) : yaml_text(value)}`);
  };
  if (settings.notifications?.length) lines.push("notifications:");
  for (const { name, kind, url, secret, addresses, events, projects } of settings.notifications ?? []) {
    lines.push(`  ${yaml_text(name)}:`);
    put("    ", { kind, url, secret, addresses, events, projects });
  }
  if (settings.mail?.host) {
    const { host, port, security, user, password, from } = settings.mail;
    lines.push("mail:");
    put("  ", { host });
    if (port) lines.push(`  port: ${port}`);
    put("  ", { security, user, password, from });
  }
  const maxima = Object.entries(settings.maxima ?? {}).filter(([, most]) => most > 0);
  if (maxima.length) lines.push("maxima:", ...maxima.map(([field, most]) => `  ${field}: ${most}`));
  if (settings.private_jobs) lines.push("private_jobs: true");
  lines.push(`version: ${settings.version}`);
  return lines.join("\n") + "\n";
}

// An entry of a list as its form has it: texts by field.
export type Texts = Record<string, string>;
export function texts_of(list: List, entry: Partial<Pool & Project & Environment> | undefined, name: string): Texts {
  const both = { name: entry?.name ?? name, note: entry?.note ?? "" };
  if (list === "pools") return { ...both, projects: (entry?.projects ?? []).join(", ") };
  if (list === "environments") return { ...both, source: entry?.source ?? "" };
  return { ...both, weight: String(entry?.weight ?? 1), urgent_jobs: String(entry?.urgent_jobs ?? 0), ...texts_of_limits(entry?.limits ?? {}) };
}
// Null: the custom resources of a project cannot be read.
export function entry_of(list: List, texts: Texts): Pool | Project | Environment | null {
  const both = { name: texts.name.trim(), note: texts.note.trim() };
  if (list === "pools") return { ...both, projects: names_of(texts.projects) };
  if (list === "environments") return { ...both, source: texts.source.trim() };
  const limits = limits_of_texts(texts as unknown as LimitTexts);
  return limits && { ...both, weight: Number(texts.weight), urgent_jobs: Number(texts.urgent_jobs), limits };
}
