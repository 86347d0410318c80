// Exports of selected trials: CSV for spreadsheets, JSON for scripts. Pure.
import type { Trial } from "../live/protocol";
import { flat } from "./trials";

const cell = (value: unknown): string => {
  const text = value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
};

// Returns one row per trial, with the columns of the head's own table of trials.
export function csv_of(trials: Trial[]): string {
  const params = [...new Set(trials.flatMap((one) => Object.keys(flat(one))))].sort();
  const names = [...new Set(trials.flatMap((one) => Object.keys(one.metrics ?? {})))].sort();
  const heads = ["trial", "name", "status", "node", "step", ...params.map((name) => "config." + name), ...names.map((name) => "metrics." + name), "tags", "reason", "error"];
  const row = (one: Trial) => [one.id, one.name ?? one.id, one.status, one.node, one.step, ...params.map((name) => flat(one)[name]), ...names.map((name) => one.metrics?.[name]), (one.tags ?? []).join(" "), one.reason, one.error];
  return [heads, ...trials.map(row)].map((cells) => cells.map(cell).join(",") + "\n").join("");
}

// Returns a list of trials, each with its whole configuration and its last metrics.
export function json_of(trials: Trial[]): string {
  const out = trials.map((one) => ({
    trial: one.id, ...(one.name ? { name: one.name } : {}), status: one.status, step: one.step, node: one.node,
    config: one.config_text ?? one.config, metrics: one.metrics ?? {}, ...(one.tags?.length ? { tags: one.tags } : {}), ...(one.error ? { error: one.error } : {}),
  }));
  return JSON.stringify(out, null, 2) + "\n";
}
