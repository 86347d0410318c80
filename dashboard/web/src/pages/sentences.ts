// Sentences for the head's events, with links. Pure.
import type { Event } from "../live/protocol";
import events from "../i18n/events.json";
import { actor_name, program_name, short_class } from "../ui/names";

export interface Part {
  text: string;
  path?: string[];
}

// Sentence by event text; `{field}` is a field of the event. An event that lacks a field is shown by its text; a part in [ ] is left out if
// its fields are missing.
const kSentences: Record<string, [en: string, zh: string]> = {
  "actor is alive": ["Actor {actor} started on {node}", "Actor {actor} 已在 {node} 启动"],
  "actor is dead": ["Actor {actor} ended: {cause}", "Actor {actor} 已结束：{cause}"],
  "actor restarts": ["Actor {actor} restarts: {cause}", "Actor {actor} 正在重启：{cause}"],
  "asked of an experiment": ["{by} asked {experiment} to {act}[ trial {trial}]", "{by} 请求{act}实验 {experiment}[ 的试验 {trial}]"],
  "connection to driver lost": ["Connection to program {driver} lost", "与程序 {driver} 的连接断开"],
  "connection to node lost, nothing new is placed there": ["Connection to node {node} lost; nothing new is placed there", "与节点 {node} 的连接断开，不再向其分配新任务"],
  "driver connected": ["Program {driver} connected", "程序 {driver} 已连接"],
  "driver is back": ["Program {driver} is back", "程序 {driver} 已恢复连接"],
  "driver is gone": ["Program {driver} has left: {why}", "程序 {driver} 已离开：{why}"],
  "experiment started": ["Experiment {experiment} started[ by program {driver}]", "实验 {experiment} 已开始[，由程序 {driver} 启动]"],
  "experiment resumed": ["Experiment {experiment} resumed", "实验 {experiment} 已继续运行"],
  "experiment paused": ["Experiment {experiment} paused", "实验 {experiment} 已暂停"],
  "experiment finished": ["Experiment {experiment} finished[: best {best}, trial {trial}][; {failed} failed]", "实验 {experiment} 已完成[：最佳 {best}，试验 {trial}][；{failed} 个试验失败]"],
  "experiment stopped before its end": ["Experiment {experiment} was stopped before its end", "实验 {experiment} 被提前停止"],
  "experiment failed": ["Experiment {experiment} failed[; {failed} of its trials failed]", "实验 {experiment} 失败[；其中 {failed} 个试验失败]"],
  "experiment crashed: its program has left": ["Experiment {experiment} crashed: its program has left", "实验 {experiment} 已崩溃：其程序已离开"],
  "trial failed": ["Trial {trial} of {experiment} failed[: {error}]", "实验 {experiment} 的试验 {trial} 失败[：{error}]"],
  "more trials of an experiment failed, they are not listed one by one": ["More trials of {experiment} failed; they are not listed one by one", "实验 {experiment} 还有更多试验失败，不再逐一列出"],
  "experiment annotated": ["{by} changed {what} of {experiment}", "{by} 更改了 {experiment} 的标注：{what}"],
  "experiment not tagged": ["Experiment {experiment} could not be tagged: {error}", "未能为实验 {experiment} 添加标签：{error}"],
  "node drains: nothing new is placed there": ["Node {node} drains: nothing new is placed there", "节点 {node} 正在排空：不再向其分配新任务"],
  "node is back": ["Node {node} is back", "节点 {node} 已恢复"],
  "node is gone": ["Node {node} has left: {why}", "节点 {node} 已离开：{why}"],
  "node is heard again": ["Node {node} responds again", "节点 {node} 恢复响应"],
  "node stops, nothing new is placed there": ["Node {node} stops; nothing new is placed there", "节点 {node} 正在停止，不再向其分配新任务"],
  "node is silent, nothing new is placed there": ["Node {node} does not respond; nothing new is placed there", "节点 {node} 没有响应，不再向其分配新任务"],
  "node joined": ["Node {node} joined", "节点 {node} 已加入"],
  "node joined again, its worker is new": ["Node {node} joined again with a new worker", "节点 {node} 重新加入，其 worker 是新启动的"],
  "node refused": ["Node {node} was refused: {why}", "节点 {node} 被拒绝：{why}"],
  "node takes actors again": ["Node {node} accepts actors again", "节点 {node} 重新接受 Actor"],
  "a program cannot run on this node": ["A program cannot run on node {node}: {why}", "有程序无法在节点 {node} 运行：{why}"],
  "client refused": ["A client was refused: {why}", "拒绝了一个客户端：{why}"],
};

