// Tests the page's connection with a real head: subscriptions_test.mjs VOLADOR TUNE_SLEEP. Random sequences, from a printed seed, subscribe,
// change parts, leave, hide, lose and slow down the connection while an experiment runs. Held rows must finally equal the answers of the API,
// and no held row may be dropped meanwhile.
// VOLADOR_WEB_SEED=N repeats a sequence.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { check, equal, run, skip, until, web } from "./harness.mjs";

if (!existsSync(join(web, "node_modules/ws"))) skip("no node_modules; npm ci in dashboard/web");
const load = createRequire(join(web, "package.json"));
const WebSocket = load("ws");
const [volador, tune_sleep] = process.argv.slice(2);
const home = mkdtempSync(join(tmpdir(), "volador-web-"));
const env = { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, "state"), XDG_CACHE_HOME: join(home, "cache"), XDG_CONFIG_HOME: join(home, "config"), XDG_RUNTIME_DIR: home };
const cli = (...parts) => execFileSync(volador, parts, { env, cwd: home, encoding: "utf8" });
load("esbuild").buildSync({ entryPoints: [join(web, "src/live/connection.ts")], bundle: true, format: "esm", platform: "node", outfile: join(home, "connection.mjs"), logLevel: "error" });
const { Connection } = await import(join(home, "connection.mjs"));

// Returns a random generator with a seed (mulberry32).
function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

// A proxy between page and head with a variable rate, which can be cut.
async function link_to(port) {
  const pairs = new Set();
  const state = { rate: Infinity };  // Bytes per second.
  const server = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    const pair = { near, far };
    pairs.add(pair);
    near.pipe(far);
    far.on("data", (bytes) => {
      near.write(bytes);
      if (state.rate === Infinity) return;
      far.pause();
      setTimeout(() => far.resume(), (1000 * bytes.length) / state.rate);
    });
    const end = () => { near.destroy(); far.destroy(); pairs.delete(pair); };
    for (const one of [near, far]) one.on("close", end).on("error", end);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { port: server.address().port, set_rate(rate) { state.rate = rate; }, cut() { for (const { near, far } of pairs) { near.destroy(); far.destroy(); } }, close() { this.cut(); server.close(); } };
}

cli("start", "--head", "--cluster=live", "--name=petrel", "--port=0", "--num-cpus=2");
let program;
try {
  const once = cli("dashboard").trim();
  const url = new URL(once).origin;
  const signed = await fetch(once, { redirect: "manual" });
  const cookie = signed.headers.get("set-cookie").split(";")[0];
  const answer = async (path) => (await fetch(url + path, { headers: { Cookie: cookie } })).json();
  const link = await link_to(Number(new URL(url).port));

  await run("web_subscriptions", {
    "what is held is what the head has, after any sequence": async () => {
      const seed = Number(process.env.VOLADOR_WEB_SEED ?? Date.now() % 1_000_000);
      console.log(`seed ${seed}`);
      const random = numbers(seed);
      const below = (n) => Math.floor(random() * n);
      program = spawn(tune_sleep, ["--num-samples=80", "--seconds=0.4", "--reports=20", "--scheduler=asha"], { env, cwd: home, stdio: "ignore" });
      const ended = new Promise((done) => program.on("exit", done));
      await until("the experiment", async () => (await answer("/api/v1/experiments")).rows.length > 0, 60_000);
      const [{ name: experiment, metric }] = (await answer("/api/v1/experiments")).rows;
      const connection = new Connection({
        open: () => new WebSocket(`ws://127.0.0.1:${link.port}/ws`, { headers: { Cookie: cookie, Origin: url, Host: new URL(url).host } }).on("error", () => {}),
        now: () => performance.timeOrigin + performance.now(),
        after: (ms, act) => { const timer = setTimeout(act, ms); return () => clearTimeout(timer); },
        random,
      });
      connection.start();
      const kinds = [["nodes", {}], ["actors", {}], ["events", {}], ["experiments", {}], ["trials", { experiment }], ["curves", { experiment, metric }]];
      const trials = async () => (await answer(`/api/v1/experiments/${experiment}/trials`)).rows.map((row) => row.id);
      let known = await trials();
      const some = () => known.filter(() => below(3) === 0);
      const held = [];
      for (let step = 0; step < 150; step++) {
        const act = below(12);
        if (act < 4 && held.length < 8) {
          const [topic, filter] = kinds[below(kinds.length)];
          const part = topic === "curves" && below(3) ? { as: "view " + step, trials: some() } : undefined;
          held.push({ topic, filter, part, rows: connection.hold(topic, filter, part) });
        } else if (act === 4 && held.length) {
          const [gone] = held.splice(below(held.length), 1);
          connection.release(gone.topic, gone.filter, gone.part);
        } else if (act < 7 && held.some((one) => one.part)) {
          const parts = held.filter((one) => one.part);
          const one = parts[below(parts.length)];
          one.part.trials = some();
          connection.want(one.topic, one.filter, { ...one.part });
        } else if (act === 7) link.cut();
        else if (act === 8) link.set_rate([Infinity, 400_000, 100_000, 20_000][below(4)]);
        else if (act === 9) connection.set_hidden(below(2) === 0);
        else if (act === 10) known = await trials();
        await new Promise((done) => setTimeout(done, below(80)));
      }
      held.push({ topic: "trials", filter: { experiment }, rows: connection.hold("trials", { experiment }) });
      link.set_rate(Infinity);
      connection.set_hidden(false);
      await ended;
      await until("the end of the run on the head", async () => (await answer("/api/v1/experiments")).rows[0].state !== "running", 60_000);
      await until("the link", () => connection.link.value === "live", 60_000);
      const since = connection.current_at.value;
      await until("the head's word that the page has everything", () => connection.current_at.value > since && connection.age() < 6000, 60_000);
      const shape = {
        trials: (row) => [row.id, row.status, row.step, row.metrics], experiments: (row) => [row.name, row.state, row.trials_by_status], nodes: (row) => [row.name, row.state],
        actors: (row) => [row.id, row.state], events: (row) => [row.time_ms, row.text], curves: (row) => [row.id ?? row.trial, row.x, row.y],
      };
      const sorted = (rows, of) => JSON.stringify(rows.map(of).map((one) => JSON.stringify(one)).sort());
      for (const one of held) {
        const path = one.topic === "trials" ? `/api/v1/experiments/${experiment}/trials` : one.topic === "curves" ? `/api/v1/experiments/${experiment}/curves?points=10000&metric=${metric}` : "/api/v1/" + one.topic;
        const what = `${one.topic}${one.part ? " of " + one.part.trials.length + " trials" : ""}`;
        const same = async () => {
          const got = await answer(path + (path.includes("?") ? "&" : "?") + (one.topic === "curves" ? "" : "page_size=20000"));
          const rows = (got.rows ?? got.curves).filter((row) => !one.part || one.part.trials.includes(row.trial));
          return sorted(rows, shape[one.topic]) === sorted(one.rows.list(), shape[one.topic]);
        };
        await until(`${what} as the API answers them (seed ${seed})`, same, 30_000);
      }
      check(held.length > 1, "something was held");
      connection.stop();
      equal(connection.link.value, "closed", "the link");
    },
  });
  link.close();
} finally {
  program?.kill("SIGKILL");
  try {
    cli("stop");
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}
process.exit();
