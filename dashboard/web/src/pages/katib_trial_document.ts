// The trial of a template: its kind, its replicas, and what they run. Pure.
import { ResourceText, type Path } from "./katib_document";

const kTemplate: Path = ["spec", "trialTemplate"];
const kTrial: Path = [...kTemplate, "trialSpec"];
const kTrainer: Path = [...kTrial, "spec", "trainer"];

interface Replicas { key: string; types: string[]; container: string }  // `container`: name of the one that trains, as the operator of the kind wants it.
const kReplicas: Record<string, Replicas> = {
  PyTorchJob: { key: "pytorchReplicaSpecs", types: ["Master", "Worker"], container: "pytorch" },
  TFJob: { key: "tfReplicaSpecs", types: ["Chief", "Master", "Worker", "PS"], container: "tensorflow" },
  MPIJob: { key: "mpiReplicaSpecs", types: ["Launcher", "Worker"], container: "mpi-launcher" },
};
export const kTrialKinds = ["Job", ...Object.keys(kReplicas), "TrainJob"];
const kWorkerContainer = "mpi-worker";
const kVersion: Record<string, string> = { Job: "batch/v1", TrainJob: "trainer.kubeflow.org/v1alpha1" };
const kVersionOfReplicas = "kubeflow.org/v1";

const kind_of = (text: ResourceText): string => text.shown([...kTrial, "kind"]);
const replica_of = (kind: string, type: string): Path => [...kTrial, "spec", kReplicas[kind].key, type];

// The pods of the trial, by type of replica; empty: the kind has none, or the form does not know it.
function pods_of(text: ResourceText): { type: string; template: Path }[] {
  const kind = kind_of(text);
  if (kind === "Job") return [{ type: "", template: [...kTrial, "spec", "template"] }];
  return (kReplicas[kind]?.types ?? []).filter((type) => text.value(replica_of(kind, type))).map((type) => ({ type, template: [...replica_of(kind, type), "template"] }));
}

const containers_at = (template: Path): Path => [...template, "spec", "containers"];

// The container of a pod that runs, as the head chooses it: the primary one, else the usual one of the kind, else the first. Null: the pod has none.
function container_of(text: ResourceText, template: Path): Path | null {
  const names = text.maps(containers_at(template)).map((one) => one.name);
  const usual = ["PyTorchJob", "TFJob"].includes(kind_of(text)) ? kReplicas[kind_of(text)].container : "";
  const index = [text.shown([...kTemplate, "primaryContainerName"]), usual].map((name) => names.indexOf(name)).find((one) => one >= 0) ?? 0;
  return names.length ? [...containers_at(template), index] : null;
}

// A part of the trial with a command of its own: `at` has command and args. `type`: of replica; empty: the trial has one part.
export interface TrialPart { type: string; at: Path; resources: Path }

// Empty: the form does not know this kind.
export function parts_of(text: ResourceText): TrialPart[] {
  if (kind_of(text) === "TrainJob") return [{ type: "", at: kTrainer, resources: [...kTrainer, "resourcesPerNode"] }];
  const parts = pods_of(text).flatMap(({ type, template }): TrialPart[] => {
    const at = container_of(text, template);
    return at ? [{ type, at, resources: [...at, "resources"] }] : [];
  });
  if (kind_of(text) !== "MPIJob") return parts;
  // The launcher's command runs on the workers.
  const launcher = parts.find((one) => one.type === "Launcher");
  const worker = parts.find((one) => one.type === "Worker");
  return launcher ? [{ type: "", at: launcher.at, resources: (worker ?? launcher).resources }] : [];
}

const what_runs = (text: ResourceText, { at, resources }: TrialPart): unknown[] => [text.value([...at, "command"]), text.value([...at, "args"]), text.value(resources)];

// Whether the parts run different commands or need different amounts.
export const differ = (text: ResourceText, parts: TrialPart[]): boolean => new Set(parts.map((one) => JSON.stringify(what_runs(text, one)))).size > 1;

// All parts with the command and the amounts of the first.
export function with_equal_parts(text: ResourceText, [first, ...others]: TrialPart[]): string | null {
  return text.with(...others.flatMap(({ at, resources }): [Path, unknown][] => [
    ...["command", "args"].map((key): [Path, unknown] => [[...at, key], text.copy([...first.at, key])]), [resources, text.copy(first.resources)]]));
}

