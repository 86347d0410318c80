// A simulated training run in the format of train/report/run_report.h: a group of ranks that loses two of them and grows again.
import { random_of } from "./world.mjs";

const kNames = ["train_loss", "val_loss", "val_accuracy", "samples_per_s", "mean_data_s", "mean_forward_s", "mean_backward_s", "mean_communication_s", "mean_optimizer_s", "mean_step_s", "num_samples", "batch_count", "step", "epoch", "workers", "time_total_s", "training_iteration"];
const kBatches = 40;       // Steps of an epoch.
const kEpoch = 12_000;     // ms
const kDied = (pid, node) => `volador::train::RankActor 25b5441a on node ${node} died: its process was ended by signal 9 (Killed): not by Volador: somebody sent it, or the kernel was out of memory (look at \`dmesg\`) (pid ${pid})`;
const kHang = `rank 2 (member 3 on node osprey) hangs: it has been in its own code in step 655 for 5.5 s while others wait for it; the limit is 5.0 s.
rank 0 (pid 41000 on node heron): barrier in step 655 for 5.4 s, waits for rank 2.
rank 2 (pid 41034 on node osprey): forward pass in step 655 for 5.5 s.
    Loader::next() at train/data/loader.cc:118
    Net::forward(at::Tensor) at resnet.cc:41`;

