// Types of the head's topics and of the messages of the live connection.

import type { Why } from "../i18n/reason";

export interface Row {
  id: string;
}

export type Resources = Record<string, number>;  // cpus and gpus in units, memory in bytes, custom resources in units of the user's choice.

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
  granted?: number;      // Share granted to actors, 0 to 1.
  utilization?: number;  // 0 to 1.
  memory_used?: number;
  memory_total?: number;
  temperature_celsius?: number;
  power_watts?: number;
  power_limit_watts?: number;
}

// A file system that holds "/" or a folder of the node's worker.
export interface FileSystem {
  path: string;
  type: string;
  uses: string[];  // Data that the worker stores there.
  total: number;
  free: number;
}

// A problem that the inspection of a node found.
export interface HealthProblem {
  code: string;
  gpu?: number;  // Absent: the whole node has it.
  subject: string;
  detail: string;
  since_ms: number;
  reason: string;
  why?: Why;
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
  // Each measure is absent if the machine does not report it.
  file_systems?: FileSystem[];
  problems?: HealthProblem[];  // Absent: none.
  disk_read_bytes_per_s?: number;
  disk_write_bytes_per_s?: number;
  network_receive_bytes_per_s?: number;
  network_send_bytes_per_s?: number;
  cpu_temperature_celsius?: number;
  cpu_power_watts?: number;
}

// A process of a node, as measured when the node was asked.
export interface NodeProcess {
  pid: number;
  kind: string;  // "head", "worker", "program", "actors", "spare", "template".
  actors: string[];
  cpu_cores?: number;  // Absent at the first measurement.
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
  why?: Why;  // Data of `reason`; absent: only the text exists.
  driver: string;      // Program of the driver.
  driver_id?: string;
  owner?: string;      // Id of the driver's token; empty: unknown.
  detached: boolean;
  group?: string;   // Id of the placement group; empty: none.
  bundle?: number;  // Index in the group; -1: any bundle, not yet assigned.
  started_ms?: number;
}

export interface Driver extends Row {
  pid: number;
  host?: string;
  program: string;
  state: string;
  owner?: string;  // Id of the driver's token; empty: unknown.
  connected_ms?: number;
}

// The single object that keeps a request from starting.
export interface Blocker {
  kind: string;
  id: string;
  name: string;
  display: string;
  class_name?: string;
  experiment?: string;
  trial?: string;
  why: string;  // "reserved": it reserves resources of `node`; "ahead": it is the previous request; "group": it is a group that has no free room.
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

// A bundle of a placement group: resources reserved together on one node.
export interface Bundle {
  index: number;
  node: string;  // Empty: not placed.
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
  owner?: string;    // Id of the driver's token; empty: unknown.
  detached: boolean;
  priority: number;
  bundles_total: number;
  bundles_placed: number;
  actors: number;
  total: Resources;
  bundles: Bundle[];
}

// The object store of a node.
export interface ObjectStore extends Row {
  node: string;
  bytes: number;
  bytes_max: number;
  objects: number;
  spilled: number;      // Bytes on disk.
  spilled_max: number;  // 0: spilling is off.
  error: string;        // Reason why the node did not answer; else empty.
}

// Objects that one process put at one program line.
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
  name?: string;  // Name of the trial, if its run names trials.
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
  best?: Best | null;         // Best trial by its last value.
  best_so_far?: Best | null;  // Best trial by its best value at any step.
  left?: { seconds: number; low: number; high: number; at_ms: number } | null;
  metrics?: string[];  // Metrics that have curves.
  started_ms?: number;
  updated_ms?: number;
  scheduler?: { text: string; rungs?: SchedulerRung[] };
  tags?: string[];
  note?: string;
  archived?: boolean;
  driver_id?: string;  // Id of the driver that runs or ran it.
  files?: string;  // "here": on the head's machine; "elsewhere": on another machine, read through a node or the program; "none".
}

// A file in the directory of a run or trial.
export interface RunFile {
  name: string;
  kind: string;  // "file", "checkpoint".
  bytes: number;
  modified_ms: number;
}

// A rung in the scheduler's own state.
export interface SchedulerRung {
  bracket: number;
  step: number;
  trials: number;
  passed: number;
  cutoff: number | null;
  state: string;  // "open", "waiting", "decided".
  awaited: number;
  members: { trial: string; value: number | null; act: string }[];  // Best first; truncated for large rungs, so there may be fewer than `trials`.
}

export interface Trial extends Row {
  experiment: string;
  status: string;
  node: string;
  step: number;
  config: Config;
  config_text?: string;  // Set instead of `config` if the configuration is too long for the head to keep whole.
  metrics: Record<string, number | null>;
  error: string;
  error_why?: Why;
  reason: string;
  why?: Why;
  started_ms?: number;  // Time at which the head saw the trial start.
  ended_ms?: number;
  actor?: string;       // Id of the actor that runs it.
  name?: string;        // Name from its run's template; absent: use the id.
  tags?: string[];      // Set by its program.
  cloned_from?: string; // Id of the trial from which a user cloned it.
}

export interface Event extends Row {
  time_ms: number;
  level: string;
  text: string;
  fields?: Record<string, Value>;
  why?: Why;  // Data of the field `cause` or `why`.
}

export interface LogLine extends Row {
  source: string;
  node: string;
  stderr: boolean;
  text: string;
  time_ms?: number;  // Absent: unknown.
  level?: string;    // "error", "warn", "info", "debug"; absent: the line has no level.
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

// A request to change the cluster, from GET /api/v1/audit; not a topic.
export interface AuditEntry {
  id: number;  // Increases with each entry.
  time_ms: number;
  by: string;      // Id of the token.
  action: string;  // "drain", "undrain", "kill", "stop", "pause", "resume", "add", "annotate", "create_token", "revoke_token"; also changes of users and jobs: kActsOnJobs, "set_queue", "put_user", "delete_user", "change_password", "create_group", "change_group", "delete_group", "sign_in", "sign_out".
  object: string;  // As in the request: a node, an actor, an experiment, "experiment/trial", the id of a token, "id role" of a new one.
  outcome: string;  // "done", or an error code.
  message: string;  // Message of the error; else empty.
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
