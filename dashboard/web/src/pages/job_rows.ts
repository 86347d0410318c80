// Jobs as the API lists them, and the texts that pages derive from them.
import { day_time } from "../format";
import { locale, reason_of, t, word } from "../i18n";
import type { Why } from "../i18n/reason";
import type { Resources } from "../live/protocol";
import { head_now } from "../live/use";

export interface JobSpec {
  name: string;
  command: string[];
  setup: string;
  env: Record<string, string>;
  nodes: number;
  cpus: number;
  gpus: number;
  memory_bytes: number;
  resources: Record<string, number>;
  mode: string;
  priority: string;
  duration_s: number;
  max_restarts: number;
  directory: string;
  files_sha256: string;
  node_names: string[];
  labels: Record<string, string>;
  project: string;
  note: string;
  isolated: boolean;
  mounts: string[];
  pool: string;
  stop_signal: string;
  access?: string;
  environment: string;
  one_of: string;
  batch: string;
  batch_index: number;
  batch_size: number;
  output: string;
  notify?: string[];
  min_nodes?: number;
  grow?: boolean;
  share_nodes?: boolean;
  parameter_servers?: number;
  shm_bytes?: number;
  graceful_s?: number;
  debug_s?: number;
  log_policies?: { pattern: string; action: string }[];
  max_resumes?: number;
  teardown?: string;
}

export interface JobRank {
  rank: number;
  node: string;
  actor: string;
  state: string;
  exit_code: number;
  reason: string;
  why?: Why;
  attempt: number;
}

export interface JobStart {
  now: boolean;
  never: boolean;
  likely_ms: number;
  latest_ms: number;
  ahead: number;
  reason: string;
  why?: Why;
}

export interface Job {
  id: string;
  spec: JobSpec;
  state: string;
  reason: string;
  why?: Why;
  submitted_ms: number;
  started_ms: number;
  ended_ms: number;
  exit_code: number;
  restarts: number;
  ranks: JobRank[];
  owner: string;
  user?: string;  // Empty: the token has no user.
  stopping: boolean;
  position: number;
  start?: JobStart;
  earlier: JobRank[];
  preemptions: number;
  resumes?: number;
  nodes?: number;  // Number of nodes of the newest attempt of an elastic job.
  avoids?: string[];
  labels?: string[];
}

export const kJobStates = ["queued", "running", "succeeded", "failed", "stopped", "expired"];
export const kPriorities = ["normal", "urgent", "very_urgent"];
export const kModes = ["single", "torch", "torchrun", "horovod", "mpi", "deepspeed", "tensorflow"];

// A stopped trial ended early; a stopped job has another word in Chinese.
export const state_of_job = (job: { state: string; stopping: boolean }): string => (job.stopping ? "stopping" : job.state === "stopped" ? "job_stopped" : job.state);
export const is_open = (job: Job): boolean => job.state === "queued" || job.state === "running";
export const job_name = (job: Job): string => job.spec.name || job.id;
// Resources of one node.
export const resources_of = (spec: JobSpec): Resources => ({ cpus: spec.cpus, gpus: spec.gpus, memory: spec.memory_bytes, ...spec.resources });
// Running time of the newest attempt in ms; null: it has not started.
export const time_run = (job: Job): number | null => (job.started_ms ? (job.ended_ms || head_now()) - job.started_ms : null);
export const nodes_of = (job: Job): string[] => [...new Set(job.ranks.map((rank) => rank.node).filter(Boolean))];

// Text such as "starts now", "about 14:20" or "never: …".
export function start_text(start: JobStart | undefined): string {
  if (!start) return "";
  if (start.now) return t("job.start.now");
  if (start.never) return t("job.start.never", { reason: reason_of(start) });
  const time = (ms: number) => day_time(ms, head_now(), locale());
  if (!start.likely_ms) return start.latest_ms ? t("job.start.latest", { time: time(start.latest_ms) }) : t("job.start.unknown");
  const apart = start.latest_ms - start.likely_ms > 60_000;
  return apart ? t("job.start.between", { likely: time(start.likely_ms), latest: time(start.latest_ms) }) : t("job.start.about", { time: time(start.likely_ms) });
}

// Why it waits and when it starts, or how it ended.
export function why_text(job: Job): string {
  const reason = reason_of(job);
  if (job.state !== "queued" || !job.start || job.start.never) return reason || (job.start ? start_text(job.start) : "");
  return [start_text(job.start), reason].filter(Boolean).join(" · ");
}

// A command line for people: arguments with other characters are quoted, as a shell needs it.
export const command_text = (command: string[]): string =>
  command.length === 3 && command[0] === "bash" && command[1] === "-c" ? command[2] : command.map((one) => (/^[\w@%+=:,./-]+$/.test(one) ? one : `'${one.replaceAll("'", "'\\''")}'`)).join(" ");

export const priority_word = (priority: string): string => word(priority || "normal");
