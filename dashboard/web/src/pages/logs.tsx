// Logs of a node or actor: follow, search, jump between errors.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import type { Filter } from "../live/protocol";
import { use_topic } from "../live/use";
import { query, set_query } from "../router";
import { Icon } from "../ui/icons";
import { Empty, Head, Rows, Select, Toggle, count } from "../ui/parts";
import { use_rows_in_sight } from "../ui/sight";
import { LogTime } from "./log_time";
import { WholeLog } from "./whole_log";
import { at_least, bare, cut, find, next_trouble, painted, tone_of, trouble, without_start } from "./log_text";
import { actor_name } from "../ui/names";

export function Logs() {
  const nodes = use_topic("nodes", {}, 1000).list();
  const actors = use_topic("actors", {}, 1000).list();
  const id = query("id");
  const node = query("node") || (id ? "" : (nodes.find((one) => one.state === "alive") ?? nodes[0])?.name ?? "");
  const whole = query("view") === "all";
  const known = [...actors].sort((a, b) => Number(a.state === "dead") - Number(b.state === "dead")).slice(0, 500);
  const options: [string, string][] = [["", t("logs.pick_actor")], ...known.map((one): [string, string] => [one.id, `${actor_name(one)} · ${one.node || "–"}`])];
  if (id && !options.some(([key]) => key === id)) options.push([id, id]);
  return (
    <>
      <Head title={t("nav.logs")} actions={
        <>
          <Part whole={whole} />
          <Select label={t("col.node")} value={id ? "" : node} on_change={(value) => set_query({ node: value, id: null, ...kNoPlace })} options={[...(id ? [["", "–"] as [string, string]] : []), ...nodes.map((one): [string, string] => [one.name, one.name])]} />
          <Select label={t("col.actor")} value={id} on_change={(value) => set_query({ id: value || null, node: null, ...kNoPlace })} options={options} />
        </>
      } />
      <div class="page-body fill">
        {id || node ? whole ? <WholeLog key={id || node} filter={id ? { id } : { node }} /> : <LogBox key={id || node} filter={id ? { id } : { node }} full ended={Boolean(id) && actors.find((one) => one.id === id)?.state === "dead"} /> : <Empty icon="logs" title={t("logs.pick")}>{t("logs.pick.next")}</Empty>}
      </div>
    </>
  );
}

