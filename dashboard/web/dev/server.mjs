// A small server that implements the head's API over a simulated cluster, for development and tests of the page. It is not shipped.
//   node dev/server.mjs [--port=8642] [--trials=240] [--still]       sign in with the token "vt1.dev"
import { explained, reasoned } from "./reasons.mjs";
import { answer_lines } from "./logs.mjs";
import { answer_job } from "./jobs.mjs";
import { answer_run } from "./runs.mjs";
import { audit_of, listed } from "./audit.mjs";
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { WebSocketServer } from "ws";
import { World } from "./world.mjs";

const kDist = new URL("../dist/", import.meta.url);
const kTypes = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };
export const kPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const kRoles = { "vt1.dev": "operator", "vt1.operator": "operator", "vt1.viewer": "viewer" };

export async function start({ port = 0, trials = 240, still = false, seed = 7, every = 200, empty = false, view = "", heartbeat = 2000 } = {}) {
  const world = new World({ trials, seed });
  if (empty) { for (const table of Object.values(world.tables)) if (table !== world.tables.cluster) table.clear(); world.series.clear(); world.trainings = []; world.logs = []; world.refresh_cluster(); }
  const state = { view, instance: "i1", seq: 0, sockets: new Set(), asked: [], silent: false, away: false, audit: empty ? [] : audit_of(world), tokens: [{ id: "t-7f21c0", role: "operator", created_ms: world.now - 3e6, expires_ms: world.now + 8e7, state: "active", note: "" }, { id: "t-1a0b9c", role: "viewer", created_ms: world.now - 9e7, expires_ms: world.now - 1e6, state: "expired", note: "notebook" }] };
  const server = createServer((request, response) => void answer(world, state, request, response));
  const live = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, socket, head) => {
    if (state.away || !role_of(request)) return socket.destroy();
    live.handleUpgrade(request, socket, head, (one) => serve(world, state, one));
  });
  const timer = still ? null : setInterval(() => world.tick(every), every);
  const flush = setInterval(() => { for (const one of state.sockets) one.flush(); }, 20);
  const beat = setInterval(() => { for (const one of state.sockets) if (!state.silent) one.beat(); }, heartbeat);
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  const drop = () => { for (const one of state.sockets) one.socket.terminate(); };
  return {
    world,
    url: `http://127.0.0.1:${server.address().port}`,
    drop,
    audit: state.audit,  // Newest first.
    asked: state.asked,  // Messages that pages sent over their live connections, without pings.
    // Stops the heartbeats, as an overloaded head or a slow link does.
    set_silent(on) { state.silent = on; },
    // Simulates a head that goes away and comes back as a new instance.
    away() { state.away = true; drop(); },
    back() { state.away = false; state.instance = "i" + Math.random(); },
    close: () => new Promise((done) => { clearInterval(timer); clearInterval(flush); clearInterval(beat); drop(); server.closeAllConnections?.(); server.close(done); }),
  };
}

const role_of = (request) => {
  const token = /volador_session=([^;]+)/.exec(request.headers.cookie ?? "")?.[1] ?? /^Bearer (.+)/.exec(request.headers.authorization ?? "")?.[1];
  return kRoles[token];
};

const kFullest = ["place.fullest", [], []];
const history = (node) => {
  const on = (state, epoch) => ["explain.on", state, node, epoch];
  return [
    [2, ["explain.history"]],
    [10, ["explain.made", ["joined.because", ["explain.state", { word: "pending" }], ["waits.in_use_one", { amounts: { gpus: 1 } }, "4", "4", "osprey"]]]],
    [6, ["explain.later", "+12.40 s", ["joined.because", on({ word: "starting" }, 1), kFullest]]],
    [6, ["explain.later", "+12.61 s", on(["state.alive"], 1)]],
    [5, ["explain.later", "+254.90 s", ["joined.because", ["explain.state", { word: "restarting" }], kDeath(node)]]],
    [5, ["explain.later", "+256.93 s", ["joined.because", on({ word: "starting" }, 2), kFullest]]],
    [5, ["explain.later", "+257.11 s", on(["state.alive"], 2)]],
  ];
};
const kDeath = (node) => ["ended.on", ["ended.exited", 3], node];