const kActsZh: Record<string, string> = { stop: "停止", pause: "暂停", resume: "继续", add: "添加配置到", clone: "再次尝试" };
const kActs: Record<string, string> = { add: "add a configuration" };

// Fields that are not translated: numbers and texts of programs.
const kAsWritten = ["best", "failed", "error"];

export const text_of_event = (text: string, language: "en" | "zh") => (language === "zh" && Object.hasOwn(events, text) ? events[text as keyof typeof events] : kPlain[text] ?? text);
// Texts for events without fields, if they differ from the head's log text.
const kPlain: Record<string, string> = { "actor is dead": "Actor ended", "actor is alive": "Actor started", "actor restarts": "Actor restarts" };

// The end of a trial's actor on request of its run is not an error.
const kTrialOver: [en: string, zh: string] = ["The actor of {actor} ended with it", "{actor} 的 Actor 随之结束"];
export const kTrialsOver: [en: string, zh: string] = ["Actors of trials ended with them", "试验的 Actor 随试验结束"];
export const is_over = (event: Event) => event.text === "actor is dead" && /(^|:)TrialActor$/.test(String(event.fields?.class ?? "")) && String(event.fields?.cause).startsWith("killed on request");

export function sentence(event: Event, language: "en" | "zh", actor_of: (id: string) => { id: string; name?: string; display?: string; class_name?: string } | undefined,
  reason: (field: string, text: string) => string = (_, text) => text): Part[] {
  const fields = event.fields ?? {};
  const forms = is_over(event) ? kTrialOver : Object.hasOwn(kSentences, event.text) ? kSentences[event.text] : ["", ""];
  const whole = forms[language === "zh" ? 1 : 0];
  const known_in = (form: string) => [...form.matchAll(/\{(\w+)\}/g)].every(([, name]) => typeof fields[name] === "string" && fields[name] !== "" && !(name === "failed" && fields[name] === "0"));
  const form = whole.replace(/\[([^\]]*)\]/g, (_, part: string) => (known_in(part) ? part : ""));
  if (!form || !known_in(form)) return [{ text: text_of_event(event.text, language) }];
  return form.split(/(\{\w+\})/).filter(Boolean).map((piece): Part => {
    const name = /^\{(\w+)\}$/.exec(piece)?.[1];
    if (!name) return { text: piece };
    const value = String(fields[name]);
    if (name === "actor") {
      const known = actor_of(value);
      return { text: known ? actor_name(known) : [short_class(typeof fields.class === "string" ? fields.class : ""), value.slice(0, 8)].filter(Boolean).join(" "), path: ["actors", value] };
    }
    if (name === "node") return { text: value, path: ["nodes", value] };
    if (name === "experiment") return { text: value, path: ["experiments", value] };
    if (name === "trial") return { text: value.slice(0, 8), path: ["experiments", String(fields.experiment), "trials", value] };
    if (name === "driver" && typeof fields.id === "string") return { text: program_name(value), path: ["drivers", fields.id] };
    if (name === "act") {
      const act = value === "add" && fields.trial ? "clone" : value;
      return { text: (language === "zh" ? kActsZh : kActs)[act] ?? act };
    }
    return { text: name === "driver" ? program_name(value) : kAsWritten.includes(name) ? value : reason(name, value) };
  });
}
