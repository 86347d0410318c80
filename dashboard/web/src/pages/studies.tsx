// Shared studies, whose workers are programs in any language: the list, and the page of a study with its trials and history.
import { useMemo } from "preact/hooks";
import { date_time, plain } from "../format";
import { locale, reason_of, t, word } from "../i18n";
import type { Why } from "../i18n/reason";
import { use_answer } from "../live/poll";
import type { Config, Value } from "../live/protocol";
import { chart_height } from "../prefs";
import { go, link, query } from "../router";
import { group_color } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { Card, Code, Copy, Empty, Facts, Failed, Head, Loading, RowLink, State, StateBar, Tabs, count, failure, num, span } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { flatten } from "./trials";
import { best_so_far } from "./history";

interface StudyTrial {
  number: number;
  state: string;
  config: Config;
  values: Record<string, number> | number[] | null;
  step: number;
  reported: number | null;
  attempt: number;
  worker: string;
  reason: string;
  why?: Why;
  started_ms: number;
  ended_ms: number;
}

interface Study {
  name: string;
  space: Value;
  searcher: string;
  scheduler: string;
  about: string;
  objectives: { metric: string; mode: string }[];
  seed: number;
  max_trials: number;
  lease_s: number;
  max_retries: number;
  created_ms: number;
  trials_total: number;
  trials_by_state: Record<string, number>;
  best: StudyTrial[];
}

// Maps Optuna's states to the page's states of trials.
const kStates: Record<string, string> = { complete: "finished", pruned: "stopped", fail: "failed" };
const state_of = (state: string) => kStates[state] ?? state;
const counts_of = (study: Study): Record<string, number> => Object.fromEntries(Object.entries(study.trials_by_state).map(([state, n]) => [state_of(state), n]));

const value_of = (trial: StudyTrial, i = 0): number | undefined => (trial.values ? Object.values(trial.values)[i] : undefined);
const goals = (study: Study) => study.objectives.map((one) => `${one.metric} (${word(one.mode)})`).join(", ");

export function Studies() {
  const { answer, error } = use_answer<{ rows: Study[] }>("/api/v1/studies?page_size=1000");
  const columns: Column<Study>[] = [
    { key: "name", title: t("col.name"), width: 230, small: true, look: (row) => row.name, cell: (row) => <RowLink path={["studies", row.name]}>{row.name}</RowLink> },
    { key: "trials", title: t("col.trials"), width: 84, right: true, small: true, look: (row) => row.trials_total, cell: (row) => <span class="num">{count(row.trials_total)}</span> },
    { key: "progress", title: t("col.progress"), width: 140, look: (row) => counts_of(row).finished ?? 0, cell: (row) => <StateBar counts={counts_of(row)} total={row.trials_total} /> },
    { key: "objectives", title: t("study.objectives"), width: 220, look: goals },
    { key: "best", title: t("col.best"), width: 104, right: true, small: true, look: (row) => (row.best[0] ? value_of(row.best[0]) : undefined), cell: (row) => <b class="num">{row.best[0] ? num(value_of(row.best[0])) : "–"}</b> },
    { key: "searcher", title: t("study.searcher"), width: 160, look: (row) => row.searcher },
    { key: "created", title: t("col.created"), width: 170, look: (row) => row.created_ms, cell: (row) => <span class="num">{date_time(row.created_ms, locale())}</span> },
  ];
  return (
    <>
      <Head title={t("nav.studies")} />
      <div class="page-body fill">
        {error ? <Failed {...failure(error)} /> : !answer ? <Loading /> : (
          <Table label={t("nav.studies")} rows={answer.rows} columns={columns} id={(row) => row.name} order="-created" open={(row) => go(["studies", row.name])}
            empty={<Empty icon="experiments" title={t("studies.none")} code={'volador study create digits --space=space.json --objective=loss:min'}>{t("studies.none.next")}</Empty>} />
        )}
      </div>
    </>
  );
}