async function body_of(request) {
  let text = "";
  for await (const part of request) text += part;
  return text ? JSON.parse(text) : {};
}

async function answer(world, state, request, response) {
  const url = new URL(request.url, "http://x");
  response.setHeader("Content-Security-Policy", kPolicy);
  response.setHeader("X-Content-Type-Options", "nosniff");
  if (state.away) return request.socket.destroy();
  const json = (status, value, headers = {}) => response.writeHead(status, { "Content-Type": status < 400 ? "application/json" : "application/problem+json", ...headers }).end(JSON.stringify(value));
  const refuse = (status, code, detail, next = "") => json(status, { type: "about:blank", title: detail, status, code, detail, next });
  if (url.pathname === "/healthz") return json(200, { status: "ok" });
  if (url.pathname === "/login") return response.writeHead(303, url.searchParams.get("key") === "once" ? { "Set-Cookie": "volador_session=vt1.dev; HttpOnly; SameSite=Strict; Path=/", Location: "/" } : { Location: "/?login=expired" }).end();
  if (!url.pathname.startsWith("/api/")) return file(url.pathname, response);
  const session = (role) => ({ role, cluster: "heron", version: "0.1.0", expires_ms: Date.now() + 8.64e7, ...(state.view ? { view: state.view } : {}) });
  if (url.pathname === "/api/v1/session") {
    if (request.method === "POST") {
      const { token, user, password } = await body_of(request);
      if (user) {
        if (user !== "mei" || password !== "correct horse") return refuse(401, "kUnauthenticated", "the user or the password is wrong, or the user is disabled");
        return json(200, { ...session("operator"), user }, { "Set-Cookie": "volador_session=vt1.operator; HttpOnly; SameSite=Strict; Path=/" });
      }
      if (!kRoles[token]) return refuse(401, "kUnauthenticated", "the token is unknown, expired or revoked", "volador token create --role=viewer makes a new one");
      return json(200, session(kRoles[token]), { "Set-Cookie": `volador_session=${token}; HttpOnly; SameSite=Strict; Path=/` });
    }
    if (request.method === "DELETE") return json(200, {}, { "Set-Cookie": "volador_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0" });
    return role_of(request) ? json(200, session(role_of(request))) : refuse(401, "kUnauthenticated", "not signed in");
  }
  const role = role_of(request);
  if (!role) return refuse(401, "kUnauthenticated", "not signed in");
  if (request.method !== "GET" && request.headers["x-volador-request"] !== "1") return refuse(403, "kPermissionDenied", "the header X-Volador-Request is missing");
  const record = (action, object, outcome = "done", message = "") => state.audit.unshift({ id: (state.audit[0]?.id ?? 0) + 1, time_ms: Date.now(), by: "t-7f21c0", action, object, outcome, message });
  const drain = /^\/api\/v1\/nodes\/([^/:]+):drain$/.exec(url.pathname);
  if (drain && request.method === "POST") {
    if (role === "viewer") return refuse(403, "kPermissionDenied", "a viewer may not drain nodes");
    const node = world.tables.nodes.get("n-" + decodeURIComponent(drain[1]));
    if (!node) return refuse(404, "kNotFound", `no node ${drain[1]}`);
    const undo = Boolean((await body_of(request)).undo);
    world.put("nodes", { ...node, state: undo ? "alive" : "draining" });
    record(undo ? "undrain" : "drain", node.name);
    return json(200, {});
  }
  const kill = /^\/api\/v1\/actors\/([^/:]+):kill$/.exec(url.pathname);
  if (kill && request.method === "POST") {
    if (role === "viewer") return refuse(403, "kPermissionDenied", "a viewer may not kill actors");
    const actor = world.tables.actors.get(decodeURIComponent(kill[1]));
    if (!actor || actor.state === "dead") {
      record("kill", kill[1], "kNotFound", `actor ${kill[1]} has ended`);
      return refuse(404, "kNotFound", `actor ${kill[1]} has ended`);
    }
    record("kill", actor.id);
    const restarts = Boolean((await body_of(request)).restart) && actor.restarts > 0;
    world.put("actors", { ...actor, state: restarts ? "restarting" : "dead", ...reasoned(["joined.because", ["ended.killed"], ["cause.by", "t-7f21c0"]]) });
    return json(200, { actor: actor.id, display: actor.display, restarts });
  }
  if (url.pathname === "/api/v1/timeline") {
    const runner = [...world.tables.actors.values()].find((one) => one.class_name === "volador::TaskRunner")?.id;
    const of = (name, n, dur, more = {}) => Array.from({ length: n }, (_, i) => ({ name, cat: "call", ph: "X", pid: 1, tid: 1, ts: i * dur, dur, args: { actor: runner, ...more } }));
    const own = [{ name: "embed", cat: "call", ph: "X", ts: 1, dur: 900, pid: 1, tid: 1, args: { actor: url.searchParams.get("id") ?? "" } }];
    return json(200, { displayTimeUnit: "ms", traceEvents: url.searchParams.has("id") || !runner ? own : [...own, ...of("digits::load_shard", 41, 182_000), ...of("digits::load_shard", 2, 40_000, { failed: true }), ...of("digits::load_shard", 3, 9_000, { running: true }), ...of("integrate", 12, 350, { calls: 100 })] });
  }
  const processes = /^\/api\/v1\/nodes\/([^/]+)\/processes$/.exec(url.pathname);
  if (processes) {
    const node = decodeURIComponent(processes[1]);
    if (!world.tables.nodes.has("n-" + node)) return refuse(404, "kNotFound", `no node ${node}`);
    return json(200, { processes: world.processes(node) });
  }
  if (url.pathname === "/api/v1/logs/lines") {
    const part = answer_lines(world, url);
    return part.error ? refuse(404, "kNotFound", part.error) : json(200, part.value);
  }
  if (/^\/api\/v1\/actors\/[^/]+\/metrics$/.test(url.pathname)) {
    const served = Math.round(Date.now() / 100) % 1_000_000;
    const alive = world.tables.actors.get(url.pathname.split("/")[4])?.name === "embedder";
    return json(200, { left_out: 0, series: !alive ? [] : [
      { name: "requests_total", kind: "counter", help: "Requests that were answered", labels: { route: "embed" }, value: served },
      { name: "queue_length", kind: "gauge", help: "", labels: {}, value: served % 17 },
      { name: "batch_seconds", kind: "histogram", help: "Time of a batch", labels: {}, value: served * 0.02, bounds: [0.01, 0.1], counts: [served >> 1, served >> 2, 3] },
    ] });
  }
  if (url.pathname === "/api/v1/explain") {
    const id = url.searchParams.get("id");
    const group = world.tables.groups.get(id);
    const why_of = (row) => (row.reason ? [[2, row.why ?? row.reason]] : []);
    const amounts = (all) => ({ amounts: Object.fromEntries(Object.entries(all).filter(([key]) => key !== "memory")) });
    if (group) {
      const place = (one) => (one.node ? ["explain.bundle_on", one.node, [], [], []] : ["explain.bundle_unplaced"]);
      return json(200, explained([[0, ["explain.group", ["name.group", group.name || id.slice(0, 8)], { word: group.state }, { word: group.strategy }]], ...why_of(group),
        ...group.bundles.map((one) => [2, ["explain.bundle", one.index, amounts(one.total), [], place(one)]])]));
    }
    for (const [name, rows] of world.trials) {
      const trial = rows.get(id);
      const node = trial?.node || "heron";
      if (trial) return json(200, explained([[0, ["explain.trial", id.slice(0, 8), "", name, { word: trial.status }, trial.step]], ...why_of(trial),
        [0, ["explain.actor", "5f1c77aa", "TrainDigits", ["explain.on", ["state.alive"], node, 2]]], [2, ["explain.restarts", 1, 3, kDeath(node)]], [2, ["explain.asks", { amounts: { cpus: 1 } }]], ...history(node)]));
    }
    const row = world.tables.queue.get(id) ?? world.tables.actors.get(id);
    if (!row) return refuse(404, "kNotFound", `nothing has the id ${id}`);
    const state = row.since_ms ? { word: "pending" } : row.state === "alive" ? ["state.alive"] : { word: row.state };
    return json(200, explained([[0, ["explain.actor", row.id.slice(0, 8), row.display, row.node ? ["explain.on", state, row.node, row.epoch] : ["explain.state", state]]], ...why_of(row),
      [2, ["explain.asks", { amounts: row.resources }]], ...(row.since_ms ? [] : history(row.node || "heron"))]));
  }
  if (url.pathname.startsWith("/api/v1/tokens")) {
    if (role === "viewer") return refuse(403, "kPermissionDenied", "this is for role operator; you have role viewer");
    if (request.method === "GET") return json(200, { rows: state.tokens, total: state.tokens.length, next_page_token: "" });
    const revoke = /tokens\/([^:]+):revoke/.exec(url.pathname);
    if (revoke) { state.tokens.find((one) => one.id === revoke[1]).state = "revoked"; record("revoke_token", revoke[1]); return json(200, {}); }
    const asked = await body_of(request);
    const id = "t-" + Math.random().toString(16).slice(2, 8);
    state.tokens.push({ id, role: asked.role, created_ms: Date.now(), expires_ms: Date.now() + asked.valid_for_s * 1000, state: "active", note: "" });
    record("create_token", `${id} ${asked.role}`);
    return json(201, { id, token: "vt1." + id });
  }
  if (url.pathname === "/api/v1/audit") {
    if (role === "viewer") return refuse(403, "kPermissionDenied", "this is for role operator; you have role viewer");
    return json(200, listed(state.audit, url.searchParams));
  }
  const job = await answer_job(world, state, role, request, url, body_of);
  if (job) return job.error ? refuse(job.status, job.code, job.error) : json(job.status, job.value);
  const study = studies_of(world).find((one) => one.name === decodeURIComponent(url.pathname.split("/")[4] ?? ""));
  if (url.pathname === "/api/v1/studies") { const rows = world.tables.nodes.size ? studies_of(world) : []; return json(200, { rows, total: rows.length, next_page_token: "" }); }
  if (study && url.pathname.endsWith("/trials")) return json(200, { rows: study.all, total: study.all.length, next_page_token: "" });
  if (study && url.pathname.startsWith("/api/v1/studies/")) return json(200, { ...study, all: undefined });
  const run = await answer_run(world, role, request, url, body_of);
  if (run?.bytes) return response.writeHead(200, { "Content-Type": "application/octet-stream" }).end(run.bytes);
  if (run) return run.error ? refuse(run.status, "kNotFound", run.error) : json(run.status, run.value);
  return refuse(404, "kNotFound", `no route ${url.pathname}`);
}

