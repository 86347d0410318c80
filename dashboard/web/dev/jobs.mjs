// Jobs of the simulated cluster: one of each state, and requests that change them.
import { reasoned } from "./reasons.mjs";

const kSpec = { name: "", command: [], setup: "", env: {}, nodes: 1, cpus: 1, gpus: 0, memory_bytes: 0, resources: {}, mode: "single", parameter_servers: 0, priority: "normal", duration_s: 0, max_restarts: 0, graceful_s: 30, directory: "", files_sha256: "", node_names: [], labels: {}, project: "default", note: "", isolated: false, mounts: [], shm_bytes: 0 };

const rank_of = (rank, node, actor, state, more = {}) => ({ rank, node, actor, state, exit_code: 0, reason: "", attempt: 1, ...more });

export function jobs_of(world) {
  const [first, second] = [...world.tables.actors.values()].filter((one) => one.state === "alive").map((one) => one.id);
  const failed = reasoned(["job.rank_on_node", 1, "osprey", ["job.exit_code", 1]]);
  const job = (number, state, spec, more = {}) => ({
    id: `job-${number}`, spec: { ...kSpec, name: `job-${number}`, ...spec }, state, reason: "", submitted_ms: world.now - 9e5 + number * 6e4, started_ms: 0, ended_ms: 0, exit_code: 0, restarts: 0, ranks: [], owner: "t-7f21c0", stopping: false, position: 0, earlier: [], ...more,
  });
  const ran = (from, to) => ({ started_ms: world.now - from, ended_ms: world.now - to });
  return [
    job(1, "succeeded", { name: "prepare", command: ["python3", "prepare.py", "--shards", "16"] }, { ...ran(8e5, 7.6e5), ranks: [rank_of(0, "heron", first, "ended")] }),
    job(2, "failed", { name: "imagenet", command: ["python3", "train.py"], nodes: 2, gpus: 4, cpus: 8, mode: "torchrun", max_restarts: 1, duration_s: 7200, env: { NCCL_DEBUG: "WARN" } }, { ...ran(7e5, 3.2e5), ...failed, exit_code: 1, restarts: 1,
      ranks: [rank_of(0, "heron", first, "ended", { ...reasoned(["job.ended_with_it"]), exit_code: 143, attempt: 2 }), rank_of(1, "osprey", second, "ended", { ...reasoned(["job.exit_code", 1]), exit_code: 1, attempt: 2 })],
      earlier: [rank_of(0, "heron", first, "ended", { exit_code: 143 }), rank_of(1, "osprey", second, "ended", { ...reasoned(["job.exit_code", 1]), exit_code: 1 })] }),
    job(3, "stopped", { name: "sweep", command: ["bash", "-c", "for i in 1 2 3; do ./run.sh $i; done"] }, { ...ran(6e5, 5e5), ...reasoned(["job.stopped_by", "t-7f21c0"]), exit_code: 143, ranks: [rank_of(0, "heron", first, "ended", { exit_code: 143 })] }),
    job(4, "expired", { name: "profile", command: ["./profile"], duration_s: 60, isolated: true, mounts: ["/data:/data:ro"] }, { ...ran(5e5, 4.4e5), ...reasoned(["job.expired", "1 min"]), ranks: [rank_of(0, "heron", first, "ended", { exit_code: 143 })] }),
    job(7, "running", { name: "finetune", command: ["bash", "-c", "python3 finetune.py --epochs 3"], nodes: 2, gpus: 1, cpus: 4, memory_bytes: 2 ** 34, mode: "torchrun", priority: "urgent", duration_s: 14_400, note: "with the new tokenizer" }, { ...ran(4e5, world.now), ranks: [rank_of(0, "heron", first, "running"), rank_of(1, "osprey", second, "running")] }),
    job(8, "queued", { name: "evaluate", command: ["python3", "evaluate.py"], gpus: 2 }, { position: 1, ...reasoned(["job.wait_largest", { amounts: { gpus: 2 } }, { amounts: { gpus: 1 } }]),
      start: { now: false, never: false, likely_ms: world.now + 2.4e6, latest_ms: world.now + 1.4e7, ahead: 0, reason: "" } }),
  ];
}

// Answers a request about jobs: {status, value} or {status, error, code}; null: another route.
export async function answer_job(world, state, role, request, url, body_of) {
  const found = /^\/api\/v1\/jobs(?:\/([^/:]+)(?::(stop|priority|extend))?)?$/.exec(url.pathname);
  if (!found) return null;
  state.jobs ??= world.tables.nodes.size ? jobs_of(world) : [];
  const [, id, act] = found;
  const newest_first = () => [...state.jobs].reverse();
  if (request.method !== "GET" && role === "viewer") return { status: 403, code: "kPermissionDenied", error: "this is for role operator; you have role viewer" };
  if (!id && request.method === "GET") {
    const wanted = /state=(\w+)/.exec(url.searchParams.get("filter") ?? "")?.[1];
    const rows = newest_first().filter((one) => !wanted || one.state === wanted);
    return { status: 200, value: { rows, total: rows.length, next_page_token: "" } };
  }
  if (!id) {
    const { spec, dry_run } = await body_of(request);
    if (spec.cpus > 64) return { status: 409, code: "kInfeasible", error: `the job can never start: it needs ${spec.cpus} CPUs on a node, and the largest node has 64 CPUs; ask for less, or add nodes first` };
    const number = Math.max(0, ...state.jobs.map((one) => Number(one.id.slice(4)))) + 1;
    const start = { now: spec.gpus === 0, never: false, likely_ms: spec.gpus ? world.now + 3.6e6 : 0, latest_ms: 0, ahead: spec.gpus ? 1 : 0, reason: "" };
    const job = { ...jobs_of(world)[5], id: dry_run ? "" : `job-${number}`, spec: { ...kSpec, ...spec, name: spec.name || `job-${number}` }, submitted_ms: world.now, start };
    if (!dry_run) state.jobs.push(job);
    return { status: 200, value: { job } };
  }
  const job = state.jobs.find((one) => one.id === id || one.spec.name === decodeURIComponent(id));
  if (!job) return { status: 404, code: "kNotFound", error: `there is no job "${id}"` };
  if (request.method === "GET") return { status: 200, value: job };
  const body = await body_of(request);
  if (act === "stop") Object.assign(job, { state: "stopped", start: undefined, position: 0, ended_ms: world.now, ...reasoned(["job.stopped_by", "t-7f21c0"]) });
  if (act === "priority") job.spec = { ...job.spec, priority: body.priority };
  if (act === "extend") job.spec = { ...job.spec, duration_s: body.duration_s };
  if (request.method === "DELETE") state.jobs = state.jobs.filter((one) => one !== job);
  return { status: 200, value: request.method === "DELETE" ? {} : { job } };
}
