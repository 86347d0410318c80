// What an experiment of a configuration has beside the views of all experiments: its configuration, its checkpoints, and its own actions. Loaded when one is opened.
import { useState } from "preact/hooks";
import { call, may } from "../api";
import { date_time, day_time } from "../format";
import { locale, t } from "../i18n";
import { use_answer } from "../live/poll";
import type { Experiment } from "../live/protocol";
import { head_now } from "../live/use";
import { link, query, set_query } from "../router";
import { Confirm, use_act } from "../ui/confirm";
import { use_loaded } from "../ui/loaded";
import { Card, Code, Empty, Failed, Loading, Middle, TokenLink, count, failure, num, size } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { acts_of, is_movable, project_path, trial_row, type Act, type Checkpoint, type Configured } from "./configured";
import { d } from "./configured_texts";
import { open_job_page } from "./job_page";
import "./configured.css";
import { annotate, NoteOf } from "./notes";

const kAsked: Act[] = ["cancel", "kill", "delete"];
const kRows = 10_000;
const kEvery = 5000;  // In ms, likewise below.
const kLook = 500;
const kStartWithin = 30_000;

export function Acts({ of, again }: { of: Configured; again: () => void }) {
  const [asking, set_asking] = useState<Act | null>(null);
  const { busy, run } = use_act();
  if (!may("user")) return null;
  const name = of.run;
  const act = async (what: Act) => {
    await run(async () => {
      await call("POST", `/api/v1/determined/experiments/${of.id}:change`, { command: what });
      if (what.endsWith("archive") && may("operator")) await annotate(name, { archived: what === "archive" });  // Its row in the list too.
      return d(what === "delete" ? "delete.all.done" : `${what}.done`, { name });
    });
    set_asking(null);
    again();
  };
  const text = (what: Act) => d(what === "delete" ? "delete_all" : what);
  return (
    <>
      <button type="button" class="button" disabled={busy} onClick={() => void open_tensorboard(of.id, run)}>TensorBoard</button>
      {acts_of(of).map((what) => <button key={what} type="button" class="button" disabled={busy} onClick={() => (kAsked.includes(what) ? set_asking(what) : void act(what))}>{text(what)}</button>)}
      <a class="button" href={link(["new_experiment"], { fork: String(of.id) })}>{d("fork")}</a>
      {of.searcher === "single" && <a class="button" href={link(["new_experiment"], { continue: String(of.id) })}>{d("continue")}</a>}
      {asking && (
        <Confirm title={d(`${asking as "cancel" | "kill" | "delete"}.title`, { name })} explain={d(asking === "delete" ? "delete.all.explain" : `${asking as "cancel" | "kill"}.explain`)} command={`volador experiment ${asking} ${of.id}`}
          act={text(asking)} danger busy={busy} on_act={() => void act(asking)} on_close={() => set_asking(null)} />
      )}
    </>
  );
}

interface Board { job: { id: string; state: string; reason: string }; port: number }

// Starts TensorBoard for the experiment, or finds the one that shows it, and opens it in a tab when its job runs.
async function open_tensorboard(experiment: number, run: (act: () => Promise<string>) => Promise<boolean>) {
  const tab = window.open("about:blank");  // Within the click: browsers block it later.
  const well = await run(async () => {
    const { board } = await call<{ board: Board }>("POST", "/api/v1/tensorboards", { experiments: [experiment] });
    let job = board.job;
    for (const end = Date.now() + kStartWithin; job.state === "queued" && Date.now() < end; ) {
      await new Promise((wake) => setTimeout(wake, kLook));
      job = await call<Board["job"]>("GET", `/api/v1/jobs/${encodeURIComponent(board.job.id)}`);
    }
    if (job.state !== "running") {
      tab?.close();
      return d(job.state === "queued" ? "tensorboard.waits" : "tensorboard.ended", { job: job.id, reason: job.reason });
    }
    await open_job_page(tab, job.id, board.port, 0);
    return d("tensorboard.opened", { job: job.id });
  });
  if (!well) tab?.close();
}

