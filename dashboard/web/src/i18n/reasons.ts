// Why things are as they are, in Chinese. Head, workers and the trial loop say it in English sentences put together from clauses; these
// are the clauses. In the English ones `{}` is what varies (a name, a number: nothing with "; " or ": " in it), `{*}` a further clause, `(s)` one or many; in the Chinese ones `{1}`, `{2}` …
// stand for them in order. What is in no clause stays as it was said (errors of user code, names, numbers). A test compares this list
// with the sources of those sentences.
export const kReasonsZh: readonly (readonly [string, string])[] = [
  // Trials (tune/): the scheduler's decisions, stop conditions and the trial loop.
  ["others do better: {*}", "表现靠后：{1}"],
  ["others do better at step {} ({})", "第 {1} 步表现靠后（{2}）"],
  ["others do better at step {}", "第 {1} 步表现靠后"],
  ["rank {} of {} at step {} of bracket {} with {}", "分组 {4} 第 {3} 步 {5}，排名 {1}/{2}"],
  ["rank {} of {} at step {} with {}", "第 {3} 步 {4}，排名 {1}/{2}"],
  ["at step {} of bracket {} with {}", "分组 {2} 第 {1} 步 {3}"],
  ["at step {} with {}", "第 {1} 步 {2}"],
  ["the best goes on, with {}", "仅第 1 名（{1}）晋级"],
  ["the best {} go on, from {}", "前 {1} 名（{2} 起）晋级"],
  ["the cut-off is {}", "晋级线 {1}"],
  ["it goes on as a copy of trial {}", "它作为试验 {1} 的副本继续"],
  ["{} steps done", "已完成 {1} 步"],
  ["it ran for {} s", "已运行 {1} 秒"],
  ["the stop function said so", "由停止函数决定"],
  ["the function of stop_all_when said so at trial {}", "由 stop_all_when 的函数在试验 {1} 时决定"],
  ["{} {} reached {}", "{1} {2} 达到 {3}"],
  ["{} {} at step {} {} times in a row", "{1} 在第 {3} 步为 {2}，连续 {4} 次"],
  ["{} {} at step {}", "{1} 在第 {3} 步为 {2}"],
  ["the best {} values of {} spread {}, at most {}", "{2} 最好的 {1} 个值的离散为 {3}，不超过 {4}"],
  ["{} spreads {} over {} results, less than {}", "{1} 在 {3} 个结果中的离散为 {2}，小于 {4}"],
  ["it waits at step {} with {} for {} other(s) of bracket {}", "它在第 {1} 步等待，值 {2}，还等分组 {4} 的另外 {3} 个"],
  ["it waits at step {} with {} until bracket {} is full", "它在第 {1} 步等待，值 {2}，直到分组 {3} 满员"],
  ["it waits at step {} with {} for the others", "它在第 {1} 步等待其他试验，值 {2}"],
  ["{} of {} are there", "已到 {1}/{2}"],
  ["others wait for a place at step {}", "其他试验在第 {1} 步等待空位"],
  ["it waits at step {} to be promoted", "它在第 {1} 步等待晋级"],
  ["it goes on to step {}", "它继续到第 {1} 步"],
  ["its best value up to step {} is {}, worse than {}, the median of the {} others' averages", "到第 {1} 步的最佳值为 {2}，差于其他 {4} 个试验平均值的中位数 {3}"],
  ["no new trial needs its place", "没有新试验需要它的位置"],
  ["it reported no number up to step {}", "到第 {1} 步没有报告数值"],
  ["its best value up to step {} is {}, percentile {} of {} completed trials there is {}", "到第 {1} 步的最佳值为 {2}，{4} 个已完成试验在此的第 {3} 百分位为 {5}"],
  ["p {} that it is no worse than trial {} on {} instances", "在 {3} 个实例上不差于试验 {2} 的 p 值为 {1}"],
  ["their means are {} and {}", "两者均值为 {1} 和 {2}"],
  ["{} instead of {}, with {} trials in {}", "由 {2} 改为 {1}，{3} 个试验共享 {4}"],
  ["paused after step {}: {*}", "在第 {1} 步之后暂停：{2}"],
  ["paused after step {}", "在第 {1} 步之后暂停"],
  ["paused on request after step {}", "按请求在第 {1} 步之后暂停"],
  ["paused on request before its first step", "按请求在第一步之前暂停"],
  ["the experiment is paused", "实验已暂停"],
  ["resumed on request", "按请求恢复"],
  ["to go on from step {} after: {*}", "将从第 {1} 步继续，此前：{2}"],
  ["tried again {} s after: {*}", "{1} 秒后重试，此前：{2}"],
  ["to go on from step {}: its driver was started again", "将从第 {1} 步继续：其 Driver 程序已重新启动"],
  ["a copy of trial {} at step {}", "试验 {1} 在第 {2} 步的副本"],
  ["it returned", "函数已返回"],
  ["it is done", "它报告已完成"],
  ["its actor ended", "其 Actor 已结束"],
  ["interrupted", "被中断"],
  ["stopped on request", "按请求停止"],
  ["step {} is as far as a trial runs ({})", "第 {1} 步是试验的上限（{2}）"],
  // What ended the actor of a trial (runtime/actor/death_cause.cc).
  ["{} on node {} died: {*}", "{1}（节点 {2}）终止：{3}"],
  ["{} died: {*}", "{1} 终止：{2}"],
  ["the last it wrote to stderr:", "它最后写到标准错误的内容："],
  ["its process exited with code {}", "其进程以退出码 {1} 结束"],
  ["its process was ended by signal {} ({})", "其进程被信号 {1}（{2}）终止"],
  ["it was killed on request", "按请求终止"],
  ["its node was lost", "失去其节点"],
  ["node {} was lost", "失去节点 {1}"],
  ["its driver ended", "其 Driver 程序已结束"],
  ["its host could not be started", "其进程无法启动"],
  ["its node was away for too long and lost its lease", "其节点离开过久，失去租约"],
  ["it ran out of memory", "内存耗尽"],
  ["its health check did not pass", "健康检查未通过"],
];

