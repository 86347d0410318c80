// The list of experiments, and the page of an experiment.
import { useMemo, useState } from "preact/hooks";
import { may, session } from "../api";
import { date_time, day_time } from "../format";
import { locale, reason_of, t, word } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { head_now, use_tick, use_topic } from "../live/use";
import { use_answer } from "../live/poll";
import { go, link, query, set_query } from "../router";
import { Later, use_loaded } from "../ui/loaded";
import { Card, Copy, Empty, Facts, Head, Missing, RowLink, Rows, State, StateBar, Tabs, Toggle, count, num, span } from "../ui/parts";
import { looks, kTrialStates } from "../ui/states";
import { program_name } from "../ui/names";
import { Table, type Column } from "../ui/table";
import { plain } from "../format";
import { AllMetrics } from "./all_metrics";
import { configured_id, type Configured } from "./configured";
import { Control } from "./control";
import { Curves } from "./curves";
import { ExperimentDownloads } from "./downloads";
import { Edf } from "./edf";
import { Gantt } from "./gantt";
import { Importance } from "./importance";
import { ManyExperiments } from "./many";
import { ArchiveButton, NotesCard, TagList } from "./notes";
import { Parallel } from "./parallel";
import { ResumeButton, ResumeCard, RunCard } from "./run_card";
import { Rungs } from "./rungs";
import { SavedViews } from "./saved_views";
import { Scatter } from "./scatter";
import { Slice } from "./slice";
import { Training, TrainingConfig, TrainingSummary, workers_shown } from "./training";
import { is_event, is_training } from "./training_rows";
import { TrialTable } from "./trial_table";
import { differs, ended_count, flatten, left_ms, shown_name } from "./trials";

const kKinds = ["all", "configured"] as const;

// All runs, or those of a configuration with columns of their own.
export function Experiments() {
  const kind = query("of", "all");
  if (session.value?.view) return <Runs />;
  return (
    <>
      <Head title={t("nav.experiments")} actions={may("user") && <a class="button primary" href={link(["new_experiment"])}>{t("experiment.new")}</a>}>
        <Tabs now={kind} tabs={kKinds.map((key) => ({ key, text: t(`experiments.${key}`), href: link(["experiments"], key === "all" ? {} : { of: key }) }))} />
      </Head>
      {kind === "configured" ? <div class="page-body fill"><Later load={() => import("./experiment_list").then((part) => part.AllExperiments)} /></div> : <Runs bare />}
    </>
  );
}

