// The experiments, and one of them.
import { useMemo } from "preact/hooks";
import { date_time } from "../format";
import { locale, t, word } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { head_now, use_tick, use_topic } from "../live/use";
import { go, link, query } from "../router";
import { Card, Copy, Empty, Facts, Failed, Head, Loading, RowLink, Rows, State, StateBar, Tabs, count, num, span } from "../ui/parts";
import { looks, kTrialStates } from "../ui/states";
import { plain } from "../format";
import { Control } from "./control";
import { Curves } from "./curves";
import { Parallel } from "./parallel";
import { Rungs } from "./rungs";
import { Scatter } from "./scatter";
import { TrialTable } from "./trial_table";
import { ended_count, eta_ms, flatten } from "./trials";

export function Experiments() {
  use_tick(5000);
  const experiments = use_topic("experiments", {}, 200);
  const took = (row: Experiment) => (row.started_ms ? (row.state === "running" || row.state === "paused" ? head_now() : row.updated_ms ?? head_now()) - row.started_ms : null);
  const columns = [
    { key: "name", title: t("col.name"), width: 270, small: true, look: (row: Experiment) => row.name, cell: (row: Experiment) => <RowLink path={["experiments", row.name]}>{row.name}</RowLink> },
    { key: "state", title: t("col.state"), width: 120, small: true, look: (row: Experiment) => row.state, cell: (row: Experiment) => <State of={row.state} /> },
    { key: "trials", title: t("col.trials"), width: 90, right: true, look: (row: Experiment) => row.trials_total, cell: (row: Experiment) => <span class="num">{count(row.trials_total)}</span> },
    { key: "progress", title: t("col.progress"), width: 180, look: (row: Experiment) => row.trials_by_status.running ?? 0, cell: (row: Experiment) => <StateBar counts={row.trials_by_status} total={row.trials_total} /> },
    { key: "metric", title: t("col.metric"), width: 120, look: (row: Experiment) => row.metric },
    { key: "best", title: t("col.best"), width: 100, right: true, small: true, look: (row: Experiment) => row.best?.value, cell: (row: Experiment) => <b class="num">{num(row.best?.value)}</b> },
    { key: "time", title: t("col.took"), width: 120, right: true, look: took, cell: (row: Experiment) => <span class="num">{span(took(row))}</span> },
    { key: "directory", title: t("col.directory"), width: 240, look: (row: Experiment) => row.directory, cell: (row: Experiment) => <span class="soft" title={row.directory}>{row.directory}</span> },
  ];
  return (
    <>
      <Head title={t("nav.experiments")} />
      <div class="page-body fill">
        <Rows of={experiments}>
          {(rows) => <Table label={t("nav.experiments")} rows={rows} columns={columns} id={(row) => row.id} open={(row) => go(["experiments", row.name])}
            empty={<Empty icon="experiments" title={t("experiments.none")} code="build/bin/tune_digits">{t("experiments.none.next")}</Empty>} />}
        </Rows>
      </div>
    </>
  );
}

import { Table } from "../ui/table";

export function ExperimentPage({ name }: { name: string }) {
  use_tick(2000);
  const experiments = use_topic("experiments", {}, 100);
  const experiment = experiments.list().find((row) => row.name === name || row.id === name);
  const trials = use_topic("trials", { experiment: name }, (experiment?.trials_total ?? 0) > 2000 ? 240 : 100);
  const tab = query("tab", "curves");
  const trail = [{ text: t("nav.experiments"), path: ["experiments"] }];
  if (!experiment) {
    return (
      <>
        <Head trail={trail} title={name} />
        {experiments.phase.value === "loading" ? <Loading /> : <Failed what={t("experiment.unknown", { name })} next={t("experiment.unknown.next")} />}
      </>
    );
  }
  const keys = ["curves", "trials", "rungs", "parallel", "scatter"] as const;
  const fills = tab === "trials";
  return (
    <>
      <Head trail={trail} title={name} state={experiment.state} actions={<Control experiment={experiment} />}>
        <Summary experiment={experiment} />
        <Tabs now={tab} tabs={keys.map((key) => ({ key, text: t(`tab.${key}`), href: link(["experiments", name], { tab: key }) }))} />
      </Head>
      <div class={`page-body${fills ? " fill" : ""}`}>
        <Rows of={trials}>
          {(rows) => {
            if (!rows.length) return <Empty icon="experiments" title={t("trials.none")}>{t("trials.none.next")}</Empty>;
            if (tab === "trials") return <TrialTable trials={rows} experiment={experiment} />;
            const view = tab === "rungs" ? <Rungs trials={rows} experiment={experiment} /> : tab === "parallel" ? <Parallel trials={rows} experiment={experiment} />
              : tab === "scatter" ? <Scatter trials={rows} experiment={experiment} /> : <Curves trials={rows} experiment={experiment} />;
            return (
              <div class="columns">
                <div class="stack">{view}</div>
                <div class="stack side">
                  <BestCard experiment={experiment} trials={rows} />
                  <StatusCard experiment={experiment} />
                  <AboutCard experiment={experiment} />
                </div>
              </div>
            );
          }}
        </Rows>
      </div>
    </>
  );
}

function Summary({ experiment }: { experiment: Experiment }) {
  const ended = ended_count(experiment);
  const eta = eta_ms(experiment, head_now());
  const best = experiment.best;
  return (
    <div class="summary">
      <div class="summary-bar">
        <StateBar counts={experiment.trials_by_status} total={experiment.trials_total} />
      </div>
      <p class="sub">
        <span>{t("experiment.done", { done: count(ended), total: count(experiment.trials_total) })}</span>
        {best && <span>{t(experiment.mode === "min" ? "experiment.best_min" : "experiment.best_max", { metric: experiment.metric, value: num(best.value) })}</span>}
        {eta !== null && <span>{t("experiment.eta", { time: span(eta) })}</span>}
        {experiment.scheduler && <span>{experiment.scheduler.text}</span>}
      </p>
    </div>
  );
}

function BestCard({ experiment, trials }: { experiment: Experiment; trials: Trial[] }) {
  const best = experiment.best;
  const trial = useMemo(() => trials.find((one) => one.id === best?.trial), [trials, best?.trial]);
  if (!best) return <Card title={t("best.title")}><p class="quiet-line">{t("best.none", { metric: experiment.metric })}</p></Card>;
  const config = best.config ?? trial?.config ?? {};
  return (
    <Card title={t("best.title")} action={<Copy text={JSON.stringify(config, null, 2)} label={t("best.copy")} />}>
      <p class="big"><b class="num">{num(best.value)}</b><span>{experiment.metric}</span></p>
      <p class="quiet-line"><a href={link(["experiments", experiment.name, "trials", best.trial])}>{best.trial}</a> · {t("best.step", { step: count(best.step) })} {trial && <State of={trial.status} quiet />}</p>
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

const AboutCard = ({ experiment }: { experiment: Experiment }) => (
  <Card title={t("experiment.about")}>
    <Facts of={[
      ["col.metric", `${experiment.metric} (${word(experiment.mode)})`],
      ["experiment.scheduler", experiment.scheduler?.text ?? ""],
      ["experiment.started", experiment.started_ms ? date_time(experiment.started_ms, locale()) : ""],
      ["col.directory", experiment.directory && <span class="wrap">{experiment.directory}</span>],
    ]} />
  </Card>
);