// A clause made ready: its pattern, and which of its places are clauses themselves.
interface Clause {
  pattern: RegExp;
  clauses: boolean[];
  zh: string;
}

const made = ([english, zh]: readonly [string, string]): Clause => {
  const clauses: boolean[] = [];
  const source = english.split(/(\{\*?\}|\(s\))/).map((part) => {
    if (part === "(s)") return "s?";
    if (part === "{}" || part === "{*}") {
      clauses.push(part === "{*}");
      return part === "{*}" ? "(.+?)" : "((?:(?!; |: ).)+?)";
    }
    return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  });
  return { pattern: new RegExp("^" + source.join("") + "$"), clauses, zh };
};

let clauses: Clause[] | undefined;

// The words of one line; `word` says a state ("running") in Chinese. Unchanged where no clause is known.
function clause_zh(text: string, word: (of: string) => string, depth = 0): string {
  const known = word(text);
  if (known !== text || depth > 6) return known;
  clauses ??= kReasonsZh.map(made);
  // Clauses beside "; " first: a place of a pattern would reach over it.
  const parts = parts_of(text);
  if (parts.length > 1) {
    const said = with_rule(text, (inner) => {
      const words = parts_of(inner).map((part) => [part, clause_zh(part, word, depth + 1)]);
      if (words[0][0] === words[0][1]) return inner;
      return words.reduce((sum, [part, now], i) => (i === 0 ? now : sum + (now !== part && words[i - 1][0] !== words[i - 1][1] ? "；" : "; ") + now), "");
    });
    if (said !== text) return said;
  }
  // Sentences are rows of clauses: the longest that are known as they stand, then those beside ": " and ", ".
  for (const one of clauses) {
    const found = filled(one, text, word, depth);
    if (found !== null) return found;
  }
  for (const [between, joined] of [[": ", "："], [", ", "，"]]) {
    for (let at = text.indexOf(between); at > 0; at = text.indexOf(between, at + 1)) {
      const before = text.slice(0, at);
      const first = clause_zh(before, word, depth + 1);
      if (first !== before) return first + joined + clause_zh(text.slice(at + between.length), word, depth + 1);
    }
  }
  return with_rule(text, (inner) => (inner === text ? text : clause_zh(inner, word, depth + 1)));
}

// "… (ASHA)": the rule that decided stands behind all clauses. An id in parentheses ("tasks (1a2b3c4d)") is part of its clause.
function with_rule(text: string, say: (inner: string) => string): string {
  const rule = /^(.+) \((?![0-9a-f]{8}[,)])([^()]+)\)$/.exec(text);
  if (!rule) return say(text);
  const said = say(rule[1]);
  return said === rule[1] ? text : `${said}（${rule[2]}）`;
}

// The pieces between "; " that stand in no parentheses.
function parts_of(text: string): string[] {
  const parts: string[] = [];
  let [begin, depth] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "(") depth++;
    else if (text[at] === ")") depth = Math.max(0, depth - 1);
    else if (depth === 0 && text.startsWith("; ", at)) {
      parts.push(text.slice(begin, at));
      begin = at + 2;
    }
  }
  return [...parts, text.slice(begin)];
}

// The Chinese of a clause whose pattern fits; null: it does not.
function filled({ pattern, clauses: further, zh }: Clause, text: string, word: (of: string) => string, depth: number): string | null {
  const found = pattern.exec(text);
  if (!found) return null;
  return zh.replace(/\{(\d+)\}/g, (_, number: string) => {
    const part = found[+number];
    return further[+number - 1] ? clause_zh(part, word, depth + 1) : amounts_zh(part);
  });
}

// "cpus 1, gpus 2" as the page writes it elsewhere.
function amounts_zh(text: string): string {
  const amounts = text.split(", ").map((part) => /^(cpus|gpus|memory) (\d[\d.]*(?: [KMGT]iB)?)$/.exec(part));
  if (!amounts.every((one) => one !== null)) return text;
  return amounts.map((one) => (one![1] === "memory" ? `${one![2]} 内存` : `${one![2]} ${one![1] === "cpus" ? "CPU" : "GPU"}`)).join("，");
}

// Whole texts, line by line; what stands before "  " in a line is a time ("made", "+0.2 s").
export function reason_zh(text: string, word: (of: string) => string): string {
  let quoted = false;  // What a process wrote is not ours to translate.
  return text.split("\n").map((line) => {
    if (quoted) return line;
    quoted = /^\s*(last lines of its|the last it wrote to) stderr:$/.test(line);
    const [, space, time, words] = /^(\s*)(made  |\+[\d.]+ s  |…  )?(.*)$/.exec(line)!;
    return space + (time?.startsWith("made") ? "创建  " : (time ?? "")) + (words && clause_zh(words, word));
  }).join("\n");
}
