// A simulated cluster that changes over time: an experiment under ASHA, nodes, actors, events. The same seed gives the same cluster.
import { reasoned } from "./reasons.mjs";
import { TrainingRun } from "./training.mjs";

const kTrainers = ["name.named_group", "trainers", "52eceb10"];
const kBehind = ["joined.clauses", ["waits.reserved_before", "osprey", { amounts: { cpus: 2, gpus: 1 } }, kTrainers], ["waits.behind_higher", 1, kTrainers]];

export function random_of(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const kRungs = [1, 3, 9, 27, 81];
const kGiB = 1024 ** 3;
const kDriver = { "/home/ada/digits/build/tune_digits": "4f1c22aa90b1", "/home/lin/serve/build/embedder": "9b0d77e2c3f4" };  // Ids of drivers.
export const kOwner = "t-7f21c0";  // Id of the token of these drivers.
const hex = (random, n) => Array.from({ length: n }, () => "0123456789abcdef"[Math.floor(random() * 16)]).join("");
const kTexts = [
  "epoch {s}: loss {l}, accuracy {a}", "checkpoint of step {s} saved in 41 ms", "loader: 1437 images in 12 batches",
  "warning: gradient norm 18.2 clipped to 5", "epoch {s}: loss {l}, accuracy {a}", "epoch {s}: loss {l}, accuracy {a}",
];

export class World {
  constructor({ trials = 240, seed = 7, now = Date.now() } = {}) {
    this.random = random_of(seed);
    this.now = now;
    this.started = now - 42 * 60_000;
    this.event_id = 0;
    this.log_id = 0;
    this.tables = { cluster: new Map(), nodes: new Map(), actors: new Map(), drivers: new Map(), queue: new Map(), groups: new Map(), object_stores: new Map(), object_groups: new Map(), objects: new Map(), experiments: new Map(), events: new Map() };
    this.trials = new Map();   // experiment → id → row
    this.curves = new Map();   // experiment → metric → id → {id, x, y}
    this.series = new Map();
    this.logs = [];
    this.whole_log = { first: 1, last: 1_000_000 };
    this.listeners = [];
    this.make_nodes();
    this.make_drivers();
    this.experiment("digits", { trials, metric: "accuracy", mode: "max", state: "running", share: 0.62 });
    this.experiment("resnet-width-sweep", { trials: 48, metric: "loss", mode: "min", state: "finished", share: 1, names: true });
    this.experiment("tokenizer-baseline", { trials: 12, metric: "loss", mode: "min", state: "failed", share: 1 });
    this.trainings = [new TrainingRun(this, "resnet50-imagenet-train_2026-11-26_10-02-11")];
    this.make_actors();
    this.make_queue();
    this.make_groups();
    this.make_objects();
    this.past();
    this.refresh_cluster();
  }

  emit(topic, filter, upserts, deletes = []) {
    for (const listener of this.listeners) listener(topic, filter, upserts, deletes);
  }
  put(topic, row) {
    this.tables[topic].set(row.id, row);
    this.emit(topic, {}, [row]);
  }

  make_nodes() {
    const add = (name, cpus, memory, gpus, state, model) => this.tables.nodes.set("n-" + name, {
      id: "n-" + name, name, state, address: `10.0.0.${this.tables.nodes.size + 1}:6381`, total: { cpus, memory: memory * kGiB, ...(gpus ? { gpus } : {}) },
      used: { cpus: Math.floor(cpus * 0.8), memory: memory * 0.55 * kGiB, ...(gpus ? { gpus: gpus - 1 } : {}) }, labels: gpus ? { zone: "b", accelerator: "h200" } : { zone: "a" },
      actors: 0, cpu_cores_used: cpus * 0.7, memory_bytes_used: memory * 0.4 * kGiB, gpu_model: model, version: "0.1.0", last_heard_ms: Math.round(this.now) - (state === "suspect" ? 6200 : 300),
      file_systems: [{ path: "/", type: "ext4", uses: ["logs", "temporary files"], total: 200 * kGiB, free: 61 * kGiB }, ...(gpus ? [{ path: "/scratch", type: "xfs", uses: ["spilled objects"], total: 3600 * kGiB, free: 2900 * kGiB }] : [])],
      disk_read_bytes_per_s: 2.1e6, disk_write_bytes_per_s: 1.4e7, network_receive_bytes_per_s: 3.2e7, network_send_bytes_per_s: 1.1e7, ...(gpus ? { cpu_temperature_celsius: 61.5, cpu_power_watts: 212 } : {}),
    });
    add("heron", 16, 64, 0, "alive", "");
    add("kestrel", 32, 128, 0, "alive", "");
    add("osprey", 24, 192, 4, "alive", "NVIDIA H200");
    add("plover", 16, 64, 0, "suspect", "");
    add("sandpiper", 8, 32, 0, "draining", "");
    for (const node of this.tables.nodes.values()) {
      for (const [metric, base, top] of [["cpu_cores_used", node.total.cpus * 0.65, node.total.cpus], ["memory_bytes_used", node.total.memory * 0.42, node.total.memory], ["disk_read_bytes_per_s", 2e6, 1e8], ["disk_write_bytes_per_s", 1.2e7, 1e8], ["network_receive_bytes_per_s", 3e7, 1e9], ["network_send_bytes_per_s", 1e7, 1e9], ...(node.total.gpus ? [["cpu_temperature_celsius", 60, 95], ["cpu_power_watts", 210, 400], ...[0, 1, 2, 3].flatMap((gpu) => [[`gpu${gpu}_utilization_ratio`, 0.8 - 0.15 * gpu, 1], [`gpu${gpu}_temperature_celsius`, 68 - 6 * gpu, 92], [`gpu${gpu}_power_watts`, 520 - 90 * gpu, 700]])] : [])]) {
        const x = [], y = [];
        for (let s = 600; s > 0; s -= 2) { x.push(this.now - s * 1000); y.push(this.wave(base, top, (this.now / 1000 - s) / 60 + node.name.length)); }
        this.series.set(`node/${node.name}/${metric}`, { id: `node/${node.name}/${metric}`, kind: "node", name: node.name, metric, x, y, base, top });
      }
    }
  }
  wave(base, top, at) {
    return Math.min(top, Math.max(0, base * (1 + 0.22 * Math.sin(at * 1.7) + 0.1 * Math.sin(at * 7.3)) + base * 0.06 * (this.random() - 0.5)));
  }

  make_drivers() {
    for (const [i, [program, id]] of Object.entries(kDriver).entries()) this.tables.drivers.set(id, { id, pid: 31221 + 649 * i, program, state: "connected", host: ["heron", "kestrel"][i], owner: kOwner, connected_ms: Math.round(this.now) - 2_400_000 });
  }

  config() {
    const r = this.random;
    return { lr: 10 ** (-4.3 + 3.4 * r()), momentum: Math.round((0.5 + 0.49 * r()) * 1e4) / 1e4, batch: [16, 32, 64, 128][Math.floor(r() * 4)], activation: ["relu", "gelu", "tanh"][Math.floor(r() * 3)], model: { width: 8 * (1 + Math.floor(r() * 12)), dropout: Math.round(r() * 0.5 * 1e3) / 1e3 }, epochs: 81 };
  }
  quality(config) {
    const lr = 1 - 0.16 * (Math.log10(config.lr) + 2) ** 2;
    return Math.max(0.12, Math.min(0.994, 0.55 + 0.36 * lr + 0.05 * (config.model.width / 96) - 0.1 * Math.abs(config.momentum - 0.9) - 0.04 * config.model.dropout + (config.activation === "tanh" ? -0.03 : 0.01)));
  }
  result(trial, step) {
    const quality = trial.quality;
    const accuracy = Math.max(0.08, quality * (1 - 0.85 * Math.exp(-step / (2.5 + 40 * (1 - quality)))) + 0.012 * (this.random() - 0.5));
    const loss = 2.3 * Math.exp(-step / (3 + 30 * (1 - quality))) + 1.4 * (1 - quality) ** 1.5 + 0.01 * this.random();
    return { accuracy, loss, training_iteration: step, time_total_s: step * 1.32 + this.random() };
  }

  experiment(name, { trials, metric, mode, state, share, names }) {
    const rows = new Map();
    const curves = new Map([["accuracy", new Map()], ["loss", new Map()], ["time_total_s", new Map()]]);
    const nodes = ["heron", "kestrel", "osprey"];
    const sim = { name, rows, curves, at_rung: kRungs.map(() => []), metric, sign: mode === "max" ? 1 : -1, trials: [] };
    for (let i = 0; i < trials; i++) {
      const config = this.config();
      const trial = { row: { id: hex(this.random, 8), experiment: name, status: "waiting", node: "", step: 0, config, metrics: {}, error: "", reason: "", ...(names ? { name: `width=${config.model.width}_${i}` } : {}), ...(names && i % 5 === 0 ? { tags: i % 10 === 0 ? ["wide", "keep"] : ["wide"] } : {}) }, quality: this.quality(config) };
      sim.trials.push(trial);
      rows.set(trial.row.id, trial.row);
    }
    this.trials.set(name, rows);
    this.curves.set(name, curves);
    const until = Math.floor(trials * share);
    for (let i = 0; i < until; i++) {
      const trial = sim.trials[i];
      trial.row.node = nodes[i % 3];
      trial.row.status = "running";
      // Trials start one after the other in the slots of their node.
      trial.row.started_ms = this.now - 1_500_000 + Math.floor(i / 24) * 60_000 + (i % 24) * 900;
      if (state === "failed" && i % 4 === 0) { this.advance(sim, trial, true); trial.row.status = "failed"; trial.row.error = "std::runtime_error: vocabulary.json: expected 32000 entries, got 31997 (exit code 1)"; continue; }
      if (i % 57 === 31) { this.advance(sim, trial, true); trial.row.status = "failed"; trial.row.error = "the loss is NaN at step 2; killed by signal 6 (Aborted)"; continue; }
      const running = state === "running" && i >= until - Math.min(24, trials / 8);
      for (let k = 0; k < (running ? 1 + Math.floor(this.random() * 20) : 81) && trial.row.status === "running"; k++) this.advance(sim, trial, true);
    }
    this.sims ??= [];
    if (state === "running") this.sims.push(sim);
    const row = { id: name, name, state, metric, mode, directory: `/home/ada/volador_results/${name}_2026-11-21_10-02-11`, trials_total: trials, started_ms: state === "running" ? this.started : this.now - 26 * 3600_000,
      updated_ms: state === "running" ? this.now : this.now - 22.4 * 3600_000, scheduler: { text: "ASHA max_t 81, factor 3", rungs: [] }, tags: name === "digits" ? ["asha", "baseline"] : [], note: name === "digits" ? "Wider layers than last week.\nCompare with resnet-width-sweep." : "", archived: false, driver_id: name === "tokenizer-baseline" ? "77aa01c2d3e4" : "4f1c22aa90b1", files: state === "failed" ? "elsewhere" : "here" };
    this.tables.experiments.set(name, row);
    this.count(sim, row);
  }

  // Advances a trial by one step and applies ASHA's decision.
  advance(sim, trial, quiet = false) {
    const { row } = trial;
    const step = row.step + 1;
    const metrics = this.result(trial, step);
    const next = { ...row, step, metrics };
    const points = {};
    for (const [metric, all] of sim.curves) {
      const known = all.get(row.id) ?? { id: row.id, x: [], y: [] };
      known.x.push(step);
      known.y.push(metrics[metric]);
      all.set(row.id, known);
      points[metric] = { id: row.id, x: [step], y: [metrics[metric]] };
    }
    const rung = kRungs.indexOf(step);
    if (rung === kRungs.length - 1) {
      next.status = "finished";
      Object.assign(next, reasoned(["decision.by", ["decision.steps_done", step], "ASHA"]));
    } else if (rung >= 0) {
      const value = metrics[sim.metric] * sim.sign;
      const at = sim.at_rung[rung];
      const member = { trial: row.id, value: metrics[sim.metric], act: "passed" };
      at.push(member);
      const better = at.filter((other) => other.value * sim.sign > value).length;
      if (at.length >= 3 && better >= at.length / 3) {
        next.status = "stopped";
        member.act = "stopped";
        const rank = ["decision.rank", better + 1, at.length, String(step), metrics[sim.metric].toPrecision(4)];
        const cutoff = at.map((one) => one.value * sim.sign).sort((a, b) => b - a)[Math.max(1, Math.floor(at.length / 3)) - 1] * sim.sign;
        const pass = ["decision.best_of", Math.floor(at.length / 3), cutoff.toPrecision(4)];
        Object.assign(next, reasoned(["trial.others_better", ["decision.by", ["joined.clauses", rank, pass], "ASHA"]]));
      }
    }
    if (next.status !== "running") next.ended_ms = quiet ? next.started_ms + 700 * step : this.now;
    trial.row = next;
    sim.rows.set(next.id, next);
    if (!quiet) {
      this.emit("trials", { experiment: sim.name }, [next]);
      for (const [metric, point] of Object.entries(points)) this.emit("curves", { experiment: sim.name, metric }, [point]);
      if (next.status === "finished") this.event("info", `trial ${next.id} of ${sim.name} finished: ${sim.metric} ${metrics[sim.metric].toFixed(4)}`, { experiment: sim.name, trial: next.id });
    }
  }

  count(sim, row) {
    const by = {};
    let best = null;
    for (const one of sim.rows.values()) {
      by[one.status] = (by[one.status] ?? 0) + 1;
      const value = one.metrics[sim.metric];
      if (value !== undefined && (!best || value * sim.sign > best.value * sim.sign)) best = { trial: one.id, ...(one.name ? { name: one.name } : {}), value, step: one.step, config: one.config };
    }
    const rungs = sim.at_rung.map((at, i) => {
      const members = [...at].sort((a, b) => sim.sign * (b.value - a.value));
      const pass = Math.max(Math.floor(at.length / 3), 1);
      return { bracket: 0, step: kRungs[i], trials: at.length, passed: at.filter((one) => one.act === "passed").length, cutoff: members[pass - 1]?.value ?? null, state: "open", awaited: 0, members };
    });
    const next = { ...row, scheduler: { ...row.scheduler, rungs }, metrics: [...sim.curves.keys()], trials_by_status: by, best, updated_ms: row.state === "running" ? this.now : row.updated_ms };
    this.tables.experiments.set(row.id, next);
    return next;
  }

  make_actors() {
    const classes = ["TrainDigits", "Embedder", "ReplayBuffer", "ParameterServer", "Tokenizer"];
    const nodes = ["heron", "kestrel", "osprey", "osprey", "kestrel"];
    for (let i = 0; i < 64; i++) {
      const kind = i < 24 ? 0 : 1 + (i % 4);
      const state = i === 60 ? "restarting" : i === 61 ? "starting" : i > 61 ? "dead" : "alive";
      const id = hex(this.random, 16);
      const trial = [...this.trials.get("digits").values()][i];
      this.tables.actors.set(id, { id, class_name: classes[kind], name: i === 30 ? "embedder" : "", display: kind === 0 ? `digits/${trial.id}` : i === 30 ? "embedder" : `${classes[kind]} ${id.slice(0, 6)}`, state, node: state === "starting" ? "" : nodes[i % 5], pid: state === "alive" ? 30000 + i * 17 : 0,
        epoch: i === 60 ? 3 : 1, restarts: i === 60 ? 2 : 0, resources: kind === 1 ? { cpus: 2, gpus: 1 } : { cpus: 1 }, gpus: kind === 1 ? [i % 4] : [], reason: "", ...(state === "dead" ? reasoned(["joined.because", ["ended.on", ["ended.signal_named", 9, "SIGKILL"], "plover"], ["cause.sigkill"]]) : state === "restarting" ? reasoned(["waits.restart_delay", "2.0 s", 2]) : {}), driver: kind === 0 ? "/home/ada/digits/build/tune_digits" : "/home/lin/serve/build/embedder", driver_id: Object.values(kDriver)[Number(kind !== 0)], owner: kOwner, detached: i === 30 });
    }
    for (let i = 0; i < 3; i++) {
      const id = hex(this.random, 16);
      this.tables.actors.set(id, { id, class_name: "volador::TaskRunner", name: "", display: "tasks", state: i < 2 ? "alive" : "pending", node: i < 2 ? ["heron", "kestrel"][i] : "", pid: i < 2 ? 32100 + i : 0, epoch: 1, restarts: 0, resources: { cpus: 1 }, gpus: [], reason: "", driver: "/home/ada/digits/build/tune_digits", driver_id: "4f1c22aa90b1", owner: kOwner, detached: false });
    }
    for (const node of this.tables.nodes.values()) node.actors = [...this.tables.actors.values()].filter((one) => one.node === node.name && one.state === "alive").length;
  }
  make_queue() {
    let position = 0;
    const add = (id, display, resources, why, ms, more = {}) => this.tables.queue.set(id, { id, display, kind: "actor", name: "", class_name: display.split(" ")[0], experiment: "", trial: "", group: "", driver: "", priority: 0, position: ++position, bundles: 0,
      reserved: [], blocker: null, resources, ...reasoned(why), since_ms: Math.round(this.now) - ms, ...more });
    const in_use = ["waits.in_use_one", { amounts: { gpus: 1 } }, "4", "4", "osprey"];
    const trainers = { kind: "group", id: "d9914b7c02e6f5a8", name: "big-trainers", display: "placement group big-trainers", class_name: "", experiment: "", trial: "", why: "reserved", node: "osprey", resources: { gpus: 2 } };
    add("d9914b7c02e6f5a8", "placement group big-trainers", { cpus: 8, gpus: 4 }, ["waits.bundles_together", 4, ["waits.together", { amounts: { cpus: 8, gpus: 4 } }]], 402_000, { kind: "group", name: "big-trainers", class_name: "", bundles: 4, reserved: [{ node: "osprey", resources: { gpus: 2 } }] });
    for (let i = 0; i < 57; i++) {
      add(`q5e3${String(i).padStart(4, "0")}c0ffee01`, `Trial ${(0x1975bbb2 + i * 7919).toString(16)}`, { cpus: 0.25, gpus: 0.25 }, kBehind, 120_000 + i * 1000,
        { kind: "trial", class_name: "volador::tune::TrialActor", experiment: "resnet-width-sweep", trial: (0x1975bbb2 + i * 7919).toString(16), blocker: trainers });
    }
    add("q1a2b3c4d5e6f701", "BigModel", { gpus: 8 }, ["waits.for_larger", ["lacks.most", { amounts: { gpus: 8 } }, [], "osprey", "4"]], 312_000);
    add("q1a2b3c4d5e6f702", "Embedder 77ab01", { cpus: 2, gpus: 1 }, in_use, 41_000);
    add("q1a2b3c4d5e6f703", "Embedder 77ab02", { cpus: 2, gpus: 1 }, ["joined.clauses", in_use, ["waits.behind_earlier", 1, ["name.named_actor", "77ab01", "1a2b3c4d", "Embedder"]]], 38_500);
  }

  make_groups() {
    const add = (id, name, strategy, state, places, each, reason = "") => {
      const bundles = places.map((node, index) => ({ index, node, total: each, used: node && index < 2 ? each : {}, gpus: node && each.gpus ? [index] : [], actors: node && index < 2 ? 1 : 0 }));
      const total = Object.fromEntries(Object.entries(each).map(([key, value]) => [key, value * places.length]));
      this.tables.groups.set(id, { id, name, strategy, state, reason, driver: "/home/ada/digits/build/tune_digits", owner: kOwner, detached: name === "serving", priority: name === "serving" ? 10 : 0,
        bundles_total: places.length, bundles_placed: places.filter(Boolean).length, actors: bundles.reduce((sum, one) => sum + one.actors, 0), total, bundles });
    };
    add("a71c0f2255d04e10", "serving", "spread", "ready", ["heron", "kestrel", "osprey"], { cpus: 2, memory: 4 * kGiB });
    add("b02d9ac817f34422", "trainers", "strict_pack", "ready", ["osprey", "osprey", "osprey"], { cpus: 4, gpus: 1 });
    add("c5e80f11aa92bd37", "sweep", "pack", "rescheduling", ["kestrel", "", "kestrel", "kestrel"], { cpus: 4 }, "bundle 1 lost node plover; kestrel has 3 of 32 CPUs free, it asks for 4");
    add("d9914b7c02e6f5a8", "", "strict_spread", "pending", Array(8).fill(""), { cpus: 8 }, "8 nodes with 8 CPUs each are asked for; 5 nodes are there, 3 of them have as much free");
    [...this.tables.actors.values()].filter((one) => one.state === "alive").slice(0, 2).forEach((one, index) => this.tables.actors.set(one.id, { ...one, group: "a71c0f2255d04e10", bundle: index }));
  }
  make_objects() {
    const kMiB = 1024 ** 2;
    for (const [node, used, max, objects, spilled, spilled_max, error] of [["heron", 5.1, 19, 812, 0, 60, ""], ["kestrel", 37.2, 38, 2406, 14.4, 120, ""], ["osprey", 11, 57, 96, 0, 0, ""], ["plover", 0, 0, 0, 0, 0, "node plover is suspect and not connected; try again when it is back"]]) {
      this.tables.object_stores.set(node, { id: node, node, bytes: used * kGiB, bytes_max: max * kGiB, objects, spilled: spilled * kGiB, spilled_max: spilled_max * kGiB, error });
    }
    const places = [["shards.cc:41", "std::vector<float>"], ["embed.cc:118", "Eigen::MatrixXf"], ["tune_digits.cc:77", "digits::Images"], ["replay.cc:203", "std::vector<Transition>"]];
    for (let i = 0; i < 9; i++) {
      const [place, type] = places[i % 4];
      const node = ["heron", "kestrel", "osprey"][i % 3], objects = 3 + 40 * i, bytes = (9 - i) * 1.7 * kGiB, on_disk = node === "kestrel" ? bytes / 3 : 0;
      const put_by = i % 2 ? `TrainDigits-${i} (pid ${31000 + i})` : `driver tune_digits (pid ${31221 + i})`;
      const id = `${node}/${put_by}/${place}/${type}`;
      this.tables.object_groups.set(id, { id, node, place, type, put_by, objects, bytes, bytes_in_memory: bytes - on_disk, bytes_spilled: on_disk, references: objects + i });
    }
    for (let i = 0; i < 240; i++) {
      const [place, type] = places[i % 4];
      const node = ["heron", "kestrel", "osprey"][i % 3], object = hex(this.random, 8) + "-" + i + "-" + (i % 7);
      this.tables.objects.set(object + "@" + node, { id: object + "@" + node, object, node, bytes: Math.round((260 - i) * 3.1 * kMiB), type, place, put_by: `TrainDigits-${i % 24} (pid ${31000 + (i % 24)})`,
        held_by: i % 9 ? [`TrainDigits-${(i + 1) % 24} (pid ${31001 + (i % 24)})`, ...(i % 5 ? [] : ["driver tune_digits (pid 31221)"])] : [], references: i % 9 ? 1 + Number(i % 5 === 0) : 0, state: i % 9 === 0 ? "freed" : node === "kestrel" && i % 2 ? "spilled" : node === "kestrel" && i % 4 === 0 ? "both" : "memory", copy: i % 31 === 7 });
    }
  }

  // Returns what a node answers: its worker, a prestarted worker, and one process for each isolated actor.
  processes(node) {
    const of = new Map();
    for (const actor of this.tables.actors.values()) if (actor.node === node && actor.pid && actor.state !== "dead") of.set(actor.pid, [...(of.get(actor.pid) ?? []), actor.id]);
    return [{ pid: 30_001, kind: "worker", actors: [], cpu_cores: 0.02, memory_bytes: 4.1e7 }, { pid: 30_009, kind: "spare", actors: [], memory_bytes: 1.1e6 },
      ...[...of].map(([pid, actors]) => ({ pid, kind: "actors", actors, cpu_cores: Math.round(900 + 200 * this.random()) / 1000, memory_bytes: Math.round(3e8 * (1 + this.random())) }))];
  }

  event(level, text, fields = {}) {
    const row = { id: String(++this.event_id), time_ms: Math.round(this.now), level, text, fields };
    this.tables.events.set(row.id, row);
    if (this.tables.events.size > 5000) this.tables.events.delete(this.tables.events.keys().next().value);
    this.emit("events", {}, [row]);
  }
  log(source, node, stderr, text, quiet = false) {
    const own = source === "worker", time_ms = Math.round(this.now);
    const level = own ? (stderr ? "error" : "info") : /^error/.test(text) ? "error" : /^warning/.test(text) ? "warn" : "";
    const line = { id: String(++this.log_id), source, node, stderr, text: own ? `${new Date(time_ms).toISOString()} ${level.padEnd(5)} worker "${text}"` : text, time_ms, ...(level ? { level } : {}) };
    this.logs.push(line);
    if (this.logs.length > 20000) this.logs.shift();
    if (!quiet) this.emit("logs", { node, source }, [line]);
  }
  past() {
    const then = this.now;
    const failed = [...this.trials.get("digits").values()].find((one) => one.status === "failed");
    const actor = [...this.tables.actors.values()].find((one) => one.name === "embedder"), dead = [...this.tables.actors.values()].find((one) => one.state === "dead");
    const known = (one, more) => ({ actor: one.id, class: one.class_name, ...more });
    for (const [ago, level, text, fields] of [[2520, "info", "restarted from the journal, nodes and drivers may come back", {}], [2518, "info", "node joined", { node: "heron", cpus: "16" }], [2490, "info", "node joined", { node: "kestrel", cpus: "32" }],
      [2470, "info", "node joined", { node: "osprey", cpus: "24", gpus: "4" }], [2400, "info", "driver connected", { driver: "/home/ada/digits/build/tune_digits", id: "4f1c22aa90b1", pid: "31221" }],
      [2399, "info", "experiment started", { experiment: "digits", driver: "/home/ada/digits/build/tune_digits", id: "4f1c22aa90b1" }], [1230, "warn", "actor restarts", known(actor, { cause: "exited with code 137 on node kestrel" })],
      [1100, "warn", "trial failed", { experiment: "digits", trial: failed?.id ?? "", error: failed?.error ?? "" }], [930, "info", "node drains: nothing new is placed there", { node: "sandpiper" }],
      [700, "info", "experiment finished", { experiment: "resnet-width-sweep", best: "loss 0.0248", trial: this.tables.experiments.get("resnet-width-sweep").best.trial, failed: "0" }],
      [312, "warn", "experiment crashed: its program has left", { experiment: "tokenizer-baseline", failed: "3" }], [40, "error", "actor is dead", known(dead, { cause: "killed by signal 9 (SIGKILL) on node plover" })], [6, "warn", "node is silent, nothing new is placed there", { node: "plover" }]]) {
      this.now = then - ago * 1000;
      this.event(level, text, fields);
    }
    for (let i = 0; i < 1400; i++) {
      this.now = then - (1400 - i) * 250;
      this.line(i, true);
    }
    this.now = then;
  }
  line(i, quiet = false) {
    const node = ["heron", "kestrel", "osprey"][i % 3];
    const bad = i % 311 === 150;
    const text = bad ? "error: cannot read shard 17: Input/output error; it is read again in 2 s" : kTexts[i % kTexts.length].replace("{s}", String(1 + (i % 81))).replace("{l}", (2 * this.random()).toFixed(4)).replace("{a}", this.random().toFixed(4));
    this.log(i % 7 === 0 ? "worker" : `TrainDigits-${i % 24}`, node, bad, text, quiet);
  }

  refresh_cluster() {
    const nodes = [...this.tables.nodes.values()];
    const sum = (field) => nodes.reduce((all, node) => { for (const [key, value] of Object.entries(node[field])) all[key] = (all[key] ?? 0) + value; return all; }, {});
    const actors = {};
    for (const one of this.tables.actors.values()) actors[one.state] = (actors[one.state] ?? 0) + 1;
    this.put("cluster", { id: "cluster", name: "heron", version: "0.1.0", address: "10.0.0.1:6380", started_ms: this.started, nodes_alive: nodes.filter((node) => node.state === "alive" || node.state === "draining").length, total: sum("total"), used: sum("used"), actors_by_state: actors, drivers: this.tables.drivers.size });
  }

  // Advances the time by `ms`.
  tick(ms) {
    this.now += ms;
    this.ticks = (this.ticks ?? 0) + 1;
    for (const sim of this.sims) {
      const running = sim.trials.filter((one) => one.row.status === "running");
      for (const trial of running) if (this.random() < ms / 1500) this.advance(sim, trial);
      const free = Math.min(24, sim.trials.length / 8) - sim.trials.filter((one) => one.row.status === "running").length;
      sim.trials.filter((one) => one.row.status === "waiting").slice(0, Math.max(0, free)).forEach((trial, i) => {
        trial.row = { ...trial.row, status: "running", node: ["heron", "kestrel", "osprey"][i % 3] };
        sim.rows.set(trial.row.id, trial.row);
        this.emit("trials", { experiment: sim.name }, [trial.row]);
      });
      this.put("experiments", this.count(sim, this.tables.experiments.get(sim.name)));
    }
    for (const training of this.trainings) training.tick(ms);
    if (this.ticks % Math.max(1, Math.round(1000 / ms)) === 0) this.second();
    this.line(1400 + this.ticks);
  }
  second() {
    for (const one of this.series.values()) {
      const point = { id: one.id, kind: "node", name: one.name, metric: one.metric, x: [Math.round(this.now)], y: [this.wave(one.base, one.top, this.now / 60000 + one.name.length)] };
      one.x.push(...point.x);
      one.y.push(...point.y);
      this.emit("series", { node: one.name }, [point]);
      const node = this.tables.nodes.get("n-" + one.name);
      if (one.metric === "cpu_cores_used") node.cpu_cores_used = point.y[0];
      if (one.metric === "memory_bytes_used") node.memory_bytes_used = point.y[0];
    }
    for (const node of this.tables.nodes.values()) this.put("nodes", { ...node, last_heard_ms: node.state === "suspect" ? node.last_heard_ms : Math.round(this.now) });
    this.refresh_cluster();
  }

  // Returns the rows of a topic's snapshot under a filter; null: the object does not exist.
  rows(topic, filter = {}) {
    if (topic === "trials") return this.trials.has(filter.experiment) ? [...this.trials.get(filter.experiment).values()] : null;
    if (topic === "curves") {
      const all = this.curves.get(filter.experiment);
      if (!all) return null;
      return [...(all.get(filter.metric) ?? new Map()).values()].map((row) => ({ ...row, x: [...row.x], y: [...row.y] }));
    }
    if (topic === "series") return [...this.series.values()].filter((row) => !filter.node || row.name === filter.node).map(({ base, top, ...row }) => ({ ...row, x: [...row.x], y: [...row.y] }));
    if (topic === "logs") return this.logs.filter((line) => (filter.node ? line.node === filter.node : true)).slice(-1000).map(({ id, ...line }) => line);
    return this.tables[topic] ? [...this.tables[topic].values()] : null;
  }
  // Returns whether a change belongs to a subscription.
  concerns(topic, change, filter) {
    if (topic === "trials") return change.experiment === filter.experiment;
    if (topic === "curves") return change.experiment === filter.experiment && change.metric === filter.metric;
    if (topic === "series") return !filter.node || change.node === filter.node;
    if (topic === "logs") return filter.node ? change.node === filter.node : true;
    return true;
  }
}
