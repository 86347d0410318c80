// Jobs of the simulated cluster: one of each state, its queue, and requests that change them.
import { reasoned } from "./reasons.mjs";

const kSpec = { name: "", command: [], setup: "", env: {}, nodes: 1, cpus: 1, gpus: 0, memory_bytes: 0, resources: {}, mode: "single", parameter_servers: 0, priority: "normal", duration_s: 0, max_restarts: 0, graceful_s: 30, directory: "", files_sha256: "", node_names: [], labels: {}, project: "default", note: "", isolated: false, mounts: [], shm_bytes: 0, pool: "default", stop_signal: "TERM", environment: "", one_of: "", batch: "", batch_index: 0, batch_size: 0, output: "" };

const rank_of = (rank, node, actor, state, more = {}) => ({ rank, node, actor, state, exit_code: 0, reason: "", attempt: 1, ...more });

export function jobs_of(world) {
  const alive = [...world.tables.actors.values()].filter((one) => one.state === "alive");
  const [first, second] = [alive[0], alive.find((one, at) => at > 0 && one.gpus.length) ?? alive[1]].map((one) => one?.id);
  const failed = reasoned(["job.rank_on_node", 1, "osprey", ["job.exit_code", 1]]);
  const job = (number, state, spec, more = {}) => ({
    id: `job-${number}`, spec: { ...kSpec, name: `job-${number}`, ...spec }, state, reason: "", submitted_ms: world.now - 9e5 + number * 6e4, started_ms: 0, ended_ms: 0, exit_code: 0, restarts: 0, ranks: [], owner: "t-7f21c0", stopping: false, position: 0, earlier: [], preemptions: 0, ...more,
  });
  const ran = (from, to) => ({ started_ms: world.now - from, ended_ms: world.now - to });
  return [
    job(1, "succeeded", { name: "prepare", command: ["python3", "prepare.py", "--shards", "16"] }, { ...ran(8e5, 7.6e5), ranks: [rank_of(0, "heron", first, "ended")] }),
    job(2, "failed", { name: "imagenet", command: ["python3", "train.py"], nodes: 2, gpus: 4, cpus: 8, mode: "torchrun", max_restarts: 1, duration_s: 7200, env: { NCCL_DEBUG: "WARN" } }, { ...ran(7e5, 3.2e5), ...failed, exit_code: 1, restarts: 1,
      ranks: [rank_of(0, "heron", first, "ended", { ...reasoned(["job.ended_with_it"]), exit_code: 143, attempt: 2 }), rank_of(1, "osprey", second, "ended", { ...reasoned(["job.exit_code", 1]), exit_code: 1, attempt: 2 })],
      earlier: [rank_of(0, "heron", first, "ended", { exit_code: 143 }), rank_of(1, "osprey", second, "ended", { ...reasoned(["job.exit_code", 1]), exit_code: 1 })] }),
    job(3, "stopped", { name: "sweep", command: ["bash", "-c", "for i in 1 2 3; do ./run.sh $i; done"] }, { ...ran(6e5, 5e5), ...reasoned(["job.stopped_by", "t-7f21c0"]), exit_code: 143, ranks: [rank_of(0, "heron", first, "ended", { exit_code: 143 })] }),
    job(4, "expired", { name: "profile", command: ["./profile"], duration_s: 60, isolated: true, mounts: ["/data:/data:ro"] }, { ...ran(5e5, 4.4e5), ...reasoned(["job.expired", "1 min"]), ranks: [rank_of(0, "heron", first, "ended", { exit_code: 143 })] }),
    job(7, "running", { name: "finetune", command: ["bash", "-c", "python3 finetune.py --epochs 3"], nodes: 2, gpus: 1, cpus: 4, memory_bytes: 2 ** 34, mode: "torchrun", priority: "urgent", duration_s: 14_400, note: "with the new tokenizer", project: "language", pool: "a100", environment: "cuda12", stop_signal: "USR1", output: "/data/finetune", one_of: "finetune" }, { preemptions: 2, ...ran(4e5, world.now), ranks: [rank_of(0, "heron", first, "running"), rank_of(1, "osprey", second, "running")] }),
    job(8, "queued", { name: "evaluate", command: ["python3", "evaluate.py"], gpus: 2 }, { position: 1, ...reasoned(["job.wait_largest", { amounts: { gpus: 2 } }, { amounts: { gpus: 1 } }]),
      start: { now: false, never: false, likely_ms: world.now + 2.4e6, latest_ms: world.now + 1.4e7, ahead: 0, reason: "" } }),
  ];
}