// Returns a study of 24 trials; the same at each call.
function studies_of(world) {
  const all = Array.from({ length: 24 }, (_, i) => {
    const lr = 10 ** (-4 + ((i * 7) % 24) / 8);
    return { number: i + 1, state: i === 23 ? "running" : i % 9 === 5 ? "fail" : "complete", config: { lr, depth: 2 + (i % 5) }, values: i === 23 || i % 9 === 5 ? null : [0.2 + Math.abs(Math.log10(lr) + 2.3) / 4 + ((i * 13) % 7) / 60],
      step: 10, reported: null, attempt: 1, worker: `worker-${i % 3}`, reason: "", started_ms: world.now - 9e5 + i * 3e4, ended_ms: i === 23 ? 0 : world.now - 9e5 + i * 3e4 + 25_000, lease_ends_ms: 0 };
  });
  const best = all.filter((one) => one.values).sort((a, b) => a.values[0] - b.values[0]).slice(0, 1);
  return [{ name: "boosting", space: { lr: { loguniform: [1e-4, 1] }, depth: { randint: [2, 7] } }, searcher: "TPE", scheduler: "none", about: "Trees on the housing table", objectives: [{ metric: "loss", mode: "min" }], seed: 7, max_trials: 40, lease_s: 60, max_retries: 2,
    created_ms: world.now - 9e5, trials_total: all.length, trials_by_state: { complete: 20, fail: 3, running: 1 }, best, all }];
}

