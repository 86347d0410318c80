// The audit log of the simulated cluster: one entry of each kind, listed as GET /api/v1/audit lists them.
import { kOwner } from "./world.mjs";

const kLong = "actor TrainDigits-9 (5f1c77aa) has ended (killed by signal 9 (SIGKILL) on node plover; likely out of memory, see the kernel's log); there is nothing to kill";

export function audit_of(world) {
  const actors = [...world.tables.actors.values()];
  const alive = actors.find((one) => one.name === "embedder"), dead = actors.find((one) => one.state === "dead");
  const trial = [...world.trials.get("digits").values()].find((one) => one.status === "stopped");
  const entries = [
    [9000, "create_token", "t-1a0b9c viewer"], [8200, "create_token", "viewer", "kUnavailable", "the journal cannot be written: No space left on device (/var/lib/volador/journal)"], [5400, "drain", "sandpiper"], [4300, "drain", "sandpiperr", "kNotFound", "there is no node \"sandpiperr\"; volador list nodes shows the nodes"],
    [3600, "annotate", "digits"], [2900, "kill", alive.id], [2400, "pause", "digits"], [2380, "resume", "digits"], [2100, "add", "digits"], [1800, "add", `digits/${trial.id}`], [1500, "stop", `digits/${trial.id}`, "kNotFound", `trial ${trial.id} has ended (stopped); nothing of it runs`],
    [900, "kill", dead.id, "kNotFound", kLong], [600, "stop", "tokenizer-baseline", "kUnavailable", "the program that runs experiment \"tokenizer-baseline\" is not connected now; ask again"], [300, "revoke_token", "t-1a0b9c"], [120, "undrain", "osprey", "kUnknownOutcome", "the head was stopped before the change was stored"],
  ];
  return entries.map(([ago, action, object, outcome = "done", message = ""], i) => ({ id: i + 1, time_ms: Math.round(world.now) - ago * 1000, by: i === 4 ? "t-1a0b9c" : kOwner, action, object, outcome, message })).reverse();
}

// Supports `page_size` and the filter that the page uses, `id>N`.
export function listed(entries, query) {
  const above = Number(/^id>(\d+)$/.exec(query.get("filter") ?? "")?.[1] ?? 0);
  const found = entries.filter((one) => one.id > above);
  return { rows: found.slice(0, Number(query.get("page_size") ?? 1000)), total: found.length, next_page_token: "" };
}