function queue_of(world, state) {
  state.queue ??= !world.tables.nodes.size ? { pools: [], projects: [], environments: [], preemption: "never", version: 0 } : {
    pools: [{ name: "a100", projects: ["language", "vision"], note: "reserved until May" }],
    projects: [{ name: "language", weight: 2, limits: { gpus: 4, memory: 2 ** 37 }, urgent_jobs: 2, note: "" }, { name: "vision", weight: 1, limits: { cpus: 32 }, urgent_jobs: 0, note: "" }],
    environments: [{ name: "cuda12", source: "/opt/conda/envs/cuda12", note: "" }], preemption: "never", version: 3,
    notifications: [{ name: "ops-feishu", kind: "feishu", url: "https://open.feishu.cn/***", secret: "***", addresses: [], events: [], projects: ["vision"] }], mail: { host: "smtp.example.org", port: 587, security: "starttls", user: "volador", password: "***", from: "volador@example.org" },
  };
  const settings = state.queue;
  const nodes = [...world.tables.nodes.values()].filter((one) => one.state === "alive");
  const open = state.jobs.filter((one) => one.state === "queued" || one.state === "running");
  const sum = (rows) => { const out = {}; for (const row of rows) for (const [name, value] of Object.entries(row ?? {})) out[name] = (out[name] ?? 0) + value; return out; };
  const counts = (of) => ({ running: of.filter((one) => one.state === "running").length, queued: of.filter((one) => one.state === "queued").length });
  const names = (key, listed) => [...new Set(["default", ...listed.map((one) => one.name), ...open.map((one) => one.spec[key])])].sort();
  const held = (job) => (job.state === "running" ? { cpus: job.spec.cpus * job.spec.nodes, gpus: job.spec.gpus * job.spec.nodes, memory: job.spec.memory_bytes * job.spec.nodes } : {});
  return {
    settings,
    pools: names("pool", settings.pools).map((name) => {
      const own = nodes.filter((one, at) => (name === "a100" ? at === 1 : name === "default" && at !== 1));
      const total = sum(own.map((one) => one.total)), used = sum(own.map((one) => one.used));
      return { pool: settings.pools.find((one) => one.name === name) ?? { name, projects: [], note: "" }, nodes: own.map((one) => one.name), total, free: Object.fromEntries(Object.entries(total).map(([key, value]) => [key, Math.max(0, value - (used[key] ?? 0))])), ...counts(open.filter((one) => one.spec.pool === name)) };
    }),
    projects: names("project", settings.projects).map((name) => {
      const own = open.filter((one) => one.spec.project === name);
      return { project: settings.projects.find((one) => one.name === name) ?? { name, weight: 1, limits: {}, urgent_jobs: 0, note: "" }, used: Object.fromEntries(Object.entries(sum(own.map(held))).filter(([, value]) => value > 0)), ...counts(own), urgent: own.filter((one) => one.spec.priority !== "normal").length };
    }),
  };
}

// Forty days of two projects, of which one has two owners, and idle hours.
function usage_of(world) {
  const rows = [];
  for (let back = 39; back >= 0; --back) {
    const day = new Date(world.now - back * 864e5).toISOString().slice(0, 10);
    const row = (project, owner, gpus) => rows.push({ day, project, owner, cpu_hours: gpus * 8, gpu_hours: gpus, memory_gib_hours: gpus * 32, attempts: project ? 2 : 0 });
    row("", "", 40 + (back % 5));
    row("language", "t-7f21c0", 24 + (back % 7) * 4);
    if (back % 3) row("vision", "t-7f21c0", 12);
    if (back % 4 === 0) row("vision", "t-9a0e11", 6);
  }
  return rows.reverse();
}