// Where the amount stands that counts: CPUs of requests come before those of limits, memory of limits before that of requests.
export function amount_path(text: ResourceText, resources: Path, name: string): Path {
  const [first, second] = name === "cpu" ? ["requests", "limits"] : ["limits", "requests"];
  const has = (key: string) => text.value([...resources, key, name]) !== undefined;
  return [...resources, has(first) ? first : has(second) ? second : "limits", name];
}

// Names from which the primary container is chosen.
export function container_names(text: ResourceText): string[] {
  if (kind_of(text) === "TrainJob") return ["node", "trainer"];
  return [...new Set(pods_of(text).filter(({ type }) => kind_of(text) !== "MPIJob" || type === "Launcher").flatMap(({ template }) => text.maps(containers_at(template)).map((one) => String(one.name ?? ""))))].filter(Boolean);
}

// A number of replicas or processes. `with`: a place that always has the same number; `type`: of replica. `is_text`: its operator wants it in quotes.
export interface Count { label: "pods" | "workers" | "servers" | "slots" | "nodes" | "processes"; path: Path; usual: string; with?: Path; type?: string; is_text?: boolean }

export function counts_of(text: ResourceText): Count[] {
  const kind = kind_of(text);
  const spec: Path = [...kTrial, "spec"];
  const replicas = (label: Count["label"], type: string): Count => ({ label, type, path: [...replica_of(kind, type), "replicas"], usual: text.value(replica_of(kind, type)) ? "1" : "0" });
  switch (kind) {
    case "Job": return [{ label: "pods", path: [...spec, "parallelism"], usual: "1", with: [...spec, "completions"] }];
    case "PyTorchJob": return [replicas("workers", "Worker"), { label: "slots", path: [...spec, "nprocPerNode"], usual: "", is_text: true }];
    case "TFJob": return [replicas("workers", "Worker"), replicas("servers", "PS")];
    case "MPIJob": return [replicas("workers", "Worker"), { label: "slots", path: [...spec, "slotsPerWorker"], usual: "1" }];
    case "TrainJob": return [{ label: "nodes", path: [...kTrainer, "numNodes"], usual: "1" }, { label: "processes", path: [...kTrainer, "numProcPerNode"], usual: "" }];
    default: return [];
  }
}

// Replicas of a type that the text lacks get the pod of another type.
export function with_count(text: ResourceText, count: Count, value: unknown): string | null {
  const replica = count.path.slice(0, -1);
  const from = pods_of(text)[0];
  if (!count.type || text.value(replica) !== undefined || !from) {
    return text.with([count.path, value], ...(count.with && text.value(count.with) !== undefined ? [[count.with, value] as [Path, unknown]] : []));
  }
  if (value === undefined) return text.text;
  const container = container_of(text, from.template);
  const is_mpi = kind_of(text) === "MPIJob";
  const template = is_mpi ? { spec: { containers: [container ? text.copy(container) : {}] } } : text.copy(from.template);
  const next = text.with([replica, { replicas: value, restartPolicy: text.copy([...from.template.slice(0, -1), "restartPolicy"]), template }]);
  return next !== null && is_mpi ? new ResourceText(next).with(...waiting([...containers_at([...replica, "template"]), 0])) : next;
}

// Makes the container of a launcher that of a worker, which waits for it.
const waiting = (container: Path): [Path, unknown][] => [[[...container, "name"], kWorkerContainer], [[...container, "command"], undefined], [[...container, "args"], undefined]];

// Conditions of a trial's end that are those of its kind.
const condition = (type: string) => `status.conditions.#(type=="${type}")#|#(status=="True")#`;
const conditions_of = (kind: string): Record<string, string> => ({ successCondition: condition(kReplicas[kind] ? "Succeeded" : "Complete"), failureCondition: condition("Failed") });

// ---- A trial of another kind ----

// Where the pod of a part is; null: a TrainJob has none.
const template_of = (part: TrialPart | undefined): Path | null => (part && part.at !== kTrainer ? part.at.slice(0, -3) : null);

// What a container and a trainer both have. `resources`: the key of the amounts.
function trainer_of(text: ResourceText, part: TrialPart | undefined, resources: string): Record<string, unknown> {
  const keys = ["image", "command", "args", "env"].map((key): [string, unknown] => [key, part && text.copy([...part.at, key])]);
  return Object.fromEntries([...keys, [resources, part && text.copy(part.resources)]]);
}

