import assert from "node:assert/strict";
import { test } from "node:test";
import { zh } from "../src/i18n/zh";
import { lines_in, said, says, type Why } from "../src/i18n/reason";

const words: Record<string, string> = zh;
const say = (why: Why) => said(why, (of) => words["word." + of] ?? of);

test("a reason is said in Chinese from its data", () => {
  const in_use: Why = ["waits.in_use_only", { amounts: { gpus: 2 } }, "8", "8"];
  assert.equal(say(["joined.clauses", in_use, ["waits.behind_earlier", 3, ["waits.first_is", ["name.tasks", "1a2b3c4d"]]]]), "等待 2 GPU：唯一的节点已用 8，共 8；前面有 3 个更早的请求：最前面的是任务（1a2b3c4d）");
  assert.equal(say(["waits.together", { amounts: { cpus: 0.5, licence: 1, memory: 2 * 1024 ** 3 } }]), "等待单个节点同时空出 0.5 CPU，1 licence，2 GiB 内存");
  assert.equal(say(["explain.in_use", { amounts: {} }, { amounts: { cpus: 4 } }, 0]), "已用：无，共 4 CPU；0 个 Actor");
  assert.equal(say(["waits.no_other", ["waits.node_is", "heron", { word: "suspect (silent)" }]]), "节点 heron 失去响应（静默）；其他节点都容不下");
  assert.equal(say(["lacks.most", { amounts: { gpus: 4 } }, [], "gpu-1", "1"]), "要求 4 GPU；最大的节点（gpu-1）有 1");
});

test("what became of a trial is said from its data, user code in its own words", () => {
  const rank: Why = ["joined.clauses", ["decision.rank", 2, 5, "3", "0.9741"], ["decision.best", "0.9815"]];
  assert.equal(say(["trial.others_better", ["decision.by", rank, "ASHA"]]), "表现靠后：第 3 步 0.9741，排名 2/5；仅第 1 名（0.9815）晋级（ASHA）");
  assert.equal(say(["trial.goes_on", 4, "std::runtime_error: loss is nan"]), "将从第 4 步继续，此前：std::runtime_error: loss is nan");
  assert.equal(say(["decision.resized", { amounts: { cpus: 2 } }, { amounts: { cpus: 1 } }, 3, { amounts: { cpus: 8 } }]), "由 1 CPU 改为 2 CPU，3 个试验共享 8 CPU");
});

test("the number chooses the form", () => {
  assert.equal(say(["waits.labels", "zone=a", 1]), "节点标签 zone=a：没有节点符合");
  assert.equal(say(["waits.labels", "zone=a, gpu", 2]), "节点标签 zone=a, gpu：没有节点同时符合");
});

test("words of user code stay; a sentence of a newer head is not said", () => {
  assert.equal(say(["joined.because", ["ended.threw"], "std::runtime_error: {0} no file"]), "构造函数抛出异常：std::runtime_error: {0} no file");
  assert.equal(say(["joined.because", ["ended.threw"], ["of.a.newer.head", 1]]), null);
  assert.equal(say(["toString"]), null);
});

test("what a reason says is known from its keys, and how many lines from its texts", () => {
  const killed: Why = ["joined.because", ["ended.killed"], ["cause.by", "t-7f21c0"]];
  assert.ok(says(killed, "ended.killed") && says(killed, "cause.by") && !says(killed, "ended.exited") && !says(undefined, "ended.killed"));
  assert.equal(lines_in(["joined.because", ["ended.threw"], "a\nb\nc"]), 3);
});
