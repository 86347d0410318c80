// The experiments of a configuration: columns of the user's choice, filters with counts, and actions on many.
import { useMemo, useState } from "preact/hooks";
import { signal, effect } from "@preact/signals";
import { call, may } from "../api";
import { date_time, day_time, plain } from "../format";
import { locale, t } from "../i18n";
import type { Experiment } from "../live/protocol";
import { head_now, use_tick, use_topic } from "../live/use";
import { language, read, write } from "../prefs";
import { go, query, set_query } from "../router";
import { Confirm } from "../ui/confirm";
import { Icon, type IconName } from "../ui/icons";
import { use_loaded } from "../ui/loaded";
import { Empty, Failed, Loading, Meter, Popover, RowLink, Select, Toggle, count, failure, num, size, span } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { acts_of_all, counts_of, duration_of, filtered, hparams_in, joined, kDefaultColumns, kFilters, kNone, project_of, base_state, type Filters, type ListRow } from "./experiment_rows";
import { is_in, is_movable, type Act, type Configured, type Place } from "./configured";
import "./configured.css";
import { d } from "./configured_texts";
import { l } from "./experiment_list_texts";
import { use_experiments } from "./experiment_poll";
import { Bar, each } from "./many";
import { in_shell } from "../ui/names";
import { annotate } from "./notes";

const kFields = "id,name,description,labels,state,phase,archived,progress,created_ms,ended_ms,user,owner,workspace,project,searcher,metric,smaller_is_better,trials,best_trial,best_metric,parent,reason,checkpoints,checkpoint_bytes,run,storage";
const kAsked: Act[] = ["cancel", "kill", "delete"];

const chosen_columns = signal<string[]>((() => {
  try {
    const stored: unknown = JSON.parse(read("experiment_columns") ?? "null");
    if (Array.isArray(stored)) return stored.map(String);
  } catch {
    // Invalid, for example written by another version.
  }
  return kDefaultColumns;
})());
effect(() => write("experiment_columns", JSON.stringify(chosen_columns.value)));

type Text = Parameters<typeof l>[0];
export const kLooks: Record<string, [IconName, string]> = {
  ACTIVE: ["running", "live"], QUEUED: ["waiting", "wait"], STARTING: ["waiting", "live"], RUNNING: ["running", "live"], PAUSED: ["paused", "wait"], STOPPING: ["down", "warn"],
  COMPLETED: ["good", "good"], CANCELED: ["stopped", "calm"], ERROR: ["bad", "bad"], DELETING: ["gone", "off"], DELETE_FAILED: ["bad", "bad"],
};
const shown_state = (row: Configured) => (row.state === "ACTIVE" && row.phase ? row.phase : base_state(row.state));
function StateCell({ row }: { row: Configured }) {
  const state = shown_state(row);
  const [icon, tone] = kLooks[state] ?? ["alive", "off"];
  return <span class={`state tone-${tone}`} title={row.reason}><Icon name={icon} />{state in kLooks ? l(state as Text) : state}</span>;
}

const date = (ms: number) => <span class="num" title={ms ? date_time(ms, locale()) : undefined}>{ms ? day_time(ms, head_now(), locale()) : "–"}</span>;

