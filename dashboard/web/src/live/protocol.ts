// What the head sends and takes: the rows of its topics, and the messages of the live connection.

import type { Why } from "../i18n/reason";

export interface Row {
  id: string;
}

export type Resources = Record<string, number>;  // cpus and gpus in units, memory in bytes, others as their owner counts them.

export interface Cluster extends Row {
  name: string;
  version: string;
  address: string;
  started_ms: number;
  nodes_alive: number;
  total: Resources;
  used: Resources;
  actors_by_state: Record<string, number>;
  drivers: number;
}

export interface Gpu {
  index: number;
  model?: string;
  granted?: number;      // To actors, 0 to 1.
  utilization?: number;  // 0 to 1.
  memory_used?: number;
  memory_total?: number;
  temperature_celsius?: number;
  power_watts?: number;
  power_limit_watts?: number;
}

// That holds "/" or a folder of the node's worker.
export interface FileSystem {
  path: string;
  type: string;
  uses: string[];  // What the worker keeps there.
  total: number;
  free: number;
}

export interface Node extends Row {
  name: string;
  state: string;
  address: string;
  total: Resources;
  used: Resources;
  labels: Record<string, string>;
  actors: number;
  cpu_cores_used: number;
  memory_bytes_used: number;
  gpu_model: string;
  version: string;
  last_heard_ms: number;
  gpus?: Gpu[];
  // Absent: the machine does not tell it.
  file_systems?: FileSystem[];
  disk_read_bytes_per_s?: number;
  disk_write_bytes_per_s?: number;
  network_receive_bytes_per_s?: number;
  network_send_bytes_per_s?: number;
  cpu_temperature_celsius?: number;
  cpu_power_watts?: number;
}

// Of a node's worker, as the node measured it when it was asked.
export interface NodeProcess {
  pid: number;
  kind: string;  // "head", "worker", "program", "actors", "spare", "template".
  actors: string[];
  cpu_cores?: number;  // Absent: it was not measured before.
  memory_bytes: number;
  program?: string;
}

export interface Actor extends Row {
  class_name: string;
  name: string;
  display: string;
  state: string;
  node: string;
  pid: number;
  epoch: number | string;
  restarts: number;
  resources: Resources;
  gpus: number[];
  reason: string;
  why?: Why;  // `reason` as data; absent: the text is all there is.
  driver: string;      // Its program.
  driver_id?: string;
  owner?: string;      // Id of the token of that program; empty: not known.
  detached: boolean;
  group?: string;   // Id of its placement group; empty: none.
  bundle?: number;  // Of the group; -1: any, and it has not got one.
  started_ms?: number;
}

export interface Driver extends Row {
  pid: number;
  host?: string;
  program: string;
  state: string;
  owner?: string;  // Id of its token; empty: not known.
  connected_ms?: number;
}

// What keeps a request from starting, where that is one thing.
export interface Blocker {
  kind: string;
  id: string;
  name: string;
  display: string;
  class_name?: string;
  experiment?: string;
  trial?: string;
  why: string;  // "reserved": resources of `node` are kept for it; "ahead": the request before; "group": it waits for room in it.
  node?: string;
  resources?: Resources;
}

export interface Waiting extends Row {
  display: string;
  kind: string;  // "actor", "task", "trial", "group".
  name?: string;
  class_name?: string;
  experiment?: string;
  trial?: string;
  group?: string;
  driver?: string;
  priority?: number;
  position?: number;
  bundles?: number;
  reserved?: { node: string; resources: Resources }[];
  blocker?: Blocker | null;
  resources: Resources;
  reason: string;
  why?: Why;
  since_ms: number;
}

// Resources that are held together.
export interface Bundle {
  index: number;
  node: string;  // Empty: it has no place.
  total: Resources;
  used: Resources;
  gpus: number[];
  actors: number;
}

export interface Group extends Row {
  name: string;
  strategy: string;  // "pack", "spread", "strict_pack", "strict_spread".
  state: string;     // "pending", "ready", "rescheduling", "removed".
  reason: string;
  why?: Why;
  driver: string;
  owner?: string;    // Id of the token of that program; empty: not known.
  detached: boolean;
  priority: number;
  bundles_total: number;
  bundles_placed: number;
  actors: number;
  total: Resources;
  bundles: Bundle[];
}

// Of a node.
export interface ObjectStore extends Row {
  node: string;
  bytes: number;
  bytes_max: number;
  objects: number;
  spilled: number;      // Bytes on disk.
  spilled_max: number;  // 0: nothing is spilled.
  error: string;        // Why the node did not answer.
}

// What one process put at one place.
export interface ObjectGroup extends Row {
  node: string;
  place: string;
  type: string;
  put_by: string;
  objects: number;
  bytes: number;
  bytes_in_memory: number;
  bytes_spilled: number;
  references: number;
}

