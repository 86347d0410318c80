import assert from "node:assert/strict";
import { test } from "node:test";
import { field_of, job_yaml, jobs_of, kForm, spec_of, task_of, variables_of, wrong_of } from "../src/pages/job_form";
import { by_day, by_owner, days_until, rows_of_days, total_of, usage_csv, type UsageRow } from "../src/pages/job_usage_rows";
import { by_priority, counts_of, rows_of } from "../src/pages/job_groups";
import type { Job } from "../src/pages/job_rows";
import { entry_of, field_of_setting, is_conflict, limits_of_texts, names_of, settings_yaml, texts_of, texts_of_limits, with_entry, type QueueSettings } from "../src/pages/queue_settings";
import { yaml_list, yaml_text, yaml_value } from "../src/pages/yaml_text";

const settings: QueueSettings = {
  pools: [{ name: "a100", projects: ["vision", "language"], note: "until: May" }, { name: "old", projects: [], note: "" }],
  projects: [{ name: "vision", weight: 2.5, limits: { memory: 2 ** 34, gpus: 4, licence: 0.5 }, urgent_jobs: 2, note: "" }],
  environments: [{ name: "cuda12", source: "/opt/conda/envs/cuda12", note: "" }],
  preemption: "urgent", version: 7,
};

test("usage is summed by day and project, and by owner; idle comes last", () => {
  const row = (day: string, project: string, owner: string, gpu_hours: number): UsageRow => ({ day, project, owner, gpu_hours, cpu_hours: 2 * gpu_hours, memory_gib_hours: 0, attempts: project ? 1 : 0 });
  const days = days_until(Date.UTC(2026, 2, 1, 23), 2);
  assert.deepEqual(days, ["2026-02-28", "2026-03-01"]);
  const rows = rows_of_days([row("2026-02-27", "old", "ann", 9), row("2026-02-28", "", "", 5), row("2026-02-28", "vision", "ann", 1), row("2026-03-01", "vision", "ben", 2), row("2026-03-01", "a,b", "ann", 8)], days);
  assert.equal(rows.length, 4);
  assert.deepEqual(by_day(rows, days, "gpu_hours"), { names: ["a,b", "vision"], others: false, rows: [{ day: "2026-02-28", values: [0, 1, 5] }, { day: "2026-03-01", values: [8, 2, 0] }] });
  assert.deepEqual(by_owner(rows).map((one) => [one.project, one.owner, one.gpu_hours]), [["vision", "ann", 1], ["vision", "ben", 2], ["a,b", "ann", 8], ["", "", 5]]);
  assert.equal(total_of(rows).cpu_hours, 32);
  const many = by_day(Array.from({ length: 9 }, (_, i) => row("2026-03-01", "p" + i, "ann", 10 - i)), days, "gpu_hours");
  assert.deepEqual([many.names.length, many.others, many.rows[1].values], [6, true, [10, 9, 8, 7, 6, 5, 4 + 3 + 2, 0]]);
  assert.equal(usage_csv(rows).split("\n")[3], '2026-03-01,vision,ben,4.000000,2.000000,0.000000,1');
  assert.ok(usage_csv(rows).includes('"a,b",ann'));
});

test("the settings as YAML have the reports", () => {
  const reports = { notifications: [{ name: "ops", kind: "feishu", url: "https://open.feishu.cn/***", secret: "***", addresses: [], events: ["failed"], projects: [] }], mail: { host: "h", port: 587, security: "starttls", user: "", password: "", from: "a@b" } };
  assert.ok(settings_yaml({ ...settings, ...reports }).includes(`notifications:
  ops:
    kind: feishu
    url: "https://open.feishu.cn/***"
    secret: "***"
    events: [failed]
mail:
  host: h
  port: 587
  security: starttls
  from: a@b
version: 7
`), settings_yaml({ ...settings, ...reports }));
});

test("texts that YAML reads as something else are quoted, others are not", () => {
  for (const text of ["train.py", "a-b_c", "/opt/x", "requirements.txt", "~/data", "a=b"]) assert.equal(yaml_text(text), text);
  for (const text of ["", "yes", "No", "null", "~", "12", "1e3", "0x1f", "-", "- a", "a: b", "a:", "# b", "a #b", "'x'", "[a]", "{a}", "*x", "&x", "!x", "%x", "@x", "1.5", ".5", "12:30", "a b"]) assert.equal(yaml_text(text), JSON.stringify(text), text);
  assert.equal(yaml_list(["a", "b,c", "7"]), '[a, "b,c", "7"]');
});