function Runs({ bare }: { bare?: boolean }) {
  use_tick(5000);
  const experiments = use_topic("experiments", {}, 200);
  const [chosen, set_chosen] = useState<Set<string>>(new Set());
  const archived = query("archived") === "1";
  const took = (row: Experiment) => (row.started_ms ? (row.state === "running" || row.state === "paused" ? head_now() : row.updated_ms ?? head_now()) - row.started_ms : null);
  const columns: Column<Experiment>[] = [
    { key: "name", title: t("col.name"), width: 220, small: true, look: (row: Experiment) => row.name, cell: (row: Experiment) => <RowLink path={["experiments", row.name]}>{row.name}</RowLink> },
    { key: "state", card: "side", title: t("col.state"), width: 110, small: true, look: (row: Experiment) => row.state, cell: (row: Experiment) => <State of={row.state} /> },
    { key: "trials", title: t("col.trials"), width: 66, right: true, look: (row: Experiment) => row.trials_total, cell: (row: Experiment) => (is_training(row) ? <span class="soft">–</span> : <span class="num">{count(row.trials_total)}</span>) },
    { key: "progress", title: t("col.progress"), width: 110, look: (row: Experiment) => row.trials_by_status.running ?? 0, cell: (row: Experiment) => (is_training(row) ? <span class="soft">{t("train.run")}</span> : <StateBar counts={row.trials_by_status} total={row.trials_total} />) },
    { key: "metric", title: t("col.metric"), width: 96, look: (row: Experiment) => row.metric },
    { key: "best", title: t("col.best"), width: 88, right: true, small: true, look: (row: Experiment) => row.best?.value, cell: (row: Experiment) => <b class="num">{num(row.best?.value)}</b> },
    { key: "started", title: t("col.started"), width: 116, look: (row: Experiment) => row.started_ms, cell: (row: Experiment) => <span class="num" title={row.started_ms ? date_time(row.started_ms, locale()) : undefined}>{row.started_ms ? day_time(row.started_ms, head_now(), locale()) : "–"}</span> },
    { key: "time", title: t("col.took"), width: 100, right: true, look: took, cell: (row: Experiment) => <span class="num">{span(took(row))}</span> },
    { key: "tags", title: t("col.tags"), width: 126, look: (row: Experiment) => (row.tags ?? []).join(" "), cell: (row: Experiment) => <TagList tags={row.tags} /> },
    { key: "searcher", title: t("experiment.scheduler"), width: 130, look: (row: Experiment) => row.scheduler?.text, cell: (row: Experiment) => <span class="soft" title={row.scheduler?.text}>{(is_training(row) ? workers_shown(row) : row.scheduler?.text) || "–"}</span> },
  ];
  return (
    <>
      {!bare && <Head title={t("nav.experiments")} />}
      <div class="page-body fill">
        <Rows of={experiments}>
          {(rows) => <Table label={t("nav.experiments")} rows={running_first(archived ? rows : rows.filter((row) => !row.archived))} columns={columns} id={(row) => row.id} open={(row) => go(["experiments", row.name])}
            tools={rows.some((row) => row.archived) && <Toggle label={t("archive.show", { n: count(rows.filter((row) => row.archived).length) })} on={archived} on_change={(on) => set_query({ archived: on ? "1" : null })} />}
            choose={{ chosen, set: set_chosen, name: (row) => row.name, bar: () => <ManyExperiments chosen={rows.filter((row) => chosen.has(row.id))} on_clear={() => set_chosen(new Set())} /> }}
            empty={<Empty icon="experiments" title={t("experiments.none")} code="build/bin/tune_digits">{t("experiments.none.next")}{rows.length > 0 && <> <button type="button" class="link" onClick={() => set_query({ archived: "1" })}>{t("archive.show_all", { n: rows.length })}</button></>}</Empty>} />}
        </Rows>
      </div>
    </>
  );
}

// Sorts running and paused experiments first, then the newest.
const running_first = (rows: Experiment[]): Experiment[] => {
  const open = (row: Experiment) => Number(row.state === "running" || row.state === "paused");
  return [...rows].sort((a, b) => open(b) - open(a) || (b.started_ms ?? 0) - (a.started_ms ?? 0));
};

