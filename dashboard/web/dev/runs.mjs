// The simulated head's routes for experiments: curves, files, series and actions.
import { kEventFile } from "./events.mjs";

const kFiles = [{ name: "experiment_state.json", kind: "file", bytes: 48_211 }, { name: "journal.vlj", kind: "file", bytes: 183_402 }];
const kTrialFiles = [
  { name: "checkpoint_000009", kind: "checkpoint", bytes: 1_204_113 }, { name: "checkpoint_000027", kind: "checkpoint", bytes: 1_204_120 },
  { name: "params.json", kind: "file", bytes: 164 }, { name: "progress.csv", kind: "file", bytes: 2_704 }, { name: "result.json", kind: "file", bytes: 5_883 },
  { name: "events.out.tfevents.1795600931.3f2a90c1", kind: "file", bytes: kEventFile.length },
];

const kState = { version: 1, name: "digits", state: "running", metric: "accuracy", mode: "max", seed: 1970324836, tags: [], scheduler: "ASHA max_t 81, factor 3", searcher: "TPE, 20 random first",
  space: 'lr loguniform(5e-05, 0.13)\nmomentum uniform(0.5, 0.99)\nbatch choice of 4\nbatch[0] 16\nbatch[1] 32\nbatch[2] 64\nbatch[3] 128\nactivation choice of 3\nactivation[0] "relu"\nactivation[1] "gelu"\nactivation[2] "tanh"\nmodel.width qrandint(8, 96, 8)\nmodel.dropout quniform(0, 0.5, 0.001)\nepochs 81\n',
  stop: ["accuracy 0.995", "after 81 steps", "after 3600000000000 ns"],
  origin: { arguments: ["build/bin/tune_digits", "--samples=240", "--note=wider layers"], working_directory: "/home/ada/digits", hostname: "heron", git_commit: "3f2a90c1d27be6f5a8", git_branch: "wide", git_changed: true }, started_ns: 1795600931000000000, trials: [] };

const wave = (from, to, low, high, every) => {
  const [x, y, min, max] = [[], [], [], []];
  for (let time = from; time <= to; time += every) {
    const value = low + (high - low) * (0.5 + 0.4 * Math.sin(time / 97_000) + 0.1 * Math.sin(time / 7_000));
    x.push(time);
    y.push(value);
    min.push(value - (high - low) * 0.06);
    max.push(value + (high - low) * 0.06);
  }
  return { x, y, min, max };
};

function series(query, now) {
  const [from, to] = [Math.max(Number(query.get("from_ms")), now - 1_800_000), Number(query.get("to_ms"))];
  const every = Math.max(10_000, Math.ceil((to - from) / 400));
  const node = query.get("node");
  const measures = node
    ? [["cpu_cores_used", 2, 14], ["memory_bytes_used", 6e9, 2e10], ...(node === "osprey" ? [0, 1, 2, 3].flatMap((gpu) => [[`gpu${gpu}_granted`, gpu < 3 ? 0.99 : 0, 1], [`gpu${gpu}_utilization_ratio`, 0.1 * gpu, 0.6 + 0.1 * gpu], [`gpu${gpu}_memory_bytes`, 1e10 * (gpu + 1), 1.4e10 * (gpu + 1)]]) : [])]
    : [["cpu_cores", 0.4, 1], ["memory_bytes", 1.4e8, 1.6e8], ["calls_per_s", 2, 9], ["call_ms", 90, 130]];
  const of = node ? "node/" + node : "actor/" + (query.get("actor") || query.get("trial"));
  return { series: measures.filter(([metric]) => !query.get("name") || query.get("name") === metric).map(([metric, low, high]) => ({ id: `${of}/${metric}`, kind: of.split("/")[0], name: of.split("/")[1], metric, ...wave(from, to, low, high, every) })) };
}

// Returns { status, value }; null: another route.
export async function answer_run(world, role, request, url, body_of) {
  if (url.pathname === "/api/v1/series") return { status: 200, value: series(url.searchParams, world.now) };
  const found = /^\/api\/v1\/experiments\/([^/:]+)(?::(\w+)|\/(.*))?$/.exec(url.pathname);
  if (!found) return null;
  const name = decodeURIComponent(found[1]);
  const row = world.tables.experiments.get(name);
  if (!row) return { status: 404, error: "there is no experiment " + name };
  const [act, part] = [found[2], found[3]];
  if (act) {
    if (role === "viewer") return { status: 403, error: "this is for role operator; you have role viewer" };
    const asked = await body_of(request);
    world.asked = [...(world.asked ?? []), { name, act, ...asked }];
    if (act === "annotate") {
      const tags = new Set([...(row.tags ?? []), ...(asked.add_tags ?? [])].filter((tag) => !asked.remove_tags?.includes(tag)));
      world.put("experiments", { ...row, tags: [...tags].sort(), note: asked.note ?? row.note ?? "", archived: asked.archived ?? row.archived ?? false });
    }
    return { status: 200, value: {} };
  }
  if (part === "files/experiment_state.json") return { status: 200, value: kState };
  if (part === "files") return name === world.unreachable ? { status: 409, error: "elsewhere" } : { status: 200, value: { directory: row.directory, rows: kFiles.map((file) => ({ ...file, modified_ms: world.now })) } };
  if (/^trials\/[^/]+\/files$/.test(part ?? "")) return { status: 200, value: { directory: row.directory, rows: kTrialFiles.map((file) => ({ ...file, modified_ms: world.now })) } };
  if (part?.includes("/files/events.out.tfevents.")) return { status: 200, bytes: kEventFile };
  if (part === "curves") {
    const curves = world.curves.get(name)?.get(url.searchParams.get("metric") || row.metric) ?? new Map();
    return { status: 200, value: { curves: [...curves.values()].map(({ id, x, y }) => ({ trial: id, x, y })) } };
  }
  return null;
}