const ProjectLink = ({ of }: { of: Configured }) => <a href={link(project_path(of))}>{of.project ? `${of.workspace} / ${of.project}` : d("uncategorized")}</a>;

// Below the title: its project, and the form that moves it to another one.
export function InProject({ of, again }: { of: Configured; again: () => void }) {
  const [moving, set_moving] = useState(false);
  const move = use_loaded(moving ? () => import("./move_project") : null);
  return (
    <p class="sub">
      <span>{d("project")}: <ProjectLink of={of} /></span>
      {may("user") && is_movable(of) && <button type="button" class="link" onClick={() => set_moving(true)}>{d("move")}</button>}
      {moving && move && <move.MoveProject of={[of]} on_done={() => { set_moving(false); again(); }} on_close={() => set_moving(false)} />}
    </p>
  );
}

function About({ of }: { of: Configured }) {
  const facts: [string, preact.ComponentChildren][] = [
    [d("description"), of.description],
    [t("col.owner"), of.user || <TokenLink id={of.owner} />],
    [d("project"), <ProjectLink of={of} />],
    [t("col.created"), date_time(of.created_ms, locale())],
    [d("ended"), of.ended_ms > 0 && date_time(of.ended_ms, locale())],
    [d("parent"), of.parent > 0 && <a href={link(["experiments", of.run], { tab: "configuration", show: "differences", with: String(of.parent) })}>{of.parent}</a>],
    [d("checkpoints"), of.checkpoints > 0 && d("checkpoints.sum", { n: of.checkpoints, size: size(of.checkpoint_bytes) })],
    [d("storage"), of.storage && <code class="wrap">{of.storage}</code>],
    [d("reason"), of.reason],
  ];
  return (
    <Card title={d("about", { id: of.id })}>
      <dl class="facts">{facts.filter(([, value]) => value !== "" && value !== false).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      <p class="quiet-line">{d("reproduce")}</p>
      <Code text={`volador experiment config ${of.id}\nvolador experiment fork ${of.id}`} />
    </Card>
  );
}

// A tab of its page. The code, trials of Katib and differences of configurations are loaded when they are shown.
export function Part({ of, tab, experiment, again }: { of: Configured; tab: string; experiment: Experiment; again: () => void }) {
  if (tab === "katib") return <Trials of={of} />;
  if (tab === "checkpoints") return <Checkpoints of={of} />;
  return tab === "code" ? <CodeFolder of={of} /> : <Configuration of={of} experiment={experiment} again={again} />;
}

function CodeFolder({ of }: { of: Configured }) {
  const view = use_loaded(() => import("./code_view"));
  return view ? <view.CodeView of={of} /> : <Loading />;
}

function Trials({ of }: { of: Configured }) {
  const view = use_loaded(() => import("./katib_trials"));
  return view ? <view.KatibTrials of={of} /> : <Loading />;
}

function Differences({ of }: { of: Configured }) {
  const view = use_loaded(() => import("./config_diff"));
  return view ? <view.ConfigDiff of={of} /> : <Loading />;
}

function Resource({ of }: { of: Configured }) {
  const view = use_loaded(() => import("./katib_view"));
  return view ? <view.KatibResource of={of.katib} /> : <Loading />;
}

const kViews = ["as_given", "complete", "differences"] as const;

function Configuration({ of, experiment, again }: { of: Configured; experiment: Experiment; again: () => void }) {
  const shown = query("show", "as_given");
  return (
    <div class="columns">
      <div class="stack config-shown">
        {of.katib && <Resource of={of} />}
        <div class="segments" role="group" aria-label={t("tab.configuration")}>
          {kViews.map((key) => <button key={key} type="button" aria-pressed={shown === key} onClick={() => set_query({ show: key })}>{d(key)}</button>)}
        </div>
        {shown === "differences" ? <Differences of={of} /> : shown === "complete" ? (
          <Card title={d("complete")}>
            <p class="quiet-line">{d("secrets")}</p>
            <Code text={JSON.stringify(of.config ?? {}, null, 2)} />
          </Card>
        ) : <Card title={d("as_given")}><Code text={of.original_config} /></Card>}
      </div>
      <div class="stack side">
        <About of={of} />
        {(may("user") || of.notes || experiment.note) && <Card title={d("notes")}><NoteOf experiment={experiment} configured={of} again={again} /></Card>}
      </div>
    </div>
  );
}

function Checkpoints({ of }: { of: Configured }) {
  const { answer, error, again } = use_answer<{ rows: Checkpoint[] }>(`/api/v1/determined/experiments/${of.id}/checkpoints?page_size=${kRows}`, kEvery);
  const [chosen, set_chosen] = useState<Set<string>>(new Set());
  const [asking, set_asking] = useState(false);
  const [registering, set_registering] = useState<string | null>(null);
  const form = use_loaded(registering === null ? null : () => import("./model_register"));
  const { busy, run } = use_act();
  if (error) return <Failed {...failure(error)} />;
  if (!answer) return <Loading />;
  const ids = [...chosen];
  const columns: Column<Checkpoint>[] = [
    { key: "id", card: "title", title: t("col.name"), width: 130, small: true, look: (row) => row.id, cell: (row) => <code title={row.storage}><Middle text={row.id} /></code> },
    { key: "trial", title: t("col.trial"), width: 90, small: true, look: (row) => row.trial, cell: (row) => <a href={link(["experiments", of.run, "trials", trial_row(row.trial)])}>{trial_row(row.trial)}</a> },
    { key: "run", title: d("run"), width: 60, right: true, look: (row) => row.run, cell: (row) => <span class="num">{count(row.run)}</span> },
    { key: "batches", title: d("batches"), width: 80, right: true, small: true, look: (row) => row.batches, cell: (row) => <span class="num">{count(row.batches)}</span> },
    { key: "metric", title: of.metric, width: 90, right: true, small: true, look: (row) => row.metric, cell: (row) => <span class="num">{num(row.metric)}</span> },
    { key: "size", title: t("col.size"), width: 80, right: true, look: (row) => row.bytes, cell: (row) => <span class="num">{size(row.bytes)}</span> },
    { key: "created", title: t("col.created"), width: 110, look: (row) => row.created_ms, cell: (row) => <span class="num" title={date_time(row.created_ms, locale())}>{day_time(row.created_ms, head_now(), locale())}</span> },
    { key: "state", card: "side", title: t("col.state"), width: 100, look: (row) => row.state, cell: (row) => d(`state.${row.state as "COMPLETED"}`) },
    ...(may("user") ? [{ key: "do", card: "act" as const, title: t("col.actions"), width: 170, look: () => "", cell: (row: Checkpoint) => row.state === "COMPLETED" && <button type="button" class="button small" onClick={() => set_registering(row.id)}>{d("register")}</button> }] : []),
  ];
  const remove = async () => {
    const well = await run(async () => {
      await call("POST", "/api/v1/determined/checkpoints:delete", { ids });
      return d("delete.done", { n: ids.length });
    });
    set_asking(false);
    if (well) set_chosen(new Set());
    again();
  };
  return (
    <>
      <Table label={d("checkpoints")} rows={answer.rows} columns={columns} id={(row) => row.id} order="-created"
        choose={may("user") ? { chosen, set: set_chosen, name: (row) => row.id, bar: () => <button type="button" class="button danger" onClick={() => set_asking(true)}>{d("delete.many", { n: ids.length })}</button> } : undefined}
        empty={<Empty icon="experiments" title={d("none")}>{d("none.next")}</Empty>} />
      {registering !== null && form && <form.Register checkpoint={registering} on_close={() => set_registering(null)} />}
      {asking && (
        <Confirm title={d("delete.many", { n: ids.length })} explain={d("delete.explain")} command={`volador checkpoint rm ${ids.map((id) => id.slice(0, 8)).join(" ")}`}
          act={d("delete")} danger busy={busy} on_act={() => void remove()} on_close={() => set_asking(false)} />
      )}
    </>
  );
}
