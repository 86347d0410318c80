import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { kReasonsZh, reason_zh } from "../src/i18n/reasons";

const kWords: Record<string, string> = { alive: "在线", pending: "等待中", starting: "启动中", draining: "排空中", ready: "就绪", strict_pack: "严格集中" };
const word = (of: string) => kWords[of] ?? of;
const zh = (text: string) => reason_zh(text, word);

// Where the sentences are made: file, and the functions whose texts people see as a reason.
const kSources: [string, string[]][] = [
  ["head/placement_reasons.cc", ["lacking_everywhere", "capacity_reason", "queue_reason", "explain"]],
  ["head/placement_groups.cc", ["group_reason"]],
  ["head/core_groups.cc", ["waiting_in_group_reason"]],
  ["head/core_actors.cc", ["waiting_reason"]],
  ["head/core_queries.cc", ["name_of", "explain_trial", "why_there", "history_of", "explain_group", "explain_node", "explain"]],
  ["head/node_table.cc", ["why_not_placeable"]],
  ["head/wire.cc", ["what_ended_it"]],
  ["runtime/actor/death_cause.cc", ["describe", "death_error"]],
  ["worker/exit_cause.cc", ["hint_of_signal", "cause_of_exit"]],
  ["tune/decision_record.cc", ["add_rank", "add_cutoff", "to_text"]],
  ["tune/determined_run.cc", ["words_of"]],
];
// Files where what is seen stands in calls or fields of this form.
const kCalls: [string, RegExp][] = [
  ...["core", "core_actors", "core_clients", "core_groups", "core_nodes"].map((name): [string, RegExp] => [`head/${name}.cc`, /make_cause\(([^;]*);/g]),
  ["worker/worker_core.cc", /make_cause\(([^;]*);/g],
  ...["core", "core_clients", "core_nodes"].map((name): [string, RegExp] => [`head/${name}.cc`, /(?:give_up|driver_gone)\(([^;]*);/g]),
  ["tune/stopper.cc", /Outcome\{([^;]*);/g],
  ...["hyperband", "median_stopping", "pbt", "percentile", "wilcoxon", "resource_changing"].map((name): [string, RegExp] => [`tune/${name}_scheduler.cc`, /\.?detail =([^;]*?)(?:\}\)|;)/g]),
  ...["trial_loop_moves", "trial_loop_clones"].map((name): [string, RegExp] => [`tune/${name}.cc`, /trial\.reason =([^;]*);/g]),
  ["tune/trial_loop_events.cc", /(?:stop_all\(|Verdict\{|TrialStatus::kStopped,)([^;]*);/g],
];

// Texts of those functions that are no reason: next steps of a refusal, names, labels of other texts.
const kOther = [/volador list nodes/, /set wait_if_infeasible/, /^yes$/, /^memory$/, /^gpus$/, /the actor of this trial is forgotten/, /^passed$|^stopped$|^any number$/, /^dead$/, /unknown$/, /^SIG/, /^cpus$/,
  /says nothing/, /^made$/, /^ \(pid/, /^live$/, /^x$/, /cannot be read/];

const source = (file: string) => readFileSync("../../" + file, "utf8");
// From its head to the brace that ends it at the left edge.
const body_of = (text: string, name: string): string => {
  const found = [...text.matchAll(new RegExp(`^[\\w:<>&*, ]*\\b${name}\\([^;]*?\\{\\n`, "gm"))];
  assert.ok(found.length > 0, `${name}: the function is not there any more`);
  return found.map((one) => text.slice(one.index, text.indexOf("\n}", one.index))).join("\n");
};
const literals = (code: string) => [...code.replace(/^\s*\/\/.*$/gm, "").replace(/"\s*\n\s*"/g, "").matchAll(/"((?:[^"\\]|\\.)*)"/g)].map((one) => one[1].replace(/\\"/g, '"').replace(/\\n/g, "\n"));

// Both sides with every place as "{}", so that a piece of a sentence can be looked for.
const even = (text: string) => text.replace(/\{[^}]*\}|\(s\)/g, "{}").replace(/\{\}s?/g, "{}");

test("every clause of a reason has Chinese words", () => {
  const known = [...kReasonsZh.map(([english]) => even(english)), ...Object.keys(kWords)];
  // A piece of a sentence, without what only joins it to others, stands in a clause.
  const is_known = (piece: string): boolean => {
    const words = piece.replace(/^(\s|\{\}|[,;:.(])+/, "").replace(/(\s|\{\}|[,;:.)])+$/, "");
    const form = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("\\{\\}", ".*"));
    return !/[a-z]{2}/.test(words) || known.some((one) => form.test(one));
  };
  const missing: string[] = [];
  const look = (file: string, code: string) => {
    for (const literal of literals(code)) {
      if (kOther.some((other) => other.test(literal))) continue;
      const parts = even(literal).split(/; |\n/).filter((part) => !is_known(part)).flatMap((part) => part.split(": "));
      if (!parts.every(is_known)) missing.push(`${file}: ${literal}`);
    }
  };
  for (const [file, functions] of kSources) for (const name of functions) look(file, body_of(source(file), name));
  for (const [file, form] of kCalls) {
    const calls = [...source(file).matchAll(form)];
    assert.ok(calls.length > 0, file);
    for (const [, code] of calls) look(file, code);
  }
  assert.deepEqual(missing, []);
});

test("the Chinese clauses hold Chinese and every place of the English ones", () => {
  for (const [english, chinese] of kReasonsZh) {
    assert.ok(/[\u4e00-\u9fff：（]/.test(chinese), english);
    const places = (english.match(/\{\*?\}/g) ?? []).length;
    assert.deepEqual([...chinese.matchAll(/\{(\d+)\}/g)].map((one) => +one[1]).sort((a, b) => a - b), Array.from({ length: places }, (_, at) => at + 1), english);
  }
});

