// Why things are as they are, in Chinese. Head, workers and the trial loop say it in English sentences put together from clauses; these
// are the clauses. In the English ones `{}` is what varies (a name, a number: nothing with "; " or ": " in it), `{*}` a further clause, `(s)` one or many; in the Chinese ones `{1}`, `{2}` …
// stand for them in order. What is in no clause stays as it was said (errors of user code, names, numbers). A test compares this list
// with the sources of those sentences.
export const kReasonsZh: readonly (readonly [string, string])[] = [
  // Requests that wait (head/placement_reasons.cc, head/placement_groups.cc).
  ["no node has joined yet", "还没有节点加入"],
  ["is about to be placed", "即将安排"],
  ["asks for node {} and for labels {}, which it does not have", "要求节点 {1} 且带有标签 {2}，但该节点没有"],
  ["asks for node {}", "要求节点 {1}"],
  ["no node of this name has joined", "没有此名称的节点加入"],
  ["asks for a node with labels {}", "要求带有标签 {1} 的节点"],
  ["node labels {}", "节点标签 {1}"],
  ["no node has it", "没有节点符合"],
  ["no node has them", "没有节点同时符合"],
  ["waits for it", "等待该节点加入"],
  ["waits for a larger node", "等待更大的节点加入"],
  ["no node named {} has any", "名为 {1} 的节点没有这种资源"],
  ["no node with {} has any", "带有 {1} 的节点都没有这种资源"],
  ["no node has any", "没有节点有这种资源"],
  ["the largest node named {} ({}) has {}", "名为 {1} 的节点中最大的（{2}）有 {3}"],
  ["the largest node with {} ({}) has {}", "带有 {1} 的节点中最大的（{2}）有 {3}"],
  ["the largest node ({}) has {}", "最大的节点（{1}）有 {2}"],
  ["no node named {} has all of it together", "名为 {1} 的节点都不能同时满足"],
  ["no node with {} has all of it together", "带有 {1} 的节点都不能同时满足"],
  ["no node has all of it together", "没有节点能同时满足"],
  ["runs a program that cannot start on any node named {} large enough for {}", "其程序无法在名为 {1} 且容得下 {2} 的节点上启动"],
  ["runs a program that cannot start on any node with {} large enough for {}", "其程序无法在带有 {1} 且容得下 {2} 的节点上启动"],
  ["runs a program that cannot start on any node large enough for {}", "其程序无法在任何容得下 {1} 的节点上启动"],
  ["no other could hold it", "其他节点都容不下"],
  ["apart {}", "互斥组 {1}"],
  ["the only node that could hold it runs one of these already", "唯一容得下它的节点已在运行同组的一个"],
  ["each of the {} nodes that could hold it runs one of these already", "容得下它的 {1} 个节点都已在运行同组的一个"],
  ["{} of {} in use on the only node", "唯一的节点已用 {1}，共 {2}"],
  ["{} of {} in use on {}, the only node that could hold it", "唯一容得下它的节点 {3} 已用 {1}，共 {2}"],
  ["{} of {} in use on {} nodes", "{3} 个节点已用 {1}，共 {2}"],
  ["at most {} free on one node ({})", "单个节点最多空闲 {1}（{2}）"],
  ["waits for {} free together on one node", "等待单个节点同时空出 {1}"],
  ["node {} reserves {} for it", "节点 {1} 已为它预留 {2}"],
  ["node {} reserves {} for {*}, which comes first", "节点 {1} 已将 {2} 预留给排在前面的{3}"],
  ["behind {} request(s) of higher priority, the first is {*}", "前面有 {1} 个更高优先级的请求，最前面的是{2}"],
  ["behind {} request(s) of higher priority, {*}", "前面有 {1} 个更高优先级的请求：{2}"],
  ["behind {} earlier request(s), the first is {*}", "前面有 {1} 个更早的请求，最前面的是{2}"],
  ["behind {} earlier request(s), {*}", "前面有 {1} 个更早的请求：{2}"],
  // Those that are named there (head/core_queries.cc).
  ["placement group {}", "放置组 {1}"],
  ["actor {} ({}, {})", " Actor {1}（{2}，{3}）"],
  ["actor {} ({})", " Actor {1}（{2}）"],
  ["trial {} of {} ({})", "试验 {1}（{2}，{3}）"],
  ["tasks ({})", "任务（{1}）"],
  ["a request that is gone ({})", "已离开的请求（{1}）"],
  ["over {}", "超过 {1}"],
  ["its {} bundles together on one node: {*}", "{1} 个资源束需同在一个节点：{2}"],
  ["bundle {} ({}) waits for a node of its own: what it fits on is for its other bundles", "资源束 {1}（{2}）等待独占的节点：容得下它的节点要留给其他资源束"],
  ["bundle {} ({}) finds no room beside its other bundles now", "资源束 {1}（{2}）目前在其他资源束之外找不到空位"],
  ["bundle {} ({}): {*}", "资源束 {1}（{2}）：{3}"],
  ["{} more", "另有 {1} 个"],
  // Room in a group (head/core_groups.cc).
  ["waits for {*}, which has no place yet", "等待 {1} 获得位置"],
  ["bundle {} of {*} lost its node", "{2} 的资源束 {1} 失去了节点"],
  ["bundle {} of {*} is on node {}, which is {*}", "{2} 的资源束 {1} 在节点 {3} 上，该节点{4}"],
  ["bundle {} of {*} is on node {}, on which its program cannot start", "{2} 的资源束 {1} 在节点 {3} 上，其程序无法在该节点启动"],
  ["waits for {} in bundle {} of {*}", "等待 {3} 的资源束 {2} 空出 {1}"],
  ["{} of {} in use by {} actor(s)", "{3} 个 Actor 已用 {1}，共 {2}"],
  ["{*} (the last looked at of {} bundles)", "{1}（{2} 个资源束中最后检查的一个）"],
  // Actors (head/core_actors.cc).
  ["waits until its former host on node {} has ended, at the latest in {}", "等待它在节点 {1} 上的前一个进程结束，最迟 {2}后"],
  ["waits until its former host on node {} has ended", "等待它在节点 {1} 上的前一个进程结束"],
  ["the node is {*}: at the latest in {}", "该节点{1}：最迟 {2}后"],
  ["restarts in {}, after {} early deaths in a row", "连续 {2} 次过早结束，{1}后重启"],
  ["waits until the former actor \"{}\" ({}) has ended on node {}", "等待前一个 Actor“{1}”（{2}）在节点 {3} 上结束"],
  ["after a head restart: {} node(s) may still come back, for {}", "头节点重启后：{1} 个节点仍可能在 {2}内返回"],
  // How actors ended (head/wire.cc, worker/exit_cause.cc and who makes causes).
  ["actor {} ({}): alive on node {}, epoch {}", "Actor {1}（{2}）：运行中，节点 {3}，第 {4} 代"],
  ["alive on node {}, epoch {}", "运行中，节点 {1}，第 {2} 代"],
  ["{*} on node {}, epoch {}: {*}", "{1}，节点 {2}，第 {3} 代：{4}"],
  ["{*} on node {}, epoch {}", "{1}，节点 {2}，第 {3} 代"],
  ["{*} on node {}", "{1}（节点 {2}）"],
  ["killed by signal {} ({})", "被信号 {1}（{2}）终止"],
  ["exited with code {}", "以退出码 {1} 结束"],
  ["killed by signal {}", "被信号 {1} 终止"],
  ["killed on request", "按请求终止"],
  ["lost with its node", "随节点丢失"],
  ["ended with its owner", "随所有者结束"],
  ["its constructor threw", "构造函数抛出异常"],
  ["could not be started", "无法启动"],
  ["its lease was lost", "失去租约"],
  ["ran out of memory", "内存耗尽"],
  ["was not well", "健康检查未通过"],
  ["ended", "已结束"],
  ["invalid memory access", "非法内存访问"],
  ["a failed check or an uncaught exception", "检查失败或未捕获的异常"],
  ["memory that is not there any more, or a full disk behind it", "内存已不存在，或其后的磁盘已满"],
  ["an arithmetic error", "算术错误"],
  ["an instruction that this CPU does not have", "此 CPU 不支持的指令"],
  ["a forbidden system call", "被禁止的系统调用"],
  ["its limit of CPU time", "达到 CPU 时间上限"],
  ["its limit of file size", "达到文件大小上限"],
  ["not by Volador: somebody sent it, or the kernel was out of memory (look at `dmesg`)", "并非 Volador 所为：由他人发送，或内核内存耗尽（请看 `dmesg`）"],
  ["the kernel ended it", "被内核终止"],
  ["ask more memory for the actor, or run fewer at a time on this node", "请为 Actor 申请更多内存，或减少此节点上同时运行的数量"],
  ["the program called exit inside an actor", "程序在 Actor 中调用了 exit"],
  ["it was a shared host with {} actor(s)", "它是承载 {1} 个 Actor 的共享进程"],
  ["its placement group was removed", "其放置组已移除"],
  ["its {*} was removed: {*}", "其 {1} 已移除：{2}"],
  ["the actor that made it has ended", "创建它的 Actor 已结束"],
  ["the actor that made it ({}, {}) has ended", "创建它的 Actor（{1}，{2}）已结束"],
  ["no program and no actor had a handle on it any more", "已没有任何程序或 Actor 持有它的句柄"],
  ["its actor has ended or starts anew", "其 Actor 已结束或重新启动"],
  ["node {} did not report its start within {}", "节点 {1} 在 {2}内未报告启动"],
  ["node {} came back with less than it holds", "节点 {1} 返回时资源少于它所持有的"],
  ["the worker of node {} was started anew", "节点 {1} 的 worker 重新启动"],
  ["its host was gone when node {} came back", "节点 {1} 返回时其进程已不在"],
  ["the head refused its epoch: the actor has ended or runs elsewhere", "头节点拒绝了它的启动序号：该 Actor 已结束或在别处运行"],
  ["a newer incarnation took its place, or it is not wanted any more", "已有更新的一代取代它，或不再需要它"],
  ["it closed its control socket while it ran (close_range or daemon() in user code?) and was ended", "它在运行中关闭了控制套接字（用户代码调用了 close_range 或 daemon()？），已被终止"],
  ["no head confirmed it for {} s after its lease had ended", "租约到期后 {1} 秒内没有头节点确认它"],
  ["node {} stops: {*}", "节点 {1} 停止：{2}"],
  ["node {} stops", "节点 {1} 停止"],
  ["driver {}: {*}", "Driver 程序 {1}：{2}"],
  ["node {}: {*}", "节点 {1}：{2}"],
  ["it ended", "已结束"],
  ["it was stopped", "已停止"],
  ["its connection was lost", "连接已断开"],
  ["it did not come back after the restart of the head", "头节点重启后没有返回"],
  ["on request", "按请求"],
  ["silent for {} s", "{1} 秒没有响应"],
  ["the head knows no such actor (dead ones are forgotten after a while)", "找不到这个 Actor（已结束的一段时间后会被清除）"],
  ["by {}", "由 {1} 发起"],
  // The same to a program whose call failed (runtime/actor/death_cause.cc), as trials repeat it.
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
  // What is asked, whatever it is.
  ["waits for {}", "等待 {1}"],
  ["asks for {}", "要求 {1}"],
  // What explain says of actors, groups and nodes (head/core_queries.cc).
  ["trial {} of {}: {*}, step {}", "试验 {1}（{2}）：{3}，第 {4} 步"],
  ["error: {*}", "错误：{1}"],
  ["tags: {*}", "标签：{1}"],
  ["actor {} ({}): {*} on node {}, epoch {}", "Actor {1}（{2}）：{3}，节点 {4}，第 {5} 代"],
  ["actor {} ({}): {*}", "Actor {1}（{2}）：{3}"],
  ["after a head restart: {} has {} to come back", "头节点重启后：{1} 还有 {2}可返回"],
  ["node suspect: {} has {} to come back", "节点失去响应：{1} 还有 {2}可返回"],
  ["then it is placed again", "之后将重新安排"],
  ["its host has not been reported gone yet, and holds its resources until then", "其进程尚未报告结束，在此之前仍占用资源"],
  ["restarts: {} of {}", "重启次数：{1}，上限 {2}"],
  ["the last death: {*}", "最近一次结束：{1}"],
  ["a restart goes on from checkpoint {} of epoch {}, {}", "重启将从第 {2} 代的检查点 {1}（{3}）继续"],
  ["asks for: {} in any bundle of {*}", "要求：{2} 的任一资源束中的 {1}"],
  ["asks for: {} in bundle {} of {*}", "要求：{3} 的资源束 {2} 中的 {1}"],
  ["asks for: {}", "要求：{1}"],
  ["what it went through:", "经历："],
  ["last lines of its stderr:", "标准错误的最后几行："],
  ["its place in {}", "它在 {1} 中的位置"],
  ["the node that it prefers of those with {}, apart from others of \"{}\"", "带有 {1} 的节点中它偏好的节点，与“{2}”的其他成员分开"],
  ["the node that it prefers of those with {}", "带有 {1} 的节点中它偏好的节点"],
  ["the node that it prefers, apart from others of \"{}\"", "它偏好的节点，与“{1}”的其他成员分开"],
  ["the node that it prefers", "它偏好的节点"],
  ["the node that it asks for of those with {}, apart from others of \"{}\"", "带有 {1} 的节点中它要求的节点，与“{2}”的其他成员分开"],
  ["the node that it asks for of those with {}", "带有 {1} 的节点中它要求的节点"],
  ["the node that it asks for, apart from others of \"{}\"", "它要求的节点，与“{1}”的其他成员分开"],
  ["the node that it asks for", "它要求的节点"],
  ["the fullest node that it fits on of those with {}, apart from others of \"{}\"", "带有 {1} 的节点中能容纳它且占用率最高的节点，与“{2}”的其他成员分开"],
  ["the fullest node that it fits on of those with {}", "带有 {1} 的节点中能容纳它且占用率最高的节点"],
  ["the fullest node that it fits on, apart from others of \"{}\"", "能容纳它且占用率最高的节点，与“{1}”的其他成员分开"],
  ["the fullest node that it fits on", "能容纳它且占用率最高的节点"],
  ["{} more changes are not kept", "另有 {1} 次变化未保留"],
  ["what its actors hold is given back when they have ended", "其 Actor 占用的资源在它们结束后归还"],
  ["placement group {}: {*}, {*} ({*})", "放置组 {1}：{2}，{3}（{4}）"],
  ["placement group {}: {*}, {*}", "放置组 {1}：{2}，{3}"],
  ["placement group {}", "放置组 {1}"],
  ["after a head restart: {} nodes may still come back, for {}", "头节点重启后：{1} 个节点仍可能在 {2}内返回"],
  ["bundle {}: {}, given back", "资源束 {1}：{2}，已归还"],
  ["bundle {}: {}, has no place", "资源束 {1}：{2}，尚未放置"],
  ["bundle {}: {} on node {}, GPU {}, which is {*}", "资源束 {1}：{2}，节点 {3}，GPU {4}，该节点{5}"],
  ["bundle {}: {} on node {}, which is {*}", "资源束 {1}：{2}，节点 {3}，该节点{4}"],
  ["bundle {}: {} on node {}, GPU {}", "资源束 {1}：{2}，节点 {3}，GPU {4}"],
  ["bundle {}: {} on node {}", "资源束 {1}：{2}，节点 {3}"],
  ["{} actor(s) with {}", "{1} 个 Actor 占用 {2}"],
  ["{} actor(s) wait(s) for room in it", "{1} 个 Actor 等待其中的空位"],
  ["node {} ({}): {*} ({*})", "节点 {1}（{2}）：{3}（{4}）"],
  ["node {} ({}): {*}", "节点 {1}（{2}）：{3}"],
  ["after a head restart it has {} to come back", "头节点重启后，它还有 {1}可返回"],
  ["last heard {} ago, given up in {}", "最近一次响应在 {1}前，{2}后放弃"],
  ["drains: nothing new is placed there", "正在排空：不再向其分配新任务"],
  ["stops: nothing new is placed there", "正在停止：不再向其分配新任务"],
  ["in use: {} of {}", "已用：{1}，共 {2}"],
  ["{} actor(s)", "{1} 个 Actor"],
  ["node {} is {*}", "节点 {1} {2}"],
  ["suspect (silent)", "失去响应（静默）"],
  ["suspect (connection lost)", "失去响应（连接断开）"],
  ["not ready", "尚未就绪"],
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