async function file(path, response) {
  const name = path === "/" ? "index.html" : path.slice(1);
  if (!/^(index\.html|assets\/[\w.]+)$/.test(name)) return response.writeHead(404).end();
  try {
    const bytes = await readFile(new URL(name, kDist));
    response.writeHead(200, { "Content-Type": kTypes[name.split(".").pop()] ?? "application/octet-stream", "Cache-Control": "no-cache" }).end(bytes);
  } catch {
    response.writeHead(404).end();
  }
}

const kAppends = new Set(["curves", "series", "logs", "events"]);
const kPart = 2000;

function serve(world, state, socket) {
  const subs = new Map();
  const send = (message) => { if (socket.readyState === 1) socket.send(JSON.stringify(message)); };
  const listener = (topic, change, upserts, deletes) => {
    for (const sub of subs.values()) {
      if (sub.topic !== topic) continue;
      for (const row of upserts) {
        if (!world.concerns(topic, change, sub.filter)) continue;
        if (sub.wanted && !sub.wanted.has(row.id)) continue;
        if (kAppends.has(topic)) sub.list.push(row);
        else sub.upserts.set(row.id, row);
      }
      sub.deletes.push(...deletes);
    }
  };
  const one = {
    socket,
    beat() { send({ type: "current", seq: state.seq, server_time_ms: Date.now() }); },
    flush() {
      for (const [id, sub] of subs) {
        if (!sub.upserts.size && !sub.list.length && !sub.deletes.length) continue;
        send({ type: "delta", id, seq: ++state.seq, upserts: [...sub.upserts.values(), ...joined(sub)], deletes: sub.deletes });
        sub.upserts.clear();
        sub.list = [];
        sub.deletes = [];
      }
    },
  };
  world.listeners.push(listener);
  state.sockets.add(one);
  socket.on("close", () => { state.sockets.delete(one); world.listeners = world.listeners.filter((other) => other !== listener); });
  socket.on("message", (data) => {
    const message = JSON.parse(String(data));
    if (message.op === "ping") return send({ type: "pong" });
    state.asked.push(message);
    if (message.op === "unsub") return void subs.delete(message.id);
    if (message.op === "want") {
      const sub = subs.get(message.id);
      const wanted = new Set(message.trials ?? []);
      const gone = [...sub.sent].filter((id) => !wanted.has(id));
      if (gone.length) send({ type: "delta", id: message.id, seq: ++state.seq, upserts: [], deletes: gone });
      const due = world.rows(sub.topic, sub.filter).filter((row) => wanted.has(row.id) && !sub.sent.has(row.id));
      if (due.length) send({ type: "delta", id: message.id, seq: ++state.seq, upserts: due, deletes: [] });
      sub.list = sub.list.filter((row) => wanted.has(row.id) && sub.sent.has(row.id));
      sub.wanted = wanted;
      sub.sent = wanted;
      return undefined;
    }
    const wanted = message.trials ? new Set(message.trials) : null;
    const rows = world.rows(message.topic, message.filter ?? {})?.filter((row) => !wanted || wanted.has(row.id));
    if (!rows) return send({ type: "error", id: message.id, code: "kNotFound", detail: `no ${message.topic} for ${JSON.stringify(message.filter ?? {})}` });
    subs.set(message.id, { topic: message.topic, filter: message.filter ?? {}, wanted, sent: new Set(rows.map((row) => row.id)), upserts: new Map(), list: [], deletes: [] });
    const seq = ++state.seq;
    for (let i = 0; i === 0 || i < rows.length; i += kPart) send({ type: "snap", id: message.id, seq, rows: rows.slice(i, i + kPart), ...(i + kPart < rows.length ? { more: true } : {}) });
  });
  send({ type: "hello", proto: 1, seq: state.seq, server_time_ms: Date.now(), version: "0.1.0", instance: state.instance });
}

// Merges the points of each curve or series into one row; other topics are returned unchanged.
function joined(sub) {
  if (sub.topic !== "curves" && sub.topic !== "series") return sub.list;
  const by = new Map();
  for (const row of sub.list) {
    const known = by.get(row.id);
    by.set(row.id, known ? { ...known, x: [...known.x, ...row.x], y: [...known.y, ...row.y] } : row);
  }
  return [...by.values()];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const option = (name, fallback) => process.argv.find((one) => one.startsWith(`--${name}=`))?.split("=")[1] ?? fallback;
  const server = await start({ port: Number(option("port", "8642")), trials: Number(option("trials", "240")), still: process.argv.includes("--still") });
  console.log(`${server.url}  token vt1.dev; login link ${server.url}/login?key=once`);
}