test("texts of several lines keep them; those that a block cannot hold are quoted", () => {
  assert.equal(yaml_value("a\n  b\n\nc: 1", 1), "|-\n  a\n    b\n\n  c: 1");
  for (const text of [" a\nb", "a\nb\n", "a\n \nb", "a\tb\u0007\nc"]) assert.equal(yaml_value(text, 1), JSON.stringify(text));
});

test("settings of the queue as the file that --apply takes", () => {
  assert.equal(settings_yaml(settings), `preemption: urgent
pools:
  a100:
    projects: [vision, language]
    note: "until: May"
  old: {}
projects:
  vision:
    weight: 2.5
    limits:
      gpus: 4
      licence: 0.5
      memory: 16GiB
    urgent_jobs: 2
environments:
  cuda12:
    source: /opt/conda/envs/cuda12
version: 7
`);
  assert.equal(settings_yaml({ pools: [], projects: [], environments: [], preemption: "", version: 0 }), "preemption: never\nversion: 0\n");
});

test("an entry of the settings is replaced in its place, added at the end, or removed; the others stay", () => {
  const names = (one: QueueSettings) => one.pools.map((pool) => pool.name).join();
  assert.equal(names(with_entry(settings, "pools", "a100", { name: "a100", projects: [], note: "" })), "a100,old");
  assert.equal(names(with_entry(settings, "pools", "", { name: "new", projects: [], note: "" })), "a100,old,new");
  assert.equal(names(with_entry(settings, "pools", "a100", null)), "old");
  const shared = with_entry({ ...settings, projects: [{ name: "vision", weight: 1, limits: {}, urgent_jobs: 0, note: "", members: ["mei"] }], maxima: { restarts: 2, resumes: 0 }, private_jobs: true },
    "projects", "vision", { name: "vision", weight: 2, limits: {}, urgent_jobs: 0, note: "" });
  assert.deepEqual(shared.projects[0].members, ["mei"], "what the form does not have is kept");
  assert.ok(/members: \[mei\][\s\S]*maxima:\n  restarts: 2\nprivate_jobs: true\n/.test(settings_yaml(shared)));
  assert.equal(names(with_entry(settings, "pools", "unknown", null)), "a100,old");
  assert.equal(with_entry(settings, "pools", "a100", null).version, 7);
  assert.equal(settings.pools.length, 2);
});

test("a form of an entry gives back what it was filled with", () => {
  for (const list of ["pools", "projects", "environments"] as const) for (const entry of settings[list]) assert.deepEqual(entry_of(list, texts_of(list, entry, "")), entry);
  assert.deepEqual(entry_of("projects", texts_of("projects", undefined, "nlp")), { name: "nlp", note: "", weight: 1, urgent_jobs: 0, limits: {} });
  assert.deepEqual(names_of(" a, b,,a ，c d"), ["a", "b", "c d"]);
});

test("limits: empty is none, 0 is one, custom resources are NAME=NUMBER", () => {
  assert.deepEqual(limits_of_texts({ cpus: "", gpus: "0", memory: "1.5", others: "licence = 2,disk=0.5" }), { gpus: 0, memory: 1.5 * 2 ** 30, licence: 2, disk: 0.5 });
  for (const others of ["licence", "licence=", "licence=x", "=2", "a=1.2.3"]) assert.equal(limits_of_texts({ cpus: "", gpus: "", memory: "", others }), null, others);
  assert.deepEqual(texts_of_limits({ cpus: 8, memory: 2 ** 31, b: 1, a: 2 }), { cpus: "8", gpus: "", memory: "2", others: "a=2, b=1" });
});

test("a refusal of settings is shown at its field", () => {
  const fields: [string, string][] = [
    ["projects: vision: weight: expected above 0 to 1000000, got -1", "weight"],
    ["projects: vision: limits: expected the name of a resource and an amount of 0 or more, got gpus: -1", "gpus"],
    ["projects: vision: limits: expected the name of a resource and an amount of 0 or more, got licence: -1", "others"],
    ["projects: vision: urgent_jobs: expected 0 (no limit) or more, got -3", "urgent_jobs"],
    ["settings.projects[0].urgent_jobs: expected a whole number below 2^31, got 1.5", "urgent_jobs"],
    ["environments: cuda12: source: expected host, a path or an image such as /opt/conda/envs/cuda12, got \"x\"", "source"],
    ["pools: a100 is given twice; remove one", "name"],
    ["environments: expected a name of letters, digits, - and _ other than host, got \"host\"", "name"],
    ["preemption: expected never, urgent or very_urgent, got \"x\"", "preemption"],
    ["version: the settings are at version 4, these were made from version 3; get the present ones", ""],
    ["this is for role operator; you have role viewer", ""],
  ];
  for (const [message, field] of fields) assert.equal(field_of_setting(message), field, message);
  assert.ok(is_conflict(fields[9][0]) && !is_conflict(fields[0][0]));
});