export interface StoredObject extends Row {
  object: string;
  node: string;
  bytes: number;
  type: string;
  place: string;
  put_by: string;
  held_by: string[];
  references: number;
  state: string;  // "memory", "spilled", "both", "freed".
  copy: boolean;
}

export type Value = string | number | boolean | null | Value[] | { [key: string]: Value };
export type Config = Record<string, Value>;

export interface Best {
  trial: string;
  name?: string;  // Of the trial, where its run names them.
  value: number;
  step: number;
  config: Config;
}

export interface Experiment extends Row {
  name: string;
  state: string;
  metric: string;
  mode: string;
  directory: string;
  trials_total: number;
  trials_by_status: Record<string, number>;
  trials_planned?: number;
  best?: Best | null;         // By its last value.
  best_so_far?: Best | null;  // By its best value at any step.
  left?: { seconds: number; low: number; high: number; at_ms: number } | null;
  metrics?: string[];  // Those that have curves.
  started_ms?: number;
  updated_ms?: number;
  scheduler?: { text: string; rungs?: SchedulerRung[] };
  tags?: string[];
  note?: string;
  archived?: boolean;
  driver_id?: string;  // Of the program that runs it, or ran it.
  files?: string;  // "here": on the head's machine; "elsewhere": on another, where somebody may read them; "none".
}

// In the directory of a run or a trial.
export interface RunFile {
  name: string;
  kind: string;  // "file", "checkpoint".
  bytes: number;
  modified_ms: number;
}

// A rung as the scheduler itself keeps it.
export interface SchedulerRung {
  bracket: number;
  step: number;
  trials: number;
  passed: number;
  cutoff: number | null;
  state: string;  // "open", "waiting", "decided".
  awaited: number;
  members: { trial: string; value: number | null; act: string }[];  // Best first; fewer than `trials` where there are very many.
}

export interface Trial extends Row {
  experiment: string;
  status: string;
  node: string;
  step: number;
  config: Config;
  config_text?: string;  // Where the configuration was too long for the head to keep whole.
  metrics: Record<string, number | null>;
  error: string;
  error_why?: Why;
  reason: string;
  why?: Why;
  started_ms?: number;  // As the head saw it.
  ended_ms?: number;
  actor?: string;       // Id of the one that runs it.
  name?: string;        // By its run's template; absent: its id.
  tags?: string[];      // That its program gave it.
  cloned_from?: string; // Id of the trial whose values a person had it begin with.
}

export interface Event extends Row {
  time_ms: number;
  level: string;
  text: string;
  fields?: Record<string, Value>;
  why?: Why;  // What `cause` or `why` of the fields says.
}

export interface LogLine extends Row {
  source: string;
  node: string;
  stderr: boolean;
  text: string;
  time_ms?: number;  // Absent: not known.
  level?: string;    // "error", "warn", "info", "debug"; absent: the line does not say.
}

export interface Points extends Row {
  x: number[];
  y: (number | null)[];
}

export interface Series extends Points {
  kind?: string;
  name?: string;
  metric?: string;
}

export interface Token extends Row {
  role: string;
  created_ms?: number;
  expires_ms?: number;
  state?: string;
  note?: string;
}

// A request to change the cluster. Not live: GET /api/v1/audit.
export interface AuditEntry {
  id: number;  // Its number; the newest has the highest.
  time_ms: number;
  by: string;      // Id of the token.
  action: string;  // "drain", "undrain", "kill", "stop", "pause", "resume", "add", "annotate", "create_token", "revoke_token".
  object: string;  // As it was requested: a node, an actor, an experiment, "experiment/trial", the id of a token, "id role" of a new one.
  outcome: string;  // "done", else the code of the error.
  message: string;  // Of the error.
}

export interface Topics {
  cluster: Cluster;
  nodes: Node;
  actors: Actor;
  drivers: Driver;
  queue: Waiting;
  groups: Group;
  object_stores: ObjectStore;
  object_groups: ObjectGroup;
  objects: StoredObject;
  experiments: Experiment;
  trials: Trial;
  events: Event;
  logs: LogLine;
  curves: Points;
  series: Series;
}
export type Topic = keyof Topics;
export type Filter = Record<string, string>;

export type ServerMessage =
  | { type: "hello"; proto: number; seq: number; server_time_ms: number; version: string; instance: string }
  | { type: "snap"; id: number; seq: number; rows: Row[]; more?: boolean }
  | { type: "delta"; id: number; seq: number; upserts?: Row[]; deletes?: string[] }
  | { type: "error"; id?: number; code: string; detail: string }
  | { type: "pong" }
  | { type: "current"; seq: number; server_time_ms: number }
  | { type: "bye"; reason: string };
