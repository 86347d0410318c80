// Models of the registry and their versions, as the API has them. Pure.
import type { Checkpoint } from "./configured";

export interface Model {
  id: number;
  name: string;
  description: string;
  notes: string;
  labels: string[];
  metadata: Record<string, unknown> | null;
  workspace: string;
  user: string;
  owner: string;
  archived: boolean;
  created_ms: number;
  changed_ms: number;
  versions: number;
  newest_version: number;
  aliases: Record<string, number>;
}

export interface ModelVersion {
  model: string;
  version: number;
  checkpoint: string;
  name: string;
  comment: string;
  notes: string;
  labels: string[];
  metadata: Record<string, unknown> | null;
  user: string;
  created_ms: number;
  changed_ms: number;
  checkpoint_info?: Checkpoint & { experiment: number; resources: Record<string, number>; metrics: Record<string, unknown> | null };
  aliases: string[];
}

export const path_of = (model: string, version?: number) => `/api/v1/models/${encodeURIComponent(model)}${version === undefined ? "" : `/versions/${version}`}`;

// "production → 2, staging → 3".
export const aliases_text = (aliases: Record<string, number>) => Object.entries(aliases ?? {}).sort(([a], [b]) => a.localeCompare(b)).map(([alias, version]) => `${alias} → ${version}`).join(", ");

export const labels_of = (text: string) => [...new Set(text.split(",").map((one) => one.trim()).filter(Boolean))];

// The members of an edit that changes labels from these to those.
export function label_changes(before: string[], after: string[]): { add_labels: string[]; remove_labels: string[] } {
  return { add_labels: after.filter((one) => !before.includes(one)), remove_labels: before.filter((one) => !after.includes(one)) };
}

// Metadata as a form has it, or null: it is no JSON object.
export function metadata_of(text: string): Record<string, unknown> | null {
  if (!text.trim()) return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

export const metadata_text = (metadata: Record<string, unknown> | null) => (metadata && Object.keys(metadata).length ? JSON.stringify(metadata, null, 2) : "");