// All columns, by their keys; the name is always shown.
function all_columns(hparams: string[]): Column<ListRow>[] {
  const number = (key: string, width: number, look: (row: ListRow) => number | null | undefined, cell?: (row: ListRow) => preact.ComponentChildren): Column<ListRow> =>
    ({ key, title: l(`col.${key}` as Text), width, right: true, look, cell: cell ?? ((row) => <span class="num">{num(look(row))}</span>) });
  const text = (key: string, width: number, look: (row: ListRow) => string): Column<ListRow> => ({ key, title: l(`col.${key}` as Text), width, look });
  return [
    { key: "name", card: "title", title: t("col.name"), width: 220, small: true, look: (row) => row.name, cell: (row) => (row.run ? <RowLink path={["experiments", row.run]}>{row.name}</RowLink> : row.name) },
    number("id", 60, (row) => row.id, (row) => <span class="num">{row.id}</span>),
    { key: "state", card: "side", title: l("state"), width: 120, small: true, look: shown_state, cell: (row) => <StateCell row={row} /> },
    number("trials", 70, (row) => row.trials, (row) => <span class="num">{count(row.trials)}</span>),
    { key: "progress", title: l("col.progress"), width: 110, look: (row) => row.progress, cell: (row) => <Meter part={row.progress} of={1} label={l("col.progress")} /> },
    text("metric", 120, (row) => row.metric),
    { ...number("best", 88, (row) => row.best_metric, (row) => <b class="num">{num(row.best_metric)}</b>), small: true },
    number("latest", 100, (row) => row.latest),
    text("user", 100, (row) => row.user),
    { key: "created", title: l("col.created"), width: 116, small: true, look: (row) => row.created_ms, cell: (row) => date(row.created_ms) },
    { key: "ended", title: l("col.ended"), width: 116, look: (row) => row.ended_ms || null, cell: (row) => date(row.ended_ms) },
    number("duration", 96, (row) => duration_of(row, head_now()), (row) => <span class="num">{span(duration_of(row, head_now()))}</span>),
    { key: "labels", title: l("col.labels"), width: 130, look: (row) => row.labels.join(" "), cell: (row) => (row.labels.length ? <span class="label-list">{row.labels.map((one) => <i key={one} class="tag">{one}</i>)}</span> : null) },
    text("searcher", 120, (row) => row.searcher),
    text("project", 150, project_of),
    number("checkpoints", 90, (row) => row.checkpoints, (row) => <span class="num">{count(row.checkpoints)}</span>),
    number("size", 100, (row) => row.checkpoint_bytes, (row) => <span class="num">{size(row.checkpoint_bytes)}</span>),
    number("parent", 90, (row) => row.parent || null, (row) => (row.parent ? <span class="num">{row.parent}</span> : null)),
    text("description", 180, (row) => row.description),
    text("storage", 180, (row) => row.storage),
    ...hparams.map((key): Column<ListRow> => ({
      key: `hp.${key}`, title: key, width: 96, right: true,
      look: (row) => { const value = row.hparams[key]; return typeof value === "number" || typeof value === "string" ? value : value === undefined ? null : JSON.stringify(value); },
      cell: (row) => (row.hparams[key] === undefined ? null : <span class="num">{plain(row.hparams[key], locale())}</span>),
    })),
  ];
}

export const AllExperiments = () => <ExperimentList />;

// `within`: only those of a project; both empty: of none.
export function ExperimentList({ within }: { within?: Place }) {
  use_tick(5000);
  const { answer, error, again } = use_experiments<Configured>(kFields);
  const live = use_topic("experiments", {}, 1000);
  const [chosen, set_chosen] = useState<Set<string>>(new Set());
  const filters: Filters = { state: query("state"), label: query("label"), user: query("user"), project: within ? "" : query("project"), archived: query("archived") === "1" };
  const runs = live.list();
  const rows = useMemo(() => joined((answer?.rows ?? []).filter((row) => !within || is_in(row, within)), new Map(runs.map((one: Experiment) => [one.name, one]))), [answer, runs.length, runs, within?.workspace, within?.project]);
  const hparams = useMemo(() => hparams_in(rows).join("\n"), [rows]);
  const known = useMemo(() => all_columns(hparams ? hparams.split("\n") : []), [hparams, language.value]);
  const wanted = chosen_columns.value;
  const columns = useMemo(() => known.filter((column) => column.key === "name" || wanted.includes(column.key)), [known, wanted]);
  const shown = useMemo(() => filtered(rows, filters), [rows, JSON.stringify(filters)]);
  const counts = useMemo(() => kFilters.map((name) => counts_of(rows, filters, name)), [rows, JSON.stringify(filters)]);
  if (error) return <Failed {...failure(error)} />;
  if (!answer) return <Loading />;
  const archived = rows.filter((row) => row.archived).length;
  if (!rows.length && within?.project) return <Empty icon="projects" title={l("none_in")} code={`volador experiment move ID --workspace=${in_shell(within.workspace)} --project=${in_shell(within.project)}`}>{l("none_in.next")}</Empty>;
  if (!rows.length) return <Empty icon="experiments" title={l(within ? "none_without" : "none")} code="volador experiment create config.yaml .">{l("none.next")}</Empty>;
  const tools = (
    <>
      {kFilters.map((name, i) => {
        const values = counts[i];
        if (within && name === "project") return null;
        if (values.length < 2 && !filters[name] && (values.length === 0 || name !== "state")) return null;
        const said = (key: string) => (key === kNone ? l(name === "user" ? "no_user" : "in_none") : name === "state" && key in kLooks ? l(key as Text) : key);
        const options = values.map(([key, n]): [string, string] => [key, l("choice", { name: said(key), n: count(n) })]);
        return <Select key={name} label={l(name)} value={filters[name]} options={[["", l("all")], ...options, ...(filters[name] && !values.some(([key]) => key === filters[name]) ? [[filters[name], said(filters[name])] as [string, string]] : [])]} on_change={(value) => set_query({ [name]: value })} />;
      })}
      {archived > 0 && <Toggle label={l("archived", { n: count(archived) })} on={filters.archived} on_change={(on) => set_query({ archived: on ? "1" : null })} />}
      <ColumnsButton known={known} />
    </>
  );
  if (!shown.length) {
    return (
      <div class="table-box fill">
        <div class="tools">{tools}</div>
        <Empty icon="search" title={l("nothing")}><button type="button" class="button" onClick={() => set_query({ state: null, label: null, user: null, project: null })}>{l("clear")}</button></Empty>
      </div>
    );
  }
  const which = rows.filter((row) => chosen.has(String(row.id)));
  return (
    <Table label={t("nav.experiments")} rows={shown} columns={columns} id={(row) => String(row.id)} order="-created" open={(row) => { if (row.run) go(["experiments", row.run]); }} tools={tools} empty={null}
      choose={may("user") ? { chosen, set: set_chosen, name: (row) => `${row.id} ${row.name}`, bar: () => <Many chosen={which} on_done={() => { set_chosen(new Set()); again(); }} on_clear={() => set_chosen(new Set())} /> } : undefined} />
  );
}

