// Experiments of a configuration (Determined's kind): their own row, beside the rows of the head's list. Pure types.
import type { Row } from "../live/protocol";

export interface Configured {
  id: number;
  name: string;
  description: string;
  labels: string[];
  state: string;
  phase: string;  // While ACTIVE: QUEUED, STARTING, RUNNING.
  archived: boolean;
  progress: number;
  created_ms: number;
  ended_ms: number;
  user: string;
  owner: string;
  workspace: string;
  project: string;
  searcher: string;
  metric: string;
  smaller_is_better: boolean;
  trials: number;
  best_trial: number;
  best_metric?: number | null;
  parent: number;
  files_sha256: string;
  notes: string;
  reason: string;
  checkpoints: number;
  checkpoint_bytes: number;
  run: string;
  config?: Record<string, unknown>;
  original_config: string;
  katib: string;  // "<namespace>/<name>" of the resource of kind Experiment that it runs; empty: none.
  storage: string;
}

export interface Checkpoint extends Row {
  trial: number;
  batches: number;
  created_ms: number;
  state: string;
  bytes: number;
  metric?: number | null;
  storage: string;
  run: number;
}

// The id at the end of the name of its rows: "mnist-12"; null: the rows are those of a program, whose results have a directory.
export const configured_id = (name: string, directory: string | undefined): string | null => (directory ? null : /-(\d+)$/.exec(name)?.[1] ?? null);

// The trial of a row: "trial-17".
export const trial_row = (trial: number) => `trial-${trial}`;
// The number of a trial, from the id of its row; null: it is none of an experiment of a configuration.
export const configured_trial = (row: string): string | null => /^trial-(\d+)$/.exec(row)?.[1] ?? null;

export type Act = "activate" | "pause" | "cancel" | "kill" | "archive" | "unarchive" | "delete";

const kEnded = ["COMPLETED", "CANCELED", "ERROR"];
export const has_ended = (state: string) => kEnded.includes(state);

// What its state and archive flag allow, the most usual first.
export function acts_of({ state, archived }: { state: string; archived: boolean }): Act[] {
  if (state === "ACTIVE") return ["pause", "cancel", "kill"];
  if (state === "PAUSED") return ["activate", "cancel", "kill"];
  if (state === "STOPPING_CANCELED") return ["kill"];
  if (has_ended(state)) return [archived ? "unarchive" : "archive", "delete"];
  return state === "DELETE_FAILED" ? ["delete"] : [];
}

// A project in its workspace; both empty: none, which Determined calls uncategorized.
export interface Place { workspace: string; project: string }
export const is_in = (row: Place, place: Place) => row.workspace === place.workspace && row.project === place.project;
export const project_path = ({ workspace, project }: Place) => (project ? ["projects", workspace, project] : ["uncategorized"]);

// The head refuses edits while it deletes an experiment.
export const is_movable = ({ state }: { state: string }) => !state.startsWith("DELET");