export class TrainingRun {
  // `ranks`: size of the group; `epochs`: reports so far.
  constructor(world, name, { ranks = 8, epochs = 24, state = "running", driver_id = "c0ffee00d15c" } = {}) {
    Object.assign(this, { world, name, ranks, epochs: 0, state, done: 0, random: random_of(11) });
    this.rows = new Map();
    this.curves = new Map(kNames.map((metric) => [metric, new Map()]));
    world.trials.set(name, this.rows);
    world.curves.set(name, this.curves);
    this.started = Math.round(world.now) - epochs * kEpoch - 4000;
    this.run = this.add({ name: "train", status: "running", node: "", config: { width: 64, lr: 0.05, optimizer: { name: "adamw", weight_decay: 0.01 } }, started_ms: this.started });
    this.rank_rows = Array.from({ length: ranks }, (_, i) => this.add({ name: `rank ${i}`, status: "running", node: this.node(i), config: { rank: i, pid: 41_000 + 17 * i, device: this.node(i) === "osprey" ? "cuda:0" : "cpu" }, metrics: { samples_per_s: 900 + 7 * (i % 5), data_wait_s: 0.02 + 0.004 * (i % 7), step: 0 }, started_ms: this.started + 4000 }));
    this.events = 0;
    this.event(this.started + 4000, "group", "The run trains with the group.", { workers: ranks, step: 0 });
    if (epochs > 8) {
      this.event(this.at(6.4), "fault", kDied(41_017, this.node(1)), { rank: 1, workers: ranks - 1, step: 256 });
      this.event(this.at(6.4) + 900, "group", "The run goes on.", { workers: ranks - 1, step: 257 });
      this.event(this.at(9), "note", "Rank 3 is slow: its steps take 4.2 times those of the others, which wait for it.", { workers: ranks - 1, step: 360 });
      this.event(this.at(11), "group", "The run goes on.", { workers: ranks, step: 440 });
      this.event(this.at(16.4), "fault", kHang, { workers: ranks, step: 655 });
      this.event(this.at(16.6), "group", "The run goes on.", { workers: ranks, step: 655 });
    }
    const row = { id: name, name, state, metric: "train_loss", mode: "min", directory: `/home/ada/volador_results/${name}`, trials_total: this.rows.size, started_ms: this.started, updated_ms: Math.round(world.now), scheduler: { text: `train: ${ranks - 2} to ${ranks} workers with cpus 1 each`, rungs: [] }, tags: ["train"], note: "", archived: false, driver_id, files: "here", best: null, best_so_far: null };
    world.tables.experiments.set(name, row);
    for (let i = 0; i < epochs; i++) this.report(true);
    this.status(true);
    this.count();
  }
  node(i) { return ["heron", "kestrel", "osprey"][Math.floor((3 * i) / this.ranks)]; }
  at(epoch) { return Math.round(this.started + 4000 + epoch * kEpoch); }
  add(row) {
    const id = (0x5a000000 + this.rows.size * 0x9e3779b1 % 0x5000000).toString(16).slice(0, 8) + this.name.length.toString(16);
    const made = { id, experiment: this.name, status: "finished", node: "", step: 0, config: {}, metrics: {}, error: "", reason: "", ...row };
    this.rows.set(id, made);
    return made;
  }
  put(row, more, quiet) {
    Object.assign(row, more);
    this.rows.set(row.id, { ...row });
    if (!quiet) this.world.emit("trials", { experiment: this.name }, [this.rows.get(row.id)]);
  }
  event(time, event, reason, config) {
    const row = this.add({ name: `event ${++this.events}`, config: { event, ...config }, reason, started_ms: time, ended_ms: time });
    this.world.emit("trials", { experiment: this.name }, [row]);
  }
  // Adds the metrics of the next epoch.
  report(quiet = false) {
    const epoch = ++this.epochs, random = this.random;
    const workers = epoch > 6 && epoch <= 11 ? this.ranks - 1 : this.ranks;
    const loss = 2.2 * Math.exp(-epoch / 6) + 0.12 + 0.02 * random(), step = 0.26 * (8 / workers) + 0.02 * random();
    const part = (share) => step * share * (0.9 + 0.2 * random());
    const parts = { mean_data_s: part(epoch > 14 && epoch < 18 ? 0.3 : 0.06), mean_forward_s: part(0.24), mean_backward_s: part(0.42), mean_communication_s: part(0.14), mean_optimizer_s: part(0.05) };
    const mean_step_s = Object.values(parts).reduce((sum, one) => sum + one, 0) * 1.06;
    const metrics = { train_loss: loss, val_loss: loss * 1.1 + 0.03 * random(), val_accuracy: 1 - 0.9 * Math.exp(-epoch / 5) - 0.02 * random(), samples_per_s: 1280 / mean_step_s / 5, ...parts, mean_step_s, num_samples: 10_240, batch_count: kBatches, step: epoch * kBatches, epoch, workers, time_total_s: 4 + (epoch * kEpoch) / 1000, training_iteration: epoch };
    const planned_iterations = 90;
    for (const [metric, all] of this.curves) {
      const known = all.get(this.run.id) ?? { id: this.run.id, x: [], y: [] };
      known.x.push(epoch);
      known.y.push(metrics[metric]);
      all.set(this.run.id, known);
      if (!quiet) this.world.emit("curves", { experiment: this.name, metric }, [{ id: this.run.id, x: [epoch], y: [metrics[metric]] }]);
    }
    this.put(this.run, { step: epoch, metrics: { ...metrics, planned_iterations }, reason: `The run trains in generation 4 (${this.ranks} workers), ${epoch * kBatches} steps committed.` }, quiet);
  }
  // What the ranks do.
  status(quiet = false) {
    const step = this.epochs * kBatches + 13;
    this.rank_rows.forEach((row, i) => this.put(row, { step: this.epochs, metrics: { ...row.metrics, step }, reason: i === 3 ? "forward pass for 2.4 s" : i % 3 === 1 ? "sum of the gradients; waits for rank 3" : i % 3 === 2 ? "all_reduce of 1048576 elements of Float for 2.1 s; waits for ranks 3, 4" : "data loading" }, quiet));
  }
  count() {
    const by_status = {};
    for (const one of this.rows.values()) by_status[one.status] = (by_status[one.status] ?? 0) + 1;
    const curve = this.curves.get("train_loss").get(this.run.id);
    const best = curve && { trial: this.run.id, name: "train", value: Math.min(...curve.y), step: this.epochs, config: this.run.config };
    this.world.put("experiments", { ...this.world.tables.experiments.get(this.name), trials_by_status: by_status, trials_total: this.rows.size, metrics: [...this.curves.keys()], best, best_so_far: best, updated_ms: Math.round(this.world.now), left: this.epochs ? { seconds: 620, low: 560, high: 700, at_ms: Math.round(this.world.now) } : null });
  }
  tick(ms) {
    this.done += ms;
    if (this.done < 3000) return;
    this.done = 0;
    this.report();
    this.status();
    this.count();
  }
}