export function ExperimentPage({ name }: { name: string }) {
  use_tick(2000);
  const experiments = use_topic("experiments", {}, 100);
  const experiment = experiments.list().find((row) => row.name === name || row.id === name);
  const trials = use_topic("trials", { experiment: name }, (experiment?.trials_total ?? 0) > 2000 ? 240 : 100);
  const id = experiment ? configured_id(name, experiment.directory) : null;
  const { answer, again } = use_answer<Configured>(id && `/api/v1/determined/experiments/${id}`, 5000);
  const configured = answer?.run === name ? answer : null;
  const view = use_loaded(configured && (() => import("./configured_view")));
  const training = experiment !== undefined && is_training(experiment);
  const tab = query("tab", training ? "training" : configured?.katib ? "katib" : "curves");
  const trail = [{ text: t("nav.experiments"), path: ["experiments"] }];
  if (!experiment) {
    return <Missing of={experiments} trail={trail} title={name} what={t("experiment.unknown", { name })} next={t("experiment.unknown.next")} />;
  }
  const keys = training ? (["training", "curves", "metrics"] as const) : ([...(configured?.katib ? (["katib"] as const) : []), "curves", "metrics", "trials", ...(configured ? (["configuration", "checkpoints", "code"] as const) : []), "rungs", "parallel", "scatter", "contour", "slice", "history", "pareto", "edf", "importance", "gantt"] as const);
  const own = configured && ["katib", "configuration", "checkpoints", "code"].includes(tab);
  const fills = tab === "trials" || tab === "checkpoints";
  return (
    <>
      <Head trail={trail} title={name} state={experiment.state} facts={training ? <TrainingSummary experiment={experiment} /> : <Summary experiment={experiment} />} actions={<>{configured ? view && <view.Acts of={configured} again={again} /> : <Control experiment={experiment} />}{!training && !configured && <ResumeButton experiment={experiment} />}<ExperimentDownloads experiment={experiment} />{!configured && <ArchiveButton experiment={experiment} />}</>}>
        {configured && view && <view.InProject of={configured} again={again} />}
        <WaitingTrials experiment={experiment} />
        <div class="tab-row">
          <Tabs now={tab} tabs={keys.map((key) => ({ key, text: t(`tab.${key}`), href: link(["experiments", name], { tab: key }) }))} />
          <SavedViews name={name} />
        </div>
      </Head>
      <div class={`page-body${fills ? " fill" : ""}`}>
        {own ? view && <view.Part of={configured} tab={tab} experiment={experiment} again={again} /> : <Rows of={trials}>
          {(all) => {
            const rows = training && tab !== "training" ? all.filter((one) => !is_event(one)) : all;
            if (!rows.length) return <Empty icon="experiments" title={t("trials.none")}>{t("trials.none.next")}</Empty>;
            if (tab === "trials") return <TrialTable trials={rows} experiment={experiment} />;
            const shown = training && tab === "training" ? <Training trials={rows} experiment={experiment} /> : tab === "rungs" ? <Rungs trials={rows} experiment={experiment} /> : tab === "parallel" ? <Parallel trials={rows} experiment={experiment} />
              : tab === "metrics" ? <AllMetrics trials={rows} experiment={experiment} /> : tab === "scatter" || tab === "contour" || tab === "history" || tab === "pareto" ? <Scatter key={tab} trials={rows} experiment={experiment} preset={tab} /> : tab === "slice" ? <Slice trials={rows} experiment={experiment} /> : tab === "edf" ? <Edf trials={rows} experiment={experiment} /> : tab === "importance" ? <Importance trials={rows} experiment={experiment} /> : tab === "gantt" ? <Gantt trials={rows} experiment={experiment} /> : <Curves trials={rows} experiment={experiment} />;
            return (
              <div class="columns">
                <div class="stack">{shown}</div>
                <div class="stack side">
                  {training ? <TrainingConfig trials={rows} /> : (
                    <>
                      <BestCard experiment={experiment} trials={rows} />
                      <StatusCard experiment={experiment} />
                      <ResumeCard experiment={experiment} />
                    </>
                  )}
                  <NotesCard experiment={experiment} configured={configured} again={again} />
                  <AboutCard experiment={experiment} />
                  <RunCard experiment={experiment} />
                </div>
              </div>
            );
          }}
        </Rows>}
      </div>
    </>
  );
}

// Progress, best value and time left, beside the title.
function Summary({ experiment }: { experiment: Experiment }) {
  const ended = ended_count(experiment);
  const left = left_ms(experiment, head_now());
  const best = experiment.best;
  return (
    <div class="summary">
      <div class="summary-bar"><StateBar counts={experiment.trials_by_status} total={experiment.trials_total} /></div>
      <p class="sub">
        <span>{t("experiment.done", { done: count(ended), total: count(experiment.trials_total) })}</span>
        {experiment.state === "running" && <span title={left ? t("experiment.left_range", { low: span(left.low), high: span(left.high) }) : undefined}>{t("experiment.left", { time: left ? span(left.point) : "–" })}</span>}
        {best && <span>{t(experiment.mode === "min" ? "experiment.best_min" : "experiment.best_max", { metric: experiment.metric, value: num(best.value) })}</span>}
      </p>
    </div>
  );
}