// A copy of the pod of a part.
function pod_of(text: ResourceText, part: TrialPart | undefined): unknown {
  const template = template_of(part);
  return template ? text.copy(template) : { spec: { containers: [{ name: "", ...trainer_of(text, part, "resources") }] } };
}

function restart_policy(text: ResourceText, template: Path | null): string {
  const of_replica = template && text.shown([...template.slice(0, -1), "restartPolicy"]);
  return (of_replica || (template && text.shown([...template, "spec", "restartPolicy"]))) === "OnFailure" ? "OnFailure" : "Never";
}

// The spec of a trial of this kind; names and amounts of its containers still have to be set.
function spec_of(text: ResourceText, kind: string, part: TrialPart | undefined): unknown {
  if (kind === "Job") return { template: pod_of(text, part) };
  if (kind === "TrainJob") return { runtimeRef: { name: "torch-distributed" }, trainer: { numNodes: 1, ...trainer_of(text, part, "resourcesPerNode") } };
  const old = kind_of(text);
  const [first, second] = kFirstReplicas[kind];
  const workers = kReplicas[old] && text.value([...replica_of(old, second), "replicas"]);
  const replicas = (count: unknown, template: unknown) => ({ replicas: count, restartPolicy: restart_policy(text, template_of(part)), template });
  const is_mpi = kind === "MPIJob";
  const worker = is_mpi && part && template_of(part) ? { spec: { containers: [text.copy(part.at)] } } : pod_of(text, part);
  return {
    ...(is_mpi ? { slotsPerWorker: 1 } : {}),
    runPolicy: text.copy([...kTrial, "spec", "runPolicy"]),
    [kReplicas[kind].key]: { [first]: replicas(1, pod_of(text, part)), [second]: replicas(workers || 1, worker) },
  };
}

const kFirstReplicas: Record<string, [first: string, second: string]> = { PyTorchJob: ["Master", "Worker"], TFJob: ["Chief", "Worker"], MPIJob: ["Launcher", "Worker"] };

// Names, amounts and restart policies of the pods as this kind has them. `index`: of the container that runs.
function fitted(text: ResourceText, kind: string, part: TrialPart | undefined, index: number, name: string): [Path, unknown][] {
  const policy = kind === "Job" ? restart_policy(text, template_of(part)) : undefined;
  const amounts = () => part && text.copy(part.resources);
  const templates: Path[] = kind === "Job" ? [[...kTrial, "spec", "template"]] : (kFirstReplicas[kind] ?? []).map((type) => [...replica_of(kind, type), "template"]);
  return templates.flatMap((template, i): [Path, unknown][] => {
    const is_waiting = kind === "MPIJob" && i > 0;
    const container: Path = [...containers_at(template), is_waiting ? 0 : index];
    return [
      [[...template, "spec", "restartPolicy"], policy],
      [[...container, "resources"], kind === "MPIJob" && !is_waiting ? undefined : amounts()],
      ...(is_waiting ? waiting(container) : [[[...container, "name"], name] as [Path, unknown]]),
    ];
  });
}

// A trial of another kind, with the pod, the metadata and the number of workers of this one.
export function with_kind(text: ResourceText, kind: string): string | null {
  const part: TrialPart | undefined = parts_of(text)[0];
  const has_pod = template_of(part) !== null;
  const name = kReplicas[kind]?.container ?? (kind === "TrainJob" ? "node" : (has_pod && text.shown([...part.at, "name"])) || "training");
  const moved = text.with([kTrial, { apiVersion: kVersion[kind] ?? kVersionOfReplicas, kind, metadata: text.copy([...kTrial, "metadata"]), spec: spec_of(text, kind, part) }]);
  if (moved === null) return null;
  const conditions = Object.entries(conditions_of(kind_of(text))).filter(([key, usual]) => text.shown([...kTemplate, key]) === usual).map(([key]): [Path, unknown] => [[...kTemplate, key], undefined]);
  const index = has_pod ? Number(part.at.at(-1)) : 0;
  return new ResourceText(moved).with([[...kTemplate, "primaryContainerName"], name], ...conditions, ...fitted(text, kind, part, index, name));
}
