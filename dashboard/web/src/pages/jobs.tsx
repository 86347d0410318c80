// Jobs, which are commands in the cluster's queue: the list, and the page of a job with its ranks.
import { useMemo, useState } from "preact/hooks";
import { may } from "../api";
import { date_time, day_time } from "../format";
import { locale, reason_of, t, word } from "../i18n";
import { use_answer } from "../live/poll";
import { head_now, use_tick } from "../live/use";
import { narrow } from "../prefs";
import { go, link, query, set_query } from "../router";
import { Card, Code, Empty, Facts, Failed, Head, Loading, Middle, Popover, RowLink, Select, State, Tabs, Toggle, TokenLink, count, failure, resources_text, span } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { JobButtons, ManyButtons, ManyJobs } from "./job_acts";
import { BatchBar, counts_text } from "./job_batches";
import { RankCurves } from "./job_curves";
import { rows_of, type JobRow } from "./job_groups";
import { JobPort } from "./job_port";
import { JobTerminal } from "./job_terminal";
import { LogBox } from "./logs";
import { command_text, job_name, kJobStates, nodes_of, priority_word, resources_of, start_text, state_of_job, time_run, why_text, type Job, type JobRank } from "./job_rows";
import type { QueueReply } from "./queue_settings";
import { Submit } from "./submit";

const kRows = 2000;  // The newest; the head keeps more.
const kBatchRows = 10_000;  // A batch has no more.

const time = (ms: number) => (ms ? <span class="num">{date_time(ms, locale())}</span> : "");

// The nodes on which it runs, or their number.
function Nodes({ job }: { job: Job }) {
  const nodes = nodes_of(job);
  if (nodes.length === 1) return <a href={link(["nodes", nodes[0]])}><Middle text={nodes[0]} /></a>;
  return <span class="num" title={nodes.join(", ")}>{count(job.spec.nodes)}</span>;
}

const row_name = (row: JobRow) => row.batch || job_name(row.job);
const job_text = (row: JobRow) => (row.batch ? counts_text(row.jobs) : why_text(row.job));

// `more`: columns of pools and projects, where there are several.
const job_columns = (more: { pool: boolean; project: boolean }): Column<JobRow>[] => [
  { key: "id", title: t("col.id"), width: 72, look: (row) => row.job.id, cell: (row) => (row.batch ? <span class="soft">{t("batch.of", { n: row.jobs.length, shown: count(row.jobs.length) })}</span> : <span class="num">{row.job.id}</span>) },
  { key: "name", card: "title", title: t("col.name"), width: 140, small: true, look: row_name, cell: (row) => (row.batch ? <a class="row-link" href={link(["jobs"], { batch: row.batch })} tabIndex={-1}><Middle text={row.batch} /></a> : <RowLink path={["jobs", row.id]}>{job_name(row.job)}</RowLink>) },
  { key: "state", card: "side", title: t("col.state"), width: 120, small: true, look: (row) => word(state_of_job(row.job)), cell: (row) => (row.batch ? <BatchBar jobs={row.jobs} /> : <State of={state_of_job(row.job)} />) },
  { key: "priority", title: t("group.priority"), width: 84, look: (row) => priority_word(row.job.spec.priority) },
  ...(more.project ? [{ key: "project", title: t("job.project"), width: 84, look: (row: JobRow) => row.job.spec.project }] : []),
  ...(more.pool ? [{ key: "pool", title: t("job.pool"), width: 84, look: (row: JobRow) => row.job.spec.pool }] : []),
  { key: "resources", title: t("col.resources"), width: 130, small: true, look: (row) => resources_text(resources_of(row.job.spec)) },
  { key: "nodes", title: t("nav.nodes"), width: 84, look: (row) => nodes_of(row.job).join(", ") || row.job.spec.nodes, cell: (row) => (row.batch ? <span class="num">{count(row.job.spec.nodes)}</span> : <Nodes job={row.job} />) },
  { key: "run", title: t("job.run"), width: 100, right: true, small: true, look: (row) => (row.batch ? null : time_run(row.job)), cell: (row) => <span class="num">{row.batch ? "–" : span(time_run(row.job))}</span> },
  { key: "submitted", title: t("job.submitted"), width: 108, look: (row) => row.job.submitted_ms, cell: (row) => <span class="num" title={date_time(row.job.submitted_ms, locale())}>{day_time(row.job.submitted_ms, head_now(), locale())}</span> },
  { key: "why", card: "wide", title: t("job.why"), width: more.pool || more.project ? 150 : 240, look: job_text, cell: (row) => <span class="soft" title={job_text(row)}>{job_text(row)}</span> },
];

// Filters of the head: a value with a space cannot be one, so all are applied to the rows again.
const kFilters = ["state", "pool", "project", "batch"] as const;
const value_of = (job: Job, key: (typeof kFilters)[number]) => (key === "state" ? job.state : job.spec[key]);