// Number of waiting trials and what they wait for.
function WaitingTrials({ experiment }: { experiment: Experiment }) {
  const queue = use_topic("queue", {}, 500);
  const mine = queue.list().filter((row) => row.experiment === experiment.name);
  if (!mine.length) return null;
  return <p class="reason head-reason"><a href={link(["queue"], { q: `experiment:"${experiment.name}"` })}>{t("queue.experiment", { n: mine.length, reason: reason_of(mine[0]) })}</a></p>;
}

function BestCard({ experiment, trials }: { experiment: Experiment; trials: Trial[] }) {
  const best = experiment.best;
  const trial = useMemo(() => trials.find((one) => one.id === best?.trial), [trials, best?.trial]);
  if (!best) return <Card title={t("best.title")}><p class="quiet-line">{t("best.none", { metric: experiment.metric })}</p></Card>;
  const config = best.config ?? trial?.config ?? {};
  return (
    <Card title={t("best.title")} action={<Copy text={JSON.stringify(config, null, 2)} label={t("best.copy")} />}>
      <p class="big"><b class="num">{num(best.value)}</b><span>{experiment.metric}{experiment.best_so_far && <small> · {t("best.at_end")}</small>}</span></p>
      <p class="quiet-line"><a href={link(["experiments", experiment.name, "trials", best.trial])} title={best.trial}>{shown_name({ id: best.trial, name: best.name })}</a> · {t("best.step", { step: count(best.step) })} {trial && <State of={trial.status} quiet />}</p>
      {differs(experiment) && (
        <p class="quiet-line">{t("best.so_far")}: <a href={link(["experiments", experiment.name, "trials", experiment.best_so_far!.trial])}>{shown_name({ id: experiment.best_so_far!.trial, name: experiment.best_so_far!.name })}</a>,{" "}
          {t(experiment.mode === "min" ? "best.so_far.note_min" : "best.so_far.note", { value: num(experiment.best_so_far!.value), step: count(experiment.best_so_far!.step) })}</p>
      )}
      <dl class="config">
        {Object.entries(flatten(config)).map(([key, value]) => (
          <div key={key}><dt title={key}>{key}</dt><dd class="num" title={String(value)}>{plain(value, locale())}</dd></div>
        ))}
      </dl>
    </Card>
  );
}

function StatusCard({ experiment }: { experiment: Experiment }) {
  const states = kTrialStates.filter((state) => experiment.trials_by_status[state] > 0);
  return (
    <Card title={t("col.trials")}>
      <ul class="status-list">
        {states.map((state) => (
          <li key={state}>
            <a href={link(["experiments", experiment.name], { tab: "trials", q: "status:" + state })}>
              <i class={`fill-${looks(state)[1]} st-${state}`} /><span>{word(state)}</span><b class="num">{count(experiment.trials_by_status[state])}</b>
            </a>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function AboutCard({ experiment }: { experiment: Experiment }) {
  const program = use_topic("drivers", {}, 1000).list().find((one) => one.id === experiment.driver_id);
  return (
    <Card title={t("experiment.about")}>
      <Facts of={[
        ["col.metric", `${experiment.metric} (${word(experiment.mode)})`],
        is_training(experiment) ? ["train.workers", workers_shown(experiment)] : ["experiment.scheduler", experiment.scheduler?.text ?? ""],
        ["experiment.started", experiment.started_ms ? date_time(experiment.started_ms, locale()) : ""],
        ["col.program", program && <a href={link(["drivers", program.id])} title={program.program}>{program_name(program.program)}</a>],
        ["col.directory", experiment.directory && <span class="wrap">{experiment.directory}</span>],
      ]} />
    </Card>
  );
}
