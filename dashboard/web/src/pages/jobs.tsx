// Jobs, which are commands in the cluster's queue: the list, and the page of a job with its ranks.
import { date_time, day_time } from "../format";
import { locale, reason_of, t, word } from "../i18n";
import { use_answer } from "../live/poll";
import { head_now, use_tick } from "../live/use";
import { go, link, query, set_query } from "../router";
import { Card, Code, Empty, Facts, Failed, Head, Loading, Middle, RowLink, Select, State, Toggle, TokenLink, count, failure, resources_text, span } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { JobButtons, Submit } from "./job_acts";
import { LogBox } from "./logs";
import { command_text, job_name, kJobStates, nodes_of, priority_word, resources_of, start_text, state_of_job, time_run, why_text, type Job, type JobRank } from "./job_rows";

const kRows = 2000;  // The newest; the head keeps more.

const time = (ms: number) => (ms ? <span class="num">{date_time(ms, locale())}</span> : "");

// The nodes on which it runs, or their number.
function Nodes({ job }: { job: Job }) {
  const nodes = nodes_of(job);
  if (nodes.length === 1) return <a href={link(["nodes", nodes[0]])}><Middle text={nodes[0]} /></a>;
  return <span class="num" title={nodes.join(", ")}>{count(job.spec.nodes)}</span>;
}

const job_columns = (): Column<Job>[] => [
  { key: "id", title: t("col.id"), width: 72, look: (row) => row.id, cell: (row) => <span class="num">{row.id}</span> },
  { key: "name", card: "title", title: t("col.name"), width: 140, small: true, look: job_name, cell: (row) => <RowLink path={["jobs", row.id]}>{job_name(row)}</RowLink> },
  { key: "state", card: "side", title: t("col.state"), width: 120, small: true, look: (row) => word(state_of_job(row)), cell: (row) => <State of={state_of_job(row)} /> },
  { key: "priority", title: t("group.priority"), width: 84, look: (row) => priority_word(row.spec.priority) },
  { key: "resources", title: t("col.resources"), width: 130, small: true, look: (row) => resources_text(resources_of(row.spec)) },
  { key: "nodes", title: t("nav.nodes"), width: 84, look: (row) => nodes_of(row).join(", ") || row.spec.nodes, cell: (row) => <Nodes job={row} /> },
  { key: "run", title: t("job.run"), width: 100, right: true, small: true, look: time_run, cell: (row) => <span class="num">{span(time_run(row))}</span> },
  { key: "submitted", title: t("job.submitted"), width: 108, look: (row) => row.submitted_ms, cell: (row) => <span class="num" title={date_time(row.submitted_ms, locale())}>{day_time(row.submitted_ms, head_now(), locale())}</span> },
  { key: "why", card: "wide", title: t("job.why"), width: 280, look: why_text, cell: (row) => <span class="soft" title={why_text(row)}>{why_text(row)}</span> },
];

export function Jobs() {
  use_tick(1000);
  const state = query("state");
  const { answer, error, again } = use_answer<{ rows: Job[]; total: number }>(`/api/v1/jobs?page_size=${kRows}&fields=id,spec,state,reason,why,submitted_ms,started_ms,ended_ms,ranks,stopping,start${state ? `&filter=state%3D${encodeURIComponent(state)}` : ""}`);
  return (
    <>
      <Head title={t("nav.jobs")} actions={<Submit on_done={again} />} />
      <div class="page-body fill">
        <div class="state-chips" role="group" aria-label={t("col.state")}>
          <Toggle label={t("all")} on={!state} on_change={() => set_query({ state: null })} />
          {kJobStates.map((one) => <Toggle key={one} label={word(one === "stopped" ? "job_stopped" : one)} on={state === one} on_change={(on) => set_query({ state: on ? one : null })} />)}
        </div>
        {error ? <Failed {...failure(error)} /> : !answer ? <Loading /> : (
          <>
            {answer.total > answer.rows.length && <p class="quiet-line">{t("jobs.some", { shown: count(answer.rows.length), total: count(answer.total) })}</p>}
            <Table label={t("nav.jobs")} optional rows={answer.rows} columns={job_columns()} id={(row) => row.id} order="-submitted" open={(row) => go(["jobs", row.id])}
              empty={state ? <Empty icon="jobs" title={t("jobs.none_of_state", { state: word(state === "stopped" ? "job_stopped" : state) })} />
                : <Empty icon="jobs" title={t("jobs.none")} code="volador job submit --gpus=1 -- python3 train.py">{t("jobs.none.next")}</Empty>} />
          </>
        )}
      </div>
    </>
  );
}

const rank_columns = (attempts: boolean): Column<JobRank>[] => [
  ...(attempts ? [{ key: "attempt", title: t("job.attempt"), width: 76, right: true, look: (row: JobRank) => row.attempt, cell: (row: JobRank) => <span class="num">{count(row.attempt)}</span> }] : []),
  { key: "rank", card: "title", title: t("job.rank"), width: 92, right: true, small: true, look: (row) => row.rank, cell: (row) => <span class="num">{row.rank}</span> },
  { key: "node", title: t("col.node"), width: 120, small: true, look: (row) => row.node, cell: (row) => (row.node ? <a href={link(["nodes", row.node])}><Middle text={row.node} /></a> : <span class="soft">–</span>) },
  { key: "state", card: "side", title: t("col.state"), width: 110, small: true, look: (row) => row.state, cell: (row) => <State of={row.state} /> },
  { key: "exit", title: t("job.exit_code"), width: 84, right: true, small: true, look: (row) => (row.state === "ended" ? row.exit_code : null), cell: (row) => <span class="num">{row.state === "ended" ? row.exit_code : "–"}</span> },
  { key: "log", title: t("job.log"), width: 92, look: (row) => row.actor, cell: (row) => (row.actor ? <a href={link(["logs"], { id: row.actor })}>{t("more.open")}</a> : <span class="soft">–</span>) },
  { key: "reason", card: "wide", title: t("col.reason"), width: 240, look: (row) => reason_of(row), cell: (row) => <span class="soft" title={reason_of(row)}>{reason_of(row)}</span> },
];