export function save_text(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

// Query keys of the previous log's position, removed when another log is shown.
const kNoPlace = { run: null, line: null, before: null, stream: null };

const Part = ({ whole }: { whole: boolean }) => (
  <span class="pair" role="group" aria-label={t("logs.which")}>
    <Toggle label={t("logs.newest")} on={!whole} on_change={() => set_query({ view: null, ...kNoPlace })} />
    <Toggle label={t("logs.whole")} on={whole} on_change={() => set_query({ view: "all" })} />
  </span>
);

const kLine = 20;
const kBeside = 20;  // Number of lines rendered above and below the visible ones.

export function LogBox({ filter, height, full, ended }: { filter: Filter; height?: number; full?: boolean; ended?: boolean }) {
  const logs = use_topic("logs", filter, 120);
  const [local, set_local] = useState("");
  const [follow, set_follow] = useState(true);
  const [at, set_at] = useState(-1);
  const text = full ? query("q") : local;
  const [least, set_least] = useState("");
  const lines = useMemo(() => at_least(find(logs.list(), text), least), [logs.list(), text, least]);
  const actors = use_topic("actors", {}, 2000);
  // The source of an unnamed actor is its id.
  const source_name = (source: string) => {
    const id = /^([0-9a-f]{8})(?:-\d+)?$/.exec(source)?.[1];
    const actor = id && actors.list().find((one) => one.id.startsWith(id));
    return actor ? actor_name(actor) : source;
  };
  const box = useRef<HTMLDivElement>(null);
  const { first, end, show } = use_rows_in_sight(lines.length, kLine, kBeside, box);
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, follow]);

  const jump = (step: 1 | -1) => {
    const found = next_trouble(lines, at < 0 ? (step > 0 ? -1 : 0) : at, step);
    if (found < 0) return;
    set_follow(false);
    set_at(found);
    show(found, "center");
  };
  const on_scroll = () => {
    const element = box.current;
    if (!element) return;  // A scroll event may arrive after the box was removed.
    const end = element.scrollHeight - element.scrollTop - element.clientHeight < 4;
    if (end !== follow && (end || element.scrollTop < last_top.current)) set_follow(end);
    last_top.current = element.scrollTop;
  };
  const last_top = useRef(0);
  const has_trouble = useMemo(() => lines.some(trouble), [lines]);
  const set_text = (value: string) => (full ? set_query({ q: value }) : set_local(value));
  return (
    <div class={`logs${full ? " fill" : ""}`}>
      <div class="tools">
        <label class="filter">
          <Icon name="search" />
          <span class="visually-hidden">{t("logs.search")}</span>
          <input type="search" data-filter value={text} placeholder={t("logs.search")} onInput={(event) => set_text(event.currentTarget.value)} spellcheck={false} />
          <kbd>/</kbd>
        </label>
        <Select label={t("col.level")} value={least} on_change={set_least} options={[["", t("all")], ["debug", t("logs.level.debug")], ["info", t("logs.level.info")], ["warn", t("logs.level.warn")], ["error", t("logs.level.bad")]]} />
        <Toggle label={t("logs.follow")} on={follow} on_change={set_follow} />
        <span class="pair">
          <button type="button" class="button" disabled={!has_trouble} onClick={() => jump(-1)} aria-label={t("logs.error_before")} title={t("logs.error_before")}><Icon name="up" /></button>
          <button type="button" class="button" disabled={!has_trouble} onClick={() => jump(1)}>{t("logs.error_next")}<Icon name="down" /></button>
        </span>
        <button type="button" class="button" disabled={!lines.length} onClick={() => save_text(`${filter.id ?? filter.node ?? "log"}.log`, lines.map((line) => `${line.time_ms ? new Date(line.time_ms).toISOString() : ""}\t${line.level ?? ""}\t${source_name(line.source)}\t${bare(without_start(line))}\n`).join(""))} title={t("logs.save")} aria-label={t("logs.save")}><Icon name="download" /></button>
        <span class="count" role="status">{t("logs.count", { n: lines.length, shown: count(lines.length) })}{logs.dropped > 0 && ` · ${t("logs.dropped", { n: count(logs.dropped) })}`}</span>
      </div>
      {logs.phase.value === "error" ? <Empty icon="logs" title={logs.error.detail || logs.error.code}>{t("logs.refused.next")}</Empty> : <Rows of={logs}>
        {(all) => all.length === 0 ? <Empty icon="logs" title={t("logs.none")}>{t(ended ? "logs.none.ended" : "logs.none.next")}</Empty> : (
          <div class="log-scroll" ref={box} tabIndex={0} role="log" aria-live="off" aria-label={t("nav.logs")} onScroll={on_scroll} style={height ? { height: height + "px" } : {}}>
            <div class="log-lines" style={{ height: lines.length * kLine + "px" }}>
              {lines.slice(first, end).map((line, i) => {
                const number = first + i;
                const tone = tone_of(line);
                const said = without_start(line);
                return (
                  <div key={number} class={`log-line${tone ? ` tone-${tone}` : ""}${line.stderr ? " stderr" : ""}${number === at ? " at" : ""}`} style={{ transform: `translateY(${number * kLine}px)` }}>
                    <LogTime ms={line.time_ms} />
                    <span class="log-source" title={line.source}>{source_name(line.source)}</span>
                    <span class="log-text">{text ? cut(bare(said), text).map((part, i) => (part.hit ? <mark key={i}>{part.text}</mark> : part.text))
                      : painted(said).map((part, i) => (part.look ? <span key={i} class={part.look}>{part.text}</span> : part.text))}</span>
                  </div>
                );
              })}
            </div>
          </div>
        )}
      </Rows>}
    </div>
  );
}