// Answers a request about the queue in the words of the head.
async function answer_queue(world, state, role, request, body_of) {
  state.jobs ??= world.tables.nodes.size ? jobs_of(world) : [];
  const reply = queue_of(world, state);
  if (request.method === "GET") return { status: 200, value: reply };
  if (role === "viewer") return { status: 403, code: "kPermissionDenied", error: "this is for role operator; you have role viewer" };
  const refuse = (error) => ({ status: 400, code: "kInvalidArgument", error });
  const { settings } = await body_of(request);
  for (const project of settings.projects) {
    if (!(project.weight > 0)) return refuse(`projects: ${project.name}: weight: expected above 0 to 1000000, got ${project.weight}`);
    for (const [name, amount] of Object.entries(project.limits)) if (!(amount >= 0)) return refuse(`projects: ${project.name}: limits: expected the name of a resource and an amount of 0 or more, got ${name}: ${amount}`);
  }
  for (const one of settings.environments) if (!/\//.test(one.source)) return refuse(`environments: ${one.name}: source: expected host, a path or an image such as /opt/conda/envs/cuda12, got "${one.source}"`);
  const { version } = reply.settings;
  if (settings.version !== version) return refuse(`version: the settings are at version ${version}, these were made from version ${settings.version}; get the present ones with \`volador job queue --yaml\`, and change those`);
  state.queue = { ...settings, version: version + 1 };
  return { status: 200, value: { settings: state.queue } };
}

// Answers a request about jobs: {status, value} or {status, error, code}; null: another route.
export async function answer_job(world, state, role, request, url, body_of) {
  if (url.pathname === "/api/v1/job_usage") return { status: 200, value: { rows: world.tables.nodes.size ? usage_of(world) : [], total: 0 } };
  if (url.pathname === "/api/v1/job_queue") return answer_queue(world, state, role, request, body_of);
  const found = /^\/api\/v1\/jobs(?:\/([^/:]+)(?::(stop|priority|extend))?)?$/.exec(url.pathname);
  if (!found) return null;
  state.jobs ??= world.tables.nodes.size ? jobs_of(world) : [];
  const [, id, act] = found;
  const newest_first = () => [...state.jobs].reverse();
  if (request.method !== "GET" && role === "viewer") return { status: 403, code: "kPermissionDenied", error: "this is for role operator; you have role viewer" };
  if (!id && request.method === "GET") {
    const terms = (url.searchParams.get("filter") ?? "").split(" ").filter(Boolean).map((one) => one.split("="));
    const rows = newest_first().filter((one) => terms.every(([path, value]) => String(path.split(".").reduce((at, key) => at[key], one)) === value));
    if (url.searchParams.get("order") === "position") rows.sort((a, b) => a.position - b.position);
    return { status: 200, value: { rows, total: rows.length, next_page_token: "" } };
  }
  if (!id) {
    const { spec, dry_run } = await body_of(request);
    if (spec.cpus > 64) return { status: 409, code: "kInfeasible", error: `the job can never start: it needs ${spec.cpus} CPUs on a node, and the largest node has 64 CPUs; ask for less, or add nodes first` };
    const { pools, settings } = queue_of(world, state);
    if (spec.pool && !pools.some((one) => one.pool.name === spec.pool)) return { status: 404, code: "kNotFound", error: `pool: there is no pool "${spec.pool}"; the pools are ${pools.map((one) => one.pool.name).join(", ")}` };
    if (/^[\w-]+$/.test(spec.environment ?? "") && spec.environment !== "host" && !settings.environments.some((one) => one.name === spec.environment)) return { status: 404, code: "kNotFound", error: `environment: there is no environment "${spec.environment}"; the names are host, ${settings.environments.map((one) => one.name).join(", ")}, and a file of the code folder or a path is allowed too` };
    for (const mount of spec.mounts ?? []) if (!mount.startsWith("/")) return { status: 400, code: "kInvalidArgument", error: `mount "${mount}": the source must be an absolute path of the host, got "${mount.split(":")[0]}"` };
    if ((spec.min_nodes ?? 0) > spec.nodes) return { status: 400, code: "kInvalidArgument", error: `min_nodes: expected 1 to the job's nodes (${spec.nodes}), got ${spec.min_nodes}; an elastic job has both, as in nodes: 2-4` };
    const number = Math.max(0, ...state.jobs.map((one) => Number(one.id.slice(4)))) + 1;
    const start = { now: spec.gpus === 0, never: false, likely_ms: spec.gpus ? world.now + 3.6e6 : 0, latest_ms: 0, ahead: spec.gpus ? 1 : 0, reason: "" };
    const job = { ...jobs_of(world)[5], id: dry_run ? "" : `job-${number}`, spec: { ...kSpec, ...spec, name: spec.name || `job-${number}` }, submitted_ms: world.now, start, position: dry_run ? 0 : Math.max(0, ...state.jobs.map((one) => one.position)) + 1 };
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