function ColumnsButton({ known }: { known: Column<ListRow>[] }) {
  const names = new Set(chosen_columns.value);
  const turn = (key: string) => {
    if (!names.delete(key)) names.add(key);
    chosen_columns.value = [...names];
  };
  const box = (column: Column<ListRow>) => (
    <label key={column.key} class="check"><input type="checkbox" checked={names.has(column.key)} onChange={() => turn(column.key)} />{column.title}</label>
  );
  const hparams = known.filter((column) => column.key.startsWith("hp."));
  return (
    <Popover text={l("columns")}>
      <div class="column-choice">
        <fieldset><legend>{l("group.experiment")}</legend>{known.filter((column) => column.key !== "name" && !column.key.startsWith("hp.")).map(box)}</fieldset>
        {hparams.length > 0 && <fieldset><legend>{l("group.hp")}</legend>{hparams.map(box)}</fieldset>}
        <button type="button" class="link" onClick={() => { chosen_columns.value = kDefaultColumns; }}>{l("columns.default")}</button>
      </div>
    </Popover>
  );
}

type ManyAct = Act | "move";
function Many({ chosen, on_done, on_clear }: { chosen: Configured[]; on_done: () => void; on_clear: () => void }) {
  const [asking, set_asking] = useState<ManyAct | null>(null);
  const [busy, set_busy] = useState(false);
  const acts = acts_of_all(chosen);
  const movable = chosen.filter(is_movable);
  const move = use_loaded(asking === "move" ? () => import("./move_project") : null);
  const run = async (act: Act, which: Configured[]) => {
    set_busy(true);
    set_asking(null);
    await each(which, async (one) => {
      await call("POST", `/api/v1/determined/experiments/${one.id}:change`, { command: act });
      if (act.endsWith("archive") && one.run && may("operator")) await annotate(one.run, { archived: act === "archive" });  // Its row in the other list too.
    }, l(`done.${act}`, { n: which.length }));
    set_busy(false);
    on_done();
  };
  const asked = acts.find(([act]) => act === asking)?.[1] ?? [];
  return (
    <Bar n={chosen.length} on_clear={on_clear}>
      {acts.map(([act, which]) => {
        const text = d(act === "delete" ? "delete_all" : act);
        return <button key={act} type="button" class={`button small${act === "delete" || act === "kill" ? " danger" : ""}`} disabled={busy} onClick={() => (kAsked.includes(act) ? set_asking(act) : void run(act, which))}>{which.length === chosen.length ? text : l("act.n", { act: text, n: which.length })}</button>;
      })}
      {movable.length > 0 && <button type="button" class="button small" disabled={busy} onClick={() => set_asking("move")}>{movable.length === chosen.length ? d("move") : l("act.n", { act: d("move"), n: movable.length })}</button>}
      {asking === "move" && move && <move.MoveProject of={movable} on_done={on_done} on_close={() => set_asking(null)} />}
      {asking && asking !== "move" && (
        <Confirm title={l(`asked.${asking as "cancel" | "kill" | "delete"}`, { n: asked.length })} explain={d(asking === "delete" ? "delete.all.explain" : `${asking as "cancel" | "kill"}.explain`)}
          command={`volador experiment ${asking} ${asked.slice(0, 20).map((one) => one.id).join(" ")}${asked.length > 20 ? " …" : ""}`} act={d(asking === "delete" ? "delete_all" : asking)} danger busy={busy} on_act={() => void run(asking, asked)} on_close={() => set_asking(null)} />
      )}
    </Bar>
  );
}

