// Entries of the audit log: kinds of outcomes, and the pages of the objects that entries name. Pure.
import type { Actor, AuditEntry } from "../live/protocol";
import { actor_name } from "../ui/names";

export const kEntriesMax = 10_000;  // Same limit as the head's.

// Returns a state of ui/states.ts. "refused": the request is invalid or not allowed; "failed": the head could not carry it out; "unknown_outcome": the change may have been made.
export function outcome_of({ outcome }: AuditEntry): string {
  if (outcome === "done") return "done";
  if (["kUnavailable", "kInternal", "kCancelled", "kStoreFull"].includes(outcome)) return "failed";
  return ["kUnknownOutcome", "kTimeout"].includes(outcome) ? "unknown_outcome" : "refused";
}

// Adds the entries of `fresh` that are newer than those of `known`; newest first, at most kEntriesMax.
export function joined(known: AuditEntry[], fresh: AuditEntry[]): AuditEntry[] {
  const last = known[0]?.id ?? -1;
  const added = fresh.filter((one) => one.id > last).sort((a, b) => b.id - a.id);
  return added.length ? [...added, ...known].slice(0, kEntriesMax) : known;
}

export interface AuditObject {
  text: string;
  role?: string;   // Role of a new token.
  path?: string[]; // Absent: no page.
  query?: Record<string, string>;
}

// Returns the trial of "experiment/trial"; empty: the entry is about the whole experiment. Names of experiments contain no slash.
export const trial_of = ({ object }: AuditEntry): string => (object.includes("/") ? object.slice(object.indexOf("/") + 1) : "");

const kActsOnJobs = ["stop_job", "kill_job", "delete_job", "set_job_priority", "extend_job", "start_command", "forward_port"];
const kActsOnExperiments = ["stop", "pause", "resume", "add", "annotate"];

// Returns a function that finds the object of an entry. Actors are found by id, name or a unique prefix of an id, experiments by name or a unique name without its date.
export function finder(nodes: { name: string }[], actors: Actor[], experiments: { name: string }[]): (entry: AuditEntry) => AuditObject {
  const node_names = new Set(nodes.map((one) => one.name));
  const experiment_names = experiments.map((one) => one.name);
  const actors_by_name = new Map<string, Actor>();
  for (const one of actors) for (const name of [one.id, one.name]) if (name && (one.state !== "dead" || !actors_by_name.has(name))) actors_by_name.set(name, one);
  const only = <T>(found: T[]): T | undefined => (found.length === 1 ? found[0] : undefined);
  const actor_of = (name: string) => actors_by_name.get(name) ?? (name.length >= 4 ? only(actors.filter((one) => one.id.startsWith(name))) : undefined);
  const experiment_of = (name: string) => (experiment_names.includes(name) ? name : only(experiment_names.filter((one) => one.startsWith(name + "_"))));

  const find = (entry: AuditEntry): AuditObject => {
    const { action, object } = entry;
    if (!object) return { text: "" };
    if (action === "drain" || action === "undrain") return node_names.has(object) ? { text: object, path: ["nodes", object] } : { text: object };
    if (action === "kill") {
      const actor = actor_of(object);
      return actor ? { text: actor_name(actor), path: ["actors", actor.id] } : { text: object };
    }
    if (action === "create_token" || action === "revoke_token") {
      const [id, role] = object.split(" ");
      const exists = action === "create_token" ? role !== undefined : entry.outcome === "done";
      return exists ? { text: id.slice(0, 12), role, path: ["tokens"], query: { q: id } } : { text: object };
    }
    if (kActsOnJobs.includes(action)) return /^job-\d+$/.test(object) && action !== "delete_job" ? { text: object, path: ["jobs", object] } : { text: object };
    if (kActsOnExperiments.includes(action)) {
      const trial = trial_of(entry);
      const experiment = experiment_of(trial ? object.slice(0, object.indexOf("/")) : object);
      return experiment ? { text: object, path: trial ? ["experiments", experiment, "trials", trial] : ["experiments", experiment] } : { text: object };
    }
    return { text: object };
  };
  const found = new Map<string, AuditObject>();
  return (entry) => {
    const key = [entry.action, entry.outcome === "done", entry.object].join("\n");
    const known = found.get(key) ?? find(entry);
    found.set(key, known);
    return known;
  };
}
