// Where the time of a trial of a configuration goes, as its program reports it, and what its job uses. Loaded with the trial's page.
import { useMemo } from "preact/hooks";
import { session } from "../api";
import { locale, t } from "../i18n";
import { use_answer } from "../live/poll";
import { dark } from "../prefs";
import { group_color } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { StackedBars, type Part } from "../charts/stacked";
import { link } from "../router";
import { Card, count, seconds, share, size } from "../ui/parts";
import type { Checkpoint } from "./configured";
import { d } from "./configured_texts";
import { RankCurves } from "./job_curves";
import type { Job } from "./job_rows";
import { p } from "./trial_profile_texts";
import { kUsualParts, timings_of, type MetricSeries } from "./trial_timings";

const kEvery = 5000;      // In ms.
const kEndedEvery = 60_000;
const kPoints = 5000;
const kBars = 120;
const kHeight = 220;
const kColors = [1, 5, 0, 2, 3, 4, 6, 7];  // Group colours by part.

type Usual = (typeof kUsualParts)[number];
const name_of = (part: string) => ((kUsualParts as readonly string[]).includes(part) ? p(part as Usual) : part);

export function TrialProfile({ trial, ended }: { trial: string; ended: boolean }) {
  const { answer } = use_answer<{ job: string }>(`/api/v1/determined/trials/${trial}`, ended ? kEndedEvery : kEvery);
  return <><Timings trial={trial} ended={ended} />{answer?.job && !session.value?.view && <Resources key={answer.job} job={answer.job} />}</>;
}

function Timings({ trial, ended }: { trial: string; ended: boolean }) {
  const { answer } = use_answer<{ series: MetricSeries[] }>(`/api/v1/determined/trials/${trial}/metrics?group=timing&points=${kPoints}`, ended ? kEndedEvery : kEvery);
  const { parts: names, rows } = useMemo(() => timings_of(answer?.series ?? [], kBars), [answer]);
  const parts = useMemo(() => names.map((name, i): Part => ({ name: name_of(name), color: group_color(kColors[i % kColors.length]) })), [names, dark.value, locale()]);
  const bars = useMemo(() => rows.map((row) => ({ x: count(row.batches), values: row.values })), [rows, locale()]);
  if (!answer) return null;
  if (!rows.length) return <Card title={p("timings")}><p class="quiet-line">{p("off")}</p></Card>;
  const last = rows[rows.length - 1].values;
  const whole = last.reduce((sum, value) => sum + value, 0);
  const rated = rows.filter((row) => row.rate !== null);
  return (
    <>
      <Card title={p("timings")}>
        <StackedBars label={p("timings")} parts={parts} rows={bars} height={kHeight} show={seconds} x_label={d("batches")} />
        <ul class="legend" aria-label={p("last", { time: seconds(whole) })}>
          {parts.map((part, i) => <li key={part.name}><i style={{ background: part.color }} />{part.name} <b class="num">{share(whole > 0 ? last[i] / whole : 0)}</b></li>)}
        </ul>
      </Card>
      {rated.length > 0 && (
        <Card title={p("rate")}>
          <LineChart label={p("rate")} height={150} from_zero whole_x x_label={d("batches").toLowerCase()}
            lines={[{ id: "rate", label: p("rate"), x: rated.map((row) => row.batches), y: rated.map((row) => row.rate), color: group_color(0) }]} />
        </Card>
      )}
    </>
  );
}

const kCheckpoints = 8;

// The newest ones that are in the storage.
export function TrialCheckpoints({ trial, run, ended }: { trial: string; run: string; ended: boolean }) {
  const { answer } = use_answer<{ rows: Checkpoint[] }>(`/api/v1/determined/trials/${trial}/checkpoints?page_size=1000&fields=id,batches,bytes,state`, ended ? kEndedEvery : kEvery);
  if (!answer) return null;
  const kept = answer.rows.filter((one) => one.state === "COMPLETED");
  return (
    <Card title={d("checkpoints")} action={<a class="more" href={link(["experiments", run], { tab: "checkpoints" })}>{t("more.open")}</a>}>
      {!kept.length ? <p class="quiet-line">{d("none")}</p> : (
        <dl class="config wide">
          {kept.slice(0, kCheckpoints).map((one) => <div key={one.id}><dt><code title={one.id}>{one.id.slice(0, 8)}</code></dt><dd class="num">{p("checkpoint", { batches: count(one.batches), size: size(one.bytes) })}</dd></div>)}
        </dl>
      )}
    </Card>
  );
}

// What the job of its newest run uses.
function Resources({ job }: { job: string }) {
  const { answer } = use_answer<Job>(`/api/v1/jobs/${encodeURIComponent(job)}`, kEvery);
  if (!answer || !answer.ranks.some((rank) => rank.actor)) return null;
  return <RankCurves ranks={answer.ranks} ended={!["queued", "running"].includes(answer.state)} />;
}