test("a refusal of a job is shown at its field", () => {
  const fields: [string, string | null][] = [
    ['pool: there is no pool "x"; the pools are default', "pool"], ['environment: there is no environment "x"', "environment"], ['mount "a:b": the source must be an absolute path', "mounts"], ['env: expected NAME=VALUE, got "=x"', "env"],
    ["resources.cpus: expected a number of at least 0, got -1", "cpus"], ["resources.memory: expected bytes of at least 0, got -4", "memory"], ["batch_size: expected 1 to 10000, got 100000", "array"], ["duration_s: expected 0 to 31622400, got -1", "minutes"],
    ["max_restarts: expected 0 to 1000, got -1", "restarts"], ["spec.nodes: expected a whole number below 2^31", "nodes"], ["output: expected an absolute path on the nodes, got rel", "output"], ["the job can never start: it needs 100 CPUs", null], ["head: it is away", null],
  ];
  for (const [message, field] of fields) assert.equal(field_of(message), field, message);
});

test("the form of a job leaves out what is empty; an array names its jobs as the command line does", () => {
  assert.deepEqual(variables_of("A=1\n\n B = x=y\nnonsense"), { A: "1", B: " x=y", "": "nonsense" });
  const form = { ...kForm, command: "./run", mounts: "/a:/a\n\n /b:/b:ro ", env: "A=1", isolated: "1", minutes: "1.5", memory: "2", array: "3", output: "/out" };
  const spec = spec_of(form);
  assert.deepEqual([spec.mounts, spec.env, spec.isolated, spec.duration_s, spec.memory_bytes, spec.name, spec.setup], [["/a:/a", "/b:/b:ro"], { A: "1" }, true, 90, 2 ** 31, undefined, undefined]);
  const task = task_of(form, 2, "1f");
  assert.deepEqual([task.name, task.batch, task.batch_index, task.batch_size, task.output], ["batch-1f-2", "batch-1f", 2, 3, "/out/batch-1f-2"]);
  assert.equal(task_of({ ...form, name: "sweep" }, 0, "1f").batch, "sweep");
});

test("a job as YAML has what is not the default", () => {
  assert.equal(job_yaml(spec_of({ ...kForm, command: "make" })), "command: make\n");
  assert.equal(job_yaml(spec_of({ ...kForm, command: "cd x\nmake", gpus: "2", minutes: "90", memory: "16", env: "A=1\nB=x: y", mounts: "/a:/b", pool: "a100", stop_signal: "USR1" })),
    'command: |-\n  cd x\n  make\npool: a100\nstop_signal: USR1\ngpus: 2\nmemory: 16GiB\nduration: 5400s\nmounts:\n  - /a:/b\nenv:\n  A: "1"\n  B: "x: y"\n');
  assert.equal(job_yaml({ command: ["python3", "a b.py"] }), 'command: [python3, "a b.py"]\n');
});

test("a job's labels, resources, policies and times are in what is sent and in its YAML", () => {
  const form = {
    ...kForm, command: "make", nodes: "4", min_nodes: "2", grow: "1", share_nodes: "1", labels: "zone=a, disk=ssd", node_names: "heron，osprey", resources: "licence=2", shm: "8", teardown: "rm -rf /tmp/x", max_resumes: "3", debug: "90", graceful: "60",
    log_policies: "notify: loss is nan\nmove CUDA error: (.*)", access: "none", note: "of mei", notify: "mei@example.org, ops", parameter_servers: "2",
  };
  const spec = spec_of(form);
  assert.deepEqual([spec.min_nodes, spec.grow, spec.labels, spec.node_names, spec.resources, spec.shm_bytes, spec.max_resumes, spec.debug_s, spec.graceful_s], [2, true, { zone: "a", disk: "ssd" }, ["heron", "osprey"], { licence: 2 }, 2 ** 33, 3, 5400, 60]);
  assert.deepEqual([spec.log_policies, spec.access, spec.notify, spec.parameter_servers], [[{ pattern: "loss is nan", action: "notify" }, { pattern: "CUDA error: (.*)", action: "move" }], "none", ["mei@example.org", "ops"], undefined]);
  assert.equal(spec_of({ ...form, mode: "tensorflow" }).parameter_servers, 2);
  assert.equal(job_yaml(spec), `command: make
access: none
note: "of mei"
teardown: "rm -rf /tmp/x"
nodes: 4
min_nodes: 2
grow: true
share_nodes: true
shm: 8GiB
graceful: 60s
debug: 5400s
max_resumes: 3
labels:
  zone: a
  disk: ssd
resources:
  licence: 2
node_names: [heron, osprey]
notify: ["mei@example.org", ops]
log_policies:
  - pattern: "loss is nan"
    action: notify
  - pattern: "CUDA error: (.*)"
    action: move
`);
});

