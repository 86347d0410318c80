import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { kReasonsZh, reason_zh } from "../src/i18n/reasons";

const kWords: Record<string, string> = { alive: "在线", pending: "等待中", starting: "启动中", draining: "排空中", ready: "就绪", strict_pack: "严格集中" };
const word = (of: string) => kWords[of] ?? of;
const zh = (text: string) => reason_zh(text, word);

// Where the sentences are made: file, and the functions whose texts people see as a reason.
const kSources: [string, string[]][] = [
  ["tune/decision_record.cc", ["add_rank", "add_cutoff", "to_text"]],
  ["tune/determined_run.cc", ["words_of"]],
];
// Files where what is seen stands in calls or fields of this form.
const kCalls: [string, RegExp][] = [
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
  assert.equal(zh("others do better: rank 3 of 9 at step 4 with 0.81; the cut-off is 0.9 (ASHA)"), "表现靠后：第 4 步 0.81，排名 3/9；晋级线 0.9（ASHA）");
});

test("what nobody knows stays as it was said", () => {
  for (const text of ["", "std::runtime_error: no such file", "my own words; and more", "step 3: loss is nan"]) assert.equal(zh(text), text);
});

