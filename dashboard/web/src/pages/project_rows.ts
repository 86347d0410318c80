// Projects and workspaces of experiments, which exist as far as experiments are in them. Pure.
import type { Configured, Place } from "./configured";
import { base_state } from "./experiment_rows";
import { in_shell } from "../ui/names";

export type Counted = Pick<Configured, "id" | "state" | "archived" | "created_ms" | "ended_ms" | "user" | "workspace" | "project">;
export const kCounted = "id,state,archived,created_ms,ended_ms,user,workspace,project";

export interface Sum {
  experiments: number;
  states: [string, number][];  // In the order of kStates.
  activity_ms: number;         // When the newest experiment was created, or the last one ended.
  users: string[];             // By name.
}
export interface ProjectRow extends Place, Sum {}
export interface WorkspaceRow extends Sum { workspace: string; projects: number }

const kStates = ["ACTIVE", "PAUSED", "STOPPING", "COMPLETED", "CANCELED", "ERROR", "DELETING", "DELETE_FAILED"];
const place_of = (state: string) => (kStates.includes(state) ? kStates.indexOf(state) : kStates.length);

function sum_of(rows: Counted[]): Sum {
  const states = new Map<string, number>();
  for (const row of rows) states.set(base_state(row.state), (states.get(base_state(row.state)) ?? 0) + 1);
  return {
    experiments: rows.length,
    states: [...states].sort(([a], [b]) => place_of(a) - place_of(b)),
    activity_ms: rows.reduce((last, row) => Math.max(last, row.created_ms, row.ended_ms), 0),
    users: [...new Set(rows.map((row) => row.user).filter(Boolean))].sort((a, b) => a.localeCompare(b)),
  };
}

function grouped(rows: Counted[], key: (row: Counted) => string): Counted[][] {
  const out = new Map<string, Counted[]>();
  for (const row of rows) {
    const group = out.get(key(row));
    if (group) group.push(row);
    else out.set(key(row), [row]);
  }
  return [...out.values()];
}

// `archived`: whether archived experiments count; without them, a project that has no others is not listed.
export const counted = <T extends Counted>(rows: T[], archived: boolean): T[] => (archived ? rows : rows.filter((row) => !row.archived));

export const projects_of = (rows: Counted[]): ProjectRow[] =>
  grouped(rows, (row) => JSON.stringify([row.workspace, row.project])).map((group) => ({ workspace: group[0].workspace, project: group[0].project, ...sum_of(group) }));

export const workspaces_of = (rows: Counted[]): WorkspaceRow[] =>
  grouped(rows, (row) => row.workspace).map((group) => ({ workspace: group[0].workspace, projects: new Set(group.map((row) => row.project)).size, ...sum_of(group) }));

// The names that exist, for a form: workspaces, and projects of a workspace or, while it has none, of all.
export function known_names(rows: Place[], workspace: string): { workspaces: string[]; projects: string[] } {
  const names = (all: string[]) => [...new Set(all.filter(Boolean))].sort((a, b) => a.localeCompare(b));
  const own = rows.filter((row) => row.workspace === workspace);
  return { workspaces: names(rows.map((row) => row.workspace)), projects: names((own.length ? own : rows).map((row) => row.project)) };
}

// The field of a form that an error of the head is about: "workspace: expected …"; of an error about both, the empty one.
export function field_of(message: string, { workspace }: Place): "workspace" | "project" | null {
  if (/\bworkspace and project\b/.test(message)) return workspace.trim() ? "project" : "workspace";
  const named = /(?:^|[\s:])(workspace|project):/.exec(message)?.[1];
  return named === "workspace" || named === "project" ? named : null;
}

const kShown = 20;  // Most experiments in a command.

// The same in a terminal.
export function move_command(ids: number[], { workspace, project }: Place): string {
  const move = (id: string) => `volador experiment move ${id} --workspace=${in_shell(workspace || "WORKSPACE")} --project=${in_shell(project || "PROJECT")}`;
  if (ids.length === 1) return move(String(ids[0]));
  return `for id in ${ids.slice(0, kShown).join(" ")}${ids.length > kShown ? " …" : ""}; do ${move('"$id"')}; done`;
}