const tone_of = (job: Job) => (job.state === "failed" || job.state === "expired" ? "bad" : job.state === "queued" ? "warn" : "calm");

export function JobPage({ id }: { id: string }) {
  use_tick(1000);
  const { answer: job, error, again } = use_answer<Job>(`/api/v1/jobs/${encodeURIComponent(id)}`);
  const trail = [{ text: t("nav.jobs"), path: ["jobs"] }];
  if (!job) return <><Head trail={trail} title={id} />{error ? <Failed {...failure(error)} /> : <Loading />}</>;
  const { spec } = job;
  const chosen = job.ranks.find((rank) => String(rank.rank) === query("rank", "0")) ?? job.ranks[0];
  const reason = reason_of(job);
  const start = job.state === "queued" ? start_text(job.start) : "";
  const env = Object.entries(spec.env).map(([name, value]) => `${name}=${value}`).join("\n");
  return (
    <>
      <Head trail={trail} title={job_name(job)} state={state_of_job(job)} actions={<JobButtons job={job} on_done={again} />} />
      <div class="page-body">
        {reason && <p class={`reason tone-${tone_of(job)}`}>{reason}</p>}
        <div class="columns">
          <div class="stack">
            <Card title={t("job.command")}><Code text={command_text(spec.command)} /></Card>
            <Card title={t("job.ranks")}>
              <Table label={t("job.ranks")} bare prefix="ranks." rows={job.ranks} columns={rank_columns(false)} id={(row) => String(row.rank)} order="rank" height={360} empty={<p class="quiet-line pad">{t("job.ranks.none")}</p>} />
            </Card>
            {chosen?.actor && (
              <Card title={t("job.output", { rank: chosen.rank })} action={
                <span class="pair">
                  {job.ranks.length > 1 && <Select label={t("job.rank")} value={String(chosen.rank)} on_change={(rank) => set_query({ rank })} options={job.ranks.map((one) => [String(one.rank), `${one.rank} · ${one.node || "–"}`])} />}
                  <a class="more" href={link(["logs"], { id: chosen.actor })}>{t("more.open")}</a>
                </span>
              }>
                <LogBox key={chosen.actor} filter={{ id: chosen.actor }} height={360} ended={chosen.state === "ended"} />
              </Card>
            )}
            {job.earlier.length > 0 && (
              <Card title={t("job.earlier")}>
                <Table label={t("job.earlier")} bare prefix="earlier." rows={job.earlier} columns={rank_columns(true)} id={(row) => `${row.attempt}.${row.rank}`} order="-attempt" height={280} empty={null} />
              </Card>
            )}
          </div>
          <div class="stack side">
            <Card title={t("job.times")}>
              <Facts of={[["job.submitted", time(job.submitted_ms)], ["job.expected", start], ["job.ahead", start && !job.start?.now && !job.start?.never && Boolean(job.start?.ahead) && count(job.start?.ahead)], ["job.position", job.position > 0 && count(job.position)], ["job.started", time(job.started_ms)], ["job.ended", time(job.ended_ms)],
                ["job.run", time_run(job) !== null && span(time_run(job))], ["job.duration", spec.duration_s ? span(spec.duration_s * 1000) : t("job.unlimited")], ["job.left", job.state === "running" && spec.duration_s > 0 && span(Math.max(0, job.started_ms + spec.duration_s * 1000 - head_now()))]]} />
            </Card>
            <Card title={t("job.about")}>
              <Facts of={[["col.id", <code>{job.id}</code>], ["group.priority", priority_word(spec.priority)], ["nav.nodes", count(spec.nodes)], ["job.per_node", resources_text(resources_of(spec))], ["job.mode", spec.mode], ["col.restarts", t("job.restarts_of", { done: count(job.restarts), most: count(spec.max_restarts) })],
                ["job.exit_code", !["queued", "running"].includes(job.state) && String(job.exit_code)], ["job.project", spec.project], ["job.only_nodes", spec.node_names.join(", ")], ["node.labels", Object.entries(spec.labels).map(([key, value]) => `${key}=${value}`).join(", ")],
                ["job.directory", spec.directory && <code class="wrap">{spec.directory}</code>], ["job.isolated", (spec.isolated || spec.mounts.length > 0) && t("yes")], ["job.mounts", spec.mounts.length > 0 && <code class="wrap">{spec.mounts.join(", ")}</code>], ["job.code", spec.files_sha256 && <code title={spec.files_sha256}>{spec.files_sha256.slice(0, 12)}</code>], ["col.owner", job.owner && <TokenLink id={job.owner} />], ["col.note", spec.note]]} />
            </Card>
            {spec.setup && <Card title={t("job.setup")}><Code text={spec.setup} /></Card>}
            {env && <Card title={t("job.env")}><Code text={env} /></Card>}
          </div>
        </div>
      </div>
    </>
  );
}