export function Jobs() {
  use_tick(1000);
  const asked = Object.fromEntries(kFilters.map((key) => [key, query(key)])) as Record<(typeof kFilters)[number], string>;
  const { state, batch } = asked;
  const filter = kFilters.filter((key) => asked[key] && !/\s/.test(asked[key])).map((key) => `${key === "state" ? "" : "spec."}${key}=${asked[key]}`).join(" ");
  const { answer, error, again } = use_answer<{ rows: Job[]; total: number }>(`/api/v1/jobs?page_size=${batch ? kBatchRows : kRows}&fields=id,spec,state,reason,why,submitted_ms,started_ms,ended_ms,ranks,stopping,start${filter ? `&filter=${encodeURIComponent(filter)}` : ""}`);
  const queue = use_answer<QueueReply>("/api/v1/job_queue").answer;
  const [chosen, set_chosen] = useState(new Set<string>());
  const [batches] = useState(new Set<string>());
  const jobs = useMemo(() => (answer?.rows ?? []).filter((job) => kFilters.every((key) => !asked[key] || value_of(job, key) === asked[key])), [answer, ...Object.values(asked)]);
  for (const job of jobs) if (job.spec.batch) batches.add(job.spec.batch);
  const rows = useMemo(() => rows_of(jobs, Boolean(batch)), [jobs, batch]);
  const picked = rows.filter((row) => chosen.has(row.id)).flatMap((row) => row.jobs);
  const done = () => {
    set_chosen(new Set());
    again();
  };
  const choose = may("user") ? { chosen: new Set(rows.filter((row) => chosen.has(row.id)).map((row) => row.id)), set: set_chosen, name: row_name, bar: () => <ManyJobs jobs={picked} on_clear={done} /> } : undefined;
  const select = (key: "pool" | "project" | "batch", values: string[]) => {
    const all = [...new Set([...values, ...(asked[key] ? [asked[key]] : [])])].sort();
    return all.length > (key === "batch" ? 0 : 1) || asked[key] ? <Select key={key} label={t(`job.${key}`)} value={asked[key]} on_change={(value) => set_query({ [key]: value || null })} options={[["", t("all")], ...all.map((one): [string, string] => [one, one])]} /> : null;
  };
  const pools = queue?.pools.map((one) => one.pool.name) ?? [];
  const projects = queue?.projects.map((one) => one.project.name) ?? [];
  const selects = [select("pool", pools), select("project", projects), select("batch", [...batches])];
  const filtered = Boolean(asked.pool || asked.project || batch);
  return (
    <>
      <Head title={t("nav.jobs")} actions={<><a class="button" href={link(["job_usage"])}>{t("nav.job_usage")}</a><a class="button" href={link(["job_queue"])}>{t("nav.job_queue")}</a><Submit on_done={again} /></>} />
      <div class="page-body fill">
        <div class="state-chips" role="group" aria-label={t("table.filter")}>
          <Toggle label={t("all")} on={!state} on_change={() => set_query({ state: null })} />
          {kJobStates.map((one) => <Toggle key={one} label={word(one === "stopped" ? "job_stopped" : one)} on={state === one} on_change={(on) => set_query({ state: on ? one : null })} />)}
          {narrow.value && selects.some(Boolean) ? <Popover text={t("jobs.filters")}>{selects}</Popover> : selects}
        </div>
        {batch && answer && jobs.length > 0 && (
          <section class="batch" aria-label={t("batch.one", { batch })}>
            <b>{t("batch.one", { batch })}</b>
            <BatchBar jobs={jobs} />
            <span class="soft num" role="status">{counts_text(jobs)}</span>
            {may("user") && <span class="pair"><ManyButtons jobs={jobs} batch={batch} on_done={done} /></span>}
          </section>
        )}
        {error ? <Failed {...failure(error)} /> : !answer ? <Loading /> : (
          <>
            {answer.total > answer.rows.length && <p class="quiet-line">{t("jobs.some", { shown: count(answer.rows.length), total: count(answer.total) })}</p>}
            <Table label={t("nav.jobs")} optional rows={rows} columns={job_columns({ pool: pools.length > 1, project: projects.length > 1 })} id={(row) => row.id} order="-submitted" open={(row) => (row.batch ? go(["jobs"], { batch: row.batch }) : go(["jobs", row.id]))} choose={choose}
              empty={filtered ? <Empty icon="jobs" title={t("table.nothing")}><button type="button" class="button" onClick={() => set_query({ pool: null, project: null, batch: null })}>{t("table.clear")}</button></Empty>
                : state ? <Empty icon="jobs" title={t("jobs.none_of_state", { state: word(state === "stopped" ? "job_stopped" : state) })} />
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

// Jobs of the same owner of which only the first that starts runs.
function Alternatives({ job }: { job: Job }) {
  const { answer } = use_answer<{ rows: Job[] }>(/\s/.test(job.spec.one_of) ? null : `/api/v1/jobs?fields=id,spec,state,owner,user,stopping&filter=${encodeURIComponent(`spec.one_of=${job.spec.one_of}`)}`);
  const others = answer?.rows.filter((one) => one.id !== job.id && (job.user ? one.user === job.user : one.owner === job.owner)) ?? [];
  return (
    <Card title={t("job.alternatives")}>
      <p class="quiet-line">{t("job.alternatives.what", { of: job.spec.one_of })}</p>
      <ul class="plain-list">{others.map((one) => <li key={one.id}><a href={link(["jobs", one.id])}>{job_name(one)}</a> <State of={state_of_job(one)} quiet /> <small class="soft">{resources_text(resources_of(one.spec))} · {one.spec.pool}</small></li>)}</ul>
    </Card>
  );
}

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
  const is_reached = may("user") && job.state === "running" && !job.stopping && chosen?.state === "running";
  const shown = is_reached && ["terminal", "port"].includes(query("show")) ? query("show") as "terminal" | "port" : "log";
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
              <Card title={t(shown === "log" ? "job.output" : `job.${shown}.of`, { rank: chosen.rank })} action={
                <span class="pair">
                  {job.ranks.length > 1 && <Select label={t("job.rank")} value={String(chosen.rank)} on_change={(rank) => set_query({ rank })} options={job.ranks.map((one) => [String(one.rank), `${one.rank} · ${one.node || "–"}`])} />}
                  {shown === "log" && <a class="more" href={link(["logs"], { id: chosen.actor })}>{t("more.open")}</a>}
                </span>
              }>
                {is_reached && <Tabs now={shown} tabs={(["log", "terminal", "port"] as const).map((key) => ({ key, text: t(`job.${key}`), href: link(["jobs", id], { ...(query("rank") ? { rank: query("rank") } : {}), ...(key === "log" ? {} : { show: key }) }) }))} />}
                {shown === "port" && <JobPort key={chosen.actor} job={job.id} rank={chosen.rank} />}
                {shown === "terminal" && <JobTerminal key={chosen.actor} job={job.id} rank={chosen.rank} />}
                {shown === "log" && <LogBox key={chosen.actor} filter={{ id: chosen.actor }} height={360} ended={chosen.state === "ended"} />}
              </Card>
            )}
            {job.ranks.some((rank) => rank.actor) && <RankCurves ranks={job.ranks} ended={!["queued", "running"].includes(job.state)} />}
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
              <Facts of={[["col.id", <code>{job.id}</code>], ["group.priority", priority_word(spec.priority)], ["nav.nodes", job.nodes ? t("job.restarts_of", { done: count(job.nodes), most: count(spec.nodes) }) : spec.min_nodes ? `${count(spec.min_nodes)}–${count(spec.nodes)}` : count(spec.nodes)], ["job.share_nodes", spec.share_nodes && t("yes")], [spec.share_nodes ? "job.per_rank" : "job.per_node", resources_text(resources_of(spec))], ["job.mode", spec.mode], ["col.restarts", t("job.restarts_of", { done: count(job.restarts), most: count(spec.max_restarts) })],
                ["job.exit_code", !["queued", "running"].includes(job.state) && String(job.exit_code)], ["job.project", spec.project && <a href={link(["jobs"], { project: spec.project })}>{spec.project}</a>], ["job.pool", spec.pool && <a href={link(["jobs"], { pool: spec.pool })}>{spec.pool}</a>], ["job.environment", spec.environment && <code class="wrap">{spec.environment}</code>],
                ["job.batch", spec.batch && <><a href={link(["jobs"], { batch: spec.batch })}>{spec.batch}</a> <span class="soft">· {t("batch.place", { place: count(spec.batch_index + 1), size: count(spec.batch_size) })}</span></>], ["job.preemptions", job.preemptions > 0 && count(job.preemptions)], ["job.resumes", Boolean(spec.max_resumes) && t("job.restarts_of", { done: count(job.resumes ?? 0), most: count(spec.max_resumes ?? 0) })], ["job.policy_labels", job.labels?.join(", ")], ["job.avoids", job.avoids?.join(", ")], ["job.stop_signal", spec.stop_signal && <code>SIG{spec.stop_signal}</code>],
                ["job.notify", spec.notify?.join(", ")], ["job.output.folder", spec.output && <code class="wrap">{spec.output}</code>], ["job.only_nodes", spec.node_names.join(", ")], ["node.labels", Object.entries(spec.labels).map(([key, value]) => `${key}=${value}`).join(", ")],
                ["job.directory", spec.directory && <code class="wrap">{spec.directory}</code>], ["job.isolated", (spec.isolated || spec.mounts.length > 0) && t("yes")], ["job.mounts", spec.mounts.length > 0 && <code class="wrap">{spec.mounts.join(", ")}</code>], ["job.code", spec.files_sha256 && <code title={spec.files_sha256}>{spec.files_sha256.slice(0, 12)}</code>], ["col.owner", job.user || (job.owner && <TokenLink id={job.owner} />)], ["job.access", spec.access && spec.access !== "read" && t(`job.access.${spec.access}` as "job.access.none")], ["col.note", spec.note]]} />
            </Card>
            {spec.one_of && <Alternatives job={job} />}
            {spec.setup && <Card title={t("job.setup")}><Code text={spec.setup} /></Card>}
            {spec.teardown && <Card title={t("job.teardown")}><Code text={spec.teardown} /></Card>}
            {env && <Card title={t("job.env")}><Code text={env} /></Card>}
          </div>
        </div>
      </div>
    </>
  );
}