export function StudyPage({ name }: { name: string }) {
  const at = `/api/v1/studies/${encodeURIComponent(name)}`;
  const { answer: study, error } = use_answer<Study>(at);
  const { answer: found } = use_answer<{ rows: StudyTrial[] }>(at + "/trials?page_size=10000");
  const trail = [{ text: t("nav.studies"), path: ["studies"] }];
  const tab = query("tab", "history");
  const rows = found?.rows ?? [];
  const params = useMemo(() => [...new Set(rows.flatMap((row) => Object.keys(flatten(row.config))))].slice(0, 24), [rows]);
  if (!study) return <><Head trail={trail} title={name} />{error ? <Failed {...failure(error)} /> : <Loading />}</>;
  const columns: Column<StudyTrial>[] = [
    { key: "number", card: "title", title: t("study.number"), width: 84, right: true, small: true, look: (row) => row.number, cell: (row) => <span class="num">{count(row.number)}</span> },
    { key: "state", card: "side", title: t("col.state"), width: 130, small: true, look: (row) => state_of(row.state), cell: (row) => <State of={state_of(row.state)} /> },
    ...study.objectives.map((one, i): Column<StudyTrial> => ({ key: one.metric, title: one.metric, width: 104, right: true, small: i === 0, look: (row) => value_of(row, i), cell: (row) => <b class="num">{num(value_of(row, i))}</b> })),
    ...params.map((path): Column<StudyTrial> => ({ key: path, title: path, width: 104, right: rows.every((row) => typeof (flatten(row.config)[path] ?? 0) === "number"), look: (row) => plain(flatten(row.config)[path], locale()), cell: (row) => <span class="num">{plain(flatten(row.config)[path], locale())}</span> })),
    { key: "took", title: t("col.took"), width: 104, right: true, look: (row) => (row.ended_ms && row.started_ms ? row.ended_ms - row.started_ms : null), cell: (row) => <span class="num">{row.ended_ms && row.started_ms ? span(row.ended_ms - row.started_ms) : "–"}</span> },
    { key: "worker", title: t("study.worker"), width: 150, look: (row) => row.worker },
    { key: "reason", card: "wide", title: t("col.reason"), width: 220, look: (row) => reason_of(row) },
  ];
  const goal = study.objectives[0];
  const done = rows.filter((row) => Number.isFinite(value_of(row) ?? NaN)).sort((a, b) => a.number - b.number);
  const best = study.best[0];
  return (
    <>
      <Head trail={trail} title={name} facts={<div class="summary"><div class="summary-bar"><StateBar counts={counts_of(study)} total={study.max_trials || study.trials_total} /></div><p class="sub"><span>{t("experiment.done", { done: count(study.trials_total - (study.trials_by_state.running ?? 0)), total: count(study.max_trials || study.trials_total) })}</span></p></div>}>
        <Tabs now={tab} tabs={(["history", "trials"] as const).map((key) => ({ key, text: t(`tab.${key}`), href: link(["studies", name], { tab: key }) }))} />
      </Head>
      <div class={`page-body${tab === "trials" ? " fill" : ""}`}>
        {tab === "trials" ? <Table label={t("col.trials")} optional rows={rows} columns={columns} id={(row) => String(row.number)} order="-number" empty={<Empty icon="experiments" title={t("trials.none")} />} /> : (
          <div class="columns">
            <div class="stack">
              <Card title={t("history.title", { metric: goal?.metric ?? "" })}>
                {!done.length ? <p class="quiet-line pad">{t("best.none", { metric: goal?.metric ?? "" })}</p> : (
                  <LineChart label={t("history.title", { metric: goal.metric })} named whole_x height={Math.min(520, chart_height.value)} x_label={t("study.number").toLowerCase()} lines={[
                    { id: "all", label: goal.metric, x: done.map((row) => row.number), y: done.map((row) => value_of(row)!), color: group_color(7) + "66" },
                    { id: "best", label: t("best.so_far"), x: done.map((row) => row.number), y: best_so_far(done.map((row) => value_of(row)!), goal.mode), color: group_color(0), strong: true },
                  ]} />
                )}
              </Card>
            </div>
            <div class="stack side">
              {best && (
                <Card title={t("best.title")} action={<Copy text={JSON.stringify(best.config, null, 2)} label={t("best.copy")} />}>
                  <p class="big"><b class="num">{num(value_of(best))}</b><span>{goal?.metric}</span></p>
                  <dl class="config">{Object.entries(flatten(best.config)).map(([key, value]) => <div key={key}><dt title={key}>{key}</dt><dd class="num">{plain(value, locale())}</dd></div>)}</dl>
                </Card>
              )}
              <Card title={t("study.about")}>
                <Facts of={[["study.objectives", goals(study)], ["study.searcher", study.searcher], ["experiment.scheduler", study.scheduler], ["run.seed", String(study.seed)], ["study.limit", study.max_trials ? count(study.max_trials) : ""],
                  ["col.created", date_time(study.created_ms, locale())], ["col.note", study.about]]} />
              </Card>
              <Card title={t("run.space")}><Code text={JSON.stringify(study.space, null, 2)} /></Card>
            </div>
          </div>
        )}
      </div>
    </>
  );
}