test("sentences put together from clauses", () => {
  assert.equal(zh("others do better: rank 2 of 5 at step 3 with 0.9741; the best goes on, with 0.9815 (ASHA)"), "表现靠后：第 3 步 0.9741，排名 2/5；仅第 1 名（0.9815）晋级（ASHA）");
  assert.equal(zh("waits for gpus 2: 8 of 8 in use on the only node; behind 3 earlier requests, the first is tasks (1a2b3c4d)"),
    "等待 2 GPU：唯一的节点已用 8，共 8；前面有 3 个更早的请求，最前面的是任务（1a2b3c4d）");
  assert.equal(zh("node heron reserves cpus 2, gpus 1 for placement group trainers (52eceb10), which comes first; behind 1 request of higher priority, actor hits (1a2b3c4d, app::Counter)"),
    "节点 heron 已将 2 CPU，1 GPU 预留给排在前面的放置组 trainers (52eceb10)；前面有 1 个更高优先级的请求： Actor hits（1a2b3c4d，app::Counter）");
  assert.equal(zh("node heron reserves gpus 1 for trial lr 0.1 of digits (1a2b3c4d), which comes first; node heron reserves cpus 1 for it"),
    "节点 heron 已将 1 GPU 预留给排在前面的试验 lr 0.1（digits，1a2b3c4d）；节点 heron 已为它预留 1 CPU");
  assert.equal(zh("waits for cpus 4: at most 2 free on one node (b); 6 of 8 in use on 2 nodes"), "等待 4 CPU：单个节点最多空闲 2（b）；2 个节点已用 6，共 8");
  assert.equal(zh("asks for gpus 4; the largest node (gpu-1) has 1: waits for a larger node"), "要求 4 GPU；最大的节点（gpu-1）有 1：等待更大的节点加入");
  assert.equal(zh("killed by signal 9 (SIGKILL) on node b: not by Volador: somebody sent it, or the kernel was out of memory (look at `dmesg`)"),
    "被信号 9（SIGKILL）终止（节点 b）：并非 Volador 所为：由他人发送，或内核内存耗尽（请看 `dmesg`）");
  assert.equal(zh("others do better: rank 3 of 9 at step 4 with 0.81; the cut-off is 0.9 (ASHA)"), "表现靠后：第 4 步 0.81，排名 3/9；晋级线 0.9（ASHA）");
  assert.equal(zh("lost with its node: node b: it did not come back after the restart of the head"), "随节点丢失：节点 b：头节点重启后没有返回");
  assert.equal(zh("to go on from step 3 after: trial ab 12 on node b died: it was killed on request: node b stops: SIGTERM (pid 7)"),
    "将从第 3 步继续，此前：trial ab 12（节点 b）终止：按请求终止：节点 b 停止：SIGTERM (pid 7)");
  assert.equal(zh("bundle 1 of placement group x is on node b, which is draining"), "放置组 x 的资源束 1 在节点 b 上，该节点排空中");
});

test("what explain says of an actor, line by line; what a process wrote stays", () => {
  const english = "actor 1f2e (Trial): alive on node a, epoch 1\n  restarts: 1 of 3; the last death: exited with code 3 on node a\n  asks for: cpus 1\n  what it went through:\n" +
    "          made  pending\n       +0.01 s  starting on node a, epoch 1: the fullest node that it fits on\n       +0.30 s  alive on node a, epoch 1\n  last lines of its stderr:\nended\n";
  assert.equal(zh(english), "Actor 1f2e（Trial）：运行中，节点 a，第 1 代\n  重启次数：1，上限 3；最近一次结束：以退出码 3 结束（节点 a）\n  要求：1 CPU\n  经历：\n" +
    "          创建  等待中\n       +0.01 s  启动中，节点 a，第 1 代：能容纳它且占用率最高的节点\n       +0.30 s  运行中，节点 a，第 1 代\n  标准错误的最后几行：\nended\n");
});

test("what nobody knows stays as it was said", () => {
  for (const text of ["", "std::runtime_error: no such file", "my own words; and more", "step 3: loss is nan"]) assert.equal(zh(text), text);
});

test("a clause keeps its words when another clause follows", () => {
  const behind = "; behind 1 request of higher priority, tasks (1a2b3c4d)";
  const broken: string[] = [];
  for (const [english] of kReasonsZh) {
    if (/last lines of its|the last it wrote/.test(english)) continue;  // Heads of lines that follow.
    const alone = english.replace(/\(s\)/g, "").replace(/\{\*\}/g, "ended").replace(/\{\}/g, "7");
    const rule = / \(([^()]+)\)$/.exec(zh(alone)) ? "" : zh(alone);
    if (rule && zh(alone + behind) !== rule + "；前面有 1 个更高优先级的请求：任务（1a2b3c4d）") broken.push(alone + ": " + zh(alone + behind));
  }
  assert.deepEqual(broken, []);
  assert.deepEqual(kReasonsZh.filter(([english]) => english.includes("; ")), [], "clauses do not reach over \"; \"");
  assert.equal(zh("node heron reserves gpus 1 for it; behind 1 request of higher priority, tasks (1a2b3c4d)"), zh("node heron reserves gpus 1 for it") + "；前面有 1 个更高优先级的请求：任务（1a2b3c4d）");
  assert.equal(zh("waits for placement group trainers, which has no place yet"), "等待 放置组 trainers 获得位置");
});
