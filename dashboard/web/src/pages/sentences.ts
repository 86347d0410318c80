// Events of the head as sentences: who, what, why, with links. Pure.
import type { Event } from "../live/protocol";
import { kEventsZh } from "../i18n/events";
import { actor_name, short_class } from "../ui/names";

export interface Part {
  text: string;
  path?: string[];
}

// By the text of the event; `{field}` is a field of it. An event without one of the fields is shown by its text alone.
const kSentences: Record<string, [en: string, zh: string]> = {
  "actor is alive": ["Actor {actor} started on {node}", "Actor {actor} 已在 {node} 启动"],
  "actor is dead": ["Actor {actor} ended: {cause}", "Actor {actor} 已结束：{cause}"],
  "actor restarts": ["Actor {actor} restarts: {cause}", "Actor {actor} 正在重启：{cause}"],
  "asked of an experiment": ["{by} asked {experiment} to {act}", "{by} 要求 {experiment} {act}"],
  "connection to driver lost": ["Connection to program {driver} lost", "与程序 {driver} 的连接断开"],
  "connection to node lost, nothing new is placed there": ["Connection to node {node} lost; nothing new is placed there", "与节点 {node} 的连接断开，不再向其分配新任务"],
  "driver connected": ["Program {driver} connected", "程序 {driver} 已连接"],
  "driver is back": ["Program {driver} is back", "程序 {driver} 已恢复连接"],
  "driver is gone": ["Program {driver} has left: {why}", "程序 {driver} 已离开：{why}"],
  "experiment annotated": ["{by} changed {what} of {experiment}", "{by} 更改了 {experiment} 的标注：{what}"],
  "experiment not tagged": ["Experiment {experiment} could not be tagged: {error}", "未能为实验 {experiment} 添加标签：{error}"],
  "node drains: nothing new is placed there": ["Node {node} drains: nothing new is placed there", "节点 {node} 正在排空：不再向其分配新任务"],
  "node is back": ["Node {node} is back", "节点 {node} 已恢复"],
  "node is gone": ["Node {node} has left: {why}", "节点 {node} 已离开：{why}"],
  "node is heard again": ["Node {node} responds again", "节点 {node} 恢复响应"],
  "node is silent, nothing new is placed there": ["Node {node} does not respond; nothing new is placed there", "节点 {node} 没有响应，不再向其分配新任务"],
  "node joined": ["Node {node} joined", "节点 {node} 已加入"],
  "node joined again, its worker is new": ["Node {node} joined again with a new worker", "节点 {node} 重新加入，其 worker 是新启动的"],
  "node refused": ["Node {node} was refused: {why}", "节点 {node} 被拒绝：{why}"],
  "node takes actors again": ["Node {node} accepts actors again", "节点 {node} 重新接受 Actor"],
  "a program cannot run on this node": ["A program cannot run on node {node}: {why}", "有程序无法在节点 {node} 运行：{why}"],
  "client refused": ["A client was refused: {why}", "拒绝了一个客户端：{why}"],
};

export const text_of_event = (text: string, language: "en" | "zh") => (language === "zh" && Object.hasOwn(kEventsZh, text) ? kEventsZh[text] : text);

export function sentence(event: Event, language: "en" | "zh", actor_of: (id: string) => { id: string; name?: string; display?: string; class_name?: string } | undefined,
  reason: (field: string, text: string) => string = (_, text) => text): Part[] {
  const fields = event.fields ?? {};
  const form = Object.hasOwn(kSentences, event.text) ? kSentences[event.text][language === "zh" ? 1 : 0] : "";
  const places = [...form.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  if (!form || !places.every((name) => typeof fields[name] === "string" && fields[name] !== "")) return [{ text: text_of_event(event.text, language) }];
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
    return { text: name === "driver" ? value.split("/").pop() ?? value : reason(name, value) };
  });
}