test("alternatives differ from the form as those of the command line do", () => {
  const form = { ...kForm, command: "make", gpus: "8", alternatives: "gpus=2, pool=old,memory=512MiB\n\nnodes=2-4,duration=1h30min,max_restarts=1" };
  const jobs = jobs_of(form, "1f");
  assert.deepEqual([jobs.kind, jobs.size, jobs.line(0), jobs.line(1)], ["alternatives", 3, "", "gpus=2, pool=old,memory=512MiB"]);
  const [first, second, third] = [0, 1, 2].map(jobs.spec);
  assert.deepEqual([first.gpus, first.pool, first.one_of], [8, "default", "1f"]);
  assert.deepEqual([second.gpus, second.pool, second.memory_bytes, second.one_of, second.nodes], [2, "old", 2 ** 29, "1f", 1]);
  assert.deepEqual([third.gpus, third.nodes, third.min_nodes, third.duration_s, third.max_restarts], [8, 4, 2, 5400, 1]);
  assert.ok(job_yaml(spec_of(form), ["gpus=2, pool=old", "environment=a b"]).endsWith('gpus: 8\nalternatives:\n  - {}\n  - {gpus: 2, pool: old}\n  - {environment: "a b"}\n'));
  assert.deepEqual([jobs_of({ ...form, alternatives: "" }, "1f").kind, jobs_of({ ...form, alternatives: "", array: "4" }, "1f").size], ["one", 4]);
});

test("what the form cannot send is said at its field", () => {
  assert.equal(wrong_of(kForm), null);
  assert.equal(wrong_of({ ...kForm, labels: "zone" })?.at, "labels");
  assert.equal(wrong_of({ ...kForm, resources: "licence=much" })?.at, "resources");
  for (const [line, what] of [["gpus=2,gpu=1", "gpu=1"], ["memory=16 apples", "memory=16 apples"], ["duration=4", "duration=4"], ["cpus=-1", "cpus=-1"], ["pool", "pool"]]) assert.deepEqual(wrong_of({ ...kForm, alternatives: line }), { at: "alternatives", key: "job.alternatives.form", what });
  assert.equal(wrong_of({ ...kForm, alternatives: "gpus=2", array: "3" })?.key, "job.alternatives.array");
  assert.equal(wrong_of({ ...kForm, alternatives: "gpus=2" }), null);
  assert.deepEqual(["log_policies, number 1: action: expected …", "shm_bytes: expected …", "resources.custom: \"a b\" is no name", "min_nodes: expected …"].map(field_of), ["log_policies", "shm", "resources", "min_nodes"]);
});

const job = (id: number, more: { batch?: string; state?: string; priority?: string; position?: number; stopping?: boolean } = {}) =>
  ({ id: `job-${id}`, spec: { batch: more.batch ?? "", priority: more.priority ?? "normal" }, state: more.state ?? "queued", stopping: more.stopping ?? false, position: more.position ?? 0 }) as Job;

test("jobs of a batch are one row in the place of its first job", () => {
  const jobs = [job(5, { batch: "b" }), job(4), job(3, { batch: "b", state: "running" }), job(2, { batch: "c" }), job(1, { batch: "b" })];
  assert.deepEqual(rows_of(jobs, false).map((row) => [row.id, row.jobs.map((one) => one.id).join()]), [["batch b", "job-5,job-3,job-1"], ["job-4", "job-4"], ["batch c", "job-2"]]);
  assert.deepEqual(rows_of(jobs, true).map((row) => row.id), jobs.map((one) => one.id));
  assert.deepEqual(counts_of([...jobs, job(6, { state: "running", stopping: true })]), [["running", 1], ["stopping", 1], ["queued", 4]]);
});

test("queued jobs stand by priority in the order of the queue", () => {
  const groups = by_priority([job(1, { position: 3 }), job(2, { position: 1, priority: "urgent" }), job(3, { position: 2 })]);
  assert.deepEqual([groups.very_urgent.length, groups.urgent.map((one) => one.id), groups.normal.map((one) => one.id)], [0, ["job-2"], ["job-3", "job-1"]]);
});
