// The queue of jobs: its pools, projects, environments and preemption, which operators change, and the queued jobs by priority.
import { useState } from "preact/hooks";
import { call, may } from "../api";
import { t, word } from "../i18n";
import { use_answer } from "../live/poll";
import { use_tick } from "../live/use";
import { go, link } from "../router";
import { Confirm, use_act } from "../ui/confirm";
import { Card, Code, Empty, Failed, Head, Loading, Meter, Middle, Select, amount, count, failure, num, resource_name, resources_text } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { JobButtons } from "./job_acts";
import { by_priority, kUrgency, type Priority } from "./job_groups";
import { job_name, resources_of, start_text, type Job } from "./job_rows";
import { QueueEntry } from "./queue_entry";
import { kPreemptions, settings_yaml, type Environment, type List, type Notification, type PoolState, type ProjectState, type QueueReply, type QueueSettings } from "./queue_settings";

const kQueued = 500;  // Jobs by their position.
const kShown = 50;    // At most, in each group.

// A part of a total with its bar; a total of undefined means that there is no limit.
const Part = ({ resource, part, of }: { resource: string; part: number; of: number | undefined }) => (of === undefined
  ? part > 0 ? <span class="num">{amount(resource, part)}</span> : <span class="soft">–</span>
  : <span class="used"><span class="num">{amount(resource, part)} / {amount(resource, of)}</span><Meter part={part} of={of} label={resource_name(resource)} /></span>);

// CPUs, GPUs and memory, then custom resources.
const resources_in = (all: Record<string, number>[]) => {
  const names = new Set(all.flatMap((one) => Object.keys(one)));
  return [...["cpus", "gpus", "memory"].filter((one) => names.has(one)), ...[...names].filter((one) => !["cpus", "gpus", "memory"].includes(one)).sort()];
};
const widths: Record<string, number> = { cpus: 126, gpus: 116, memory: 176 };
const number = (value: number) => <span class="num">{count(value)}</span>;

type Edit = (name: string) => void;
const edit_column = <T,>(name_of: (row: T) => string, edit: Edit): Column<T> => ({
  key: "edit", card: "act", title: t("col.actions"), width: 76, look: () => "", cell: (row) => <button type="button" class="button small" aria-label={t("queue.edit.title", { name: name_of(row) })} onClick={() => edit(name_of(row))}>{t("queue.edit")}</button>,
});

function pool_columns(pools: PoolState[], edit: Edit | null): Column<PoolState>[] {
  return [
    { key: "name", card: "title", title: t("job.pool"), width: 120, small: true, look: (row) => row.pool.name, cell: (row) => <b class="row-link"><Middle text={row.pool.name} /></b> },
    ...resources_in(pools.map((one) => one.total)).map((name): Column<PoolState> => ({ key: name, title: t("queue.free", { resource: resource_name(name) }), width: widths[name] ?? 120, small: true, look: (row) => row.free[name] ?? null,
      cell: (row) => (name in row.total ? <Part resource={name} part={row.free[name] ?? 0} of={row.total[name]} /> : <span class="soft">–</span>) })),
    { key: "nodes", title: t("nav.nodes"), width: 72, right: true, look: (row) => row.nodes.length, cell: (row) => <span class="num" title={row.nodes.join(", ")}>{count(row.nodes.length)}</span> },
    { key: "running", title: t("queue.running"), width: 76, right: true, look: (row) => row.running, cell: (row) => number(row.running) },
    { key: "queued", title: t("queue.queued"), width: 76, right: true, small: true, look: (row) => row.queued, cell: (row) => number(row.queued) },
    { key: "projects", card: "wide", title: t("queue.for_projects"), width: 180, look: (row) => row.pool.projects.join(", ") || t("queue.all_projects"), cell: (row) => <span title={row.pool.note}>{row.pool.projects.join(", ") || <span class="soft">{t("queue.all_projects")}</span>}{row.pool.note && <span class="soft"> · {row.pool.note}</span>}</span> },
    ...(edit ? [edit_column<PoolState>((row) => row.pool.name, edit)] : []),
  ];
}

function project_columns(projects: ProjectState[], edit: Edit | null): Column<ProjectState>[] {
  return [
    { key: "name", card: "title", title: t("job.project"), width: 120, small: true, look: (row) => row.project.name, cell: (row) => <b class="row-link"><Middle text={row.project.name} /></b> },
    { key: "weight", title: t("queue.weight"), width: 70, right: true, look: (row) => row.project.weight, cell: (row) => <span class="num">{num(row.project.weight)}</span> },
    ...resources_in(projects.flatMap((one) => [one.used, one.project.limits])).map((name): Column<ProjectState> => ({ key: name, title: t("queue.held", { resource: resource_name(name) }), width: widths[name] ?? 120, small: true, look: (row) => row.used[name] ?? null,
      cell: (row) => <Part resource={name} part={row.used[name] ?? 0} of={row.project.limits[name]} /> })),
    { key: "running", title: t("queue.running"), width: 76, right: true, look: (row) => row.running, cell: (row) => number(row.running) },
    { key: "queued", title: t("queue.queued"), width: 76, right: true, small: true, look: (row) => row.queued, cell: (row) => number(row.queued) },
    { key: "urgent", title: t("queue.urgent"), width: 84, right: true, small: true, look: (row) => row.urgent, cell: (row) => <span class="num">{count(row.urgent)}{row.project.urgent_jobs > 0 && ` / ${count(row.project.urgent_jobs)}`}</span> },
    { key: "note", card: "wide", title: t("col.note"), width: 140, look: (row) => row.project.note, cell: (row) => <span class="soft" title={row.project.note}>{row.project.note}</span> },
    ...(edit ? [edit_column<ProjectState>((row) => row.project.name, edit)] : []),
  ];
}

const environment_columns = (edit: Edit | null): Column<Environment>[] => [
  { key: "name", card: "title", title: t("col.name"), width: 90, small: true, look: (row) => row.name },
  { key: "source", title: t("queue.source"), width: 140, small: true, look: (row) => row.source, cell: (row) => <code title={row.source}><Middle text={row.source} /></code> },
  { key: "note", card: "wide", title: t("col.note"), width: 80, look: (row) => row.note, cell: (row) => <span class="soft" title={row.note}>{row.note}</span> },
  ...(edit ? [edit_column<Environment>((row) => row.name, edit)] : []),
];

// Who is told of which jobs. Changed by --apply only, since the page never has the secrets.
function Reports({ notifications, mail }: { notifications: Notification[]; mail: string }) {
  if (!notifications.length && !mail) return null;
  return (
    <Card title={t("queue.reports")}>
      <ul class="reports">
        {notifications.map((one) => (
          <li key={one.name}>
            <b>{one.name}</b> <span class="soft">{one.kind}</span>
            <div class="soft"><Middle text={one.addresses.join(", ") || one.url} /></div>
            <div class="soft">{one.events.map(word).join(", ") || t("queue.reports.usual")}{one.projects.length > 0 && ` · ${one.projects.join(", ")}`}</div>
          </li>
        ))}
        {mail && <li><b>{t("queue.reports.mail")}</b> <span class="soft">{mail}</span></li>}
      </ul>
    </Card>
  );
}

function Preemption({ settings, on_done }: { settings: QueueSettings; on_done: () => void }) {
  const [asking, set_asking] = useState("");
  const { busy, run } = use_act();
  const text = (one: string) => t(`queue.preemption.${one}` as "queue.preemption.never");
  const save = async () => {
    const well = await run(async () => {
      await call("POST", "/api/v1/job_queue", { settings: { ...settings, preemption: asking } });
      return t("queue.saved");
    });
    set_asking("");
    if (well) on_done();
  };
  return (
    <Card title={t("queue.preemption")}>
      {may("operator")
        ? <Select label={t("queue.preemption.who")} value={settings.preemption} options={kPreemptions.map((one) => [one, text(one)])} on_change={set_asking} />
        : <p>{t("queue.preemption.who")}: {text(settings.preemption)}</p>}
      {asking && <Confirm title={t("queue.preemption.title", { who: text(asking) })} explain={t("queue.preemption.explain")} act={t("queue.save")} danger={asking !== "never"} busy={busy} on_act={() => void save()} on_close={() => set_asking("")} />}
    </Card>
  );
}

const kDragged = "application/x-volador-job";

// Queued jobs in three groups. Dragging a job to another group changes its priority; its button does the same.
function Waiting({ jobs, total, on_done }: { jobs: Job[]; total: number; on_done: () => void }) {
  const [over, set_over] = useState<Priority | "">("");
  const { run } = use_act();
  const groups = by_priority(jobs);
  const operator = may("operator");
  const drop = (event: DragEvent, priority: Priority) => {
    set_over("");
    const job = jobs.find((one) => one.id === event.dataTransfer?.getData(kDragged));
    if (!job) return;
    event.preventDefault();
    if (job.spec.priority === priority) return;
    void run(async () => {
      await call("POST", `/api/v1/jobs/${encodeURIComponent(job.id)}:priority`, { priority });
      on_done();
      return t("job.priority.done", { name: job_name(job) });
    });
  };
  return (
    <Card title={t("queue.waiting")} action={<a class="more" href={link(["jobs"], { state: "queued" })}>{t("more.all")}</a>}>
      {operator && total > 0 && <p class="quiet-line drag-hint">{t("queue.drag")}</p>}
      {total === 0 && <Empty icon="jobs" title={t("queue.waiting.none")} />}
      {total > 0 && kUrgency.map((priority) => (
        <section key={priority} class={`urgency${over === priority ? " over" : ""}`} aria-label={word(priority)} data-priority={priority}
          onDragOver={(event) => { if (event.dataTransfer?.types.includes(kDragged)) { event.preventDefault(); set_over(priority); } }}
          onDragLeave={(event) => { if (!event.currentTarget.contains(event.relatedTarget as Node | null)) set_over(""); }}
          onDrop={(event) => drop(event, priority)}>
          <h3>{word(priority)} <small class="num">{count(groups[priority].length)}</small></h3>
          <ul>
            {groups[priority].slice(0, kShown).map((job) => (
              <li key={job.id} draggable={operator} onDragStart={(event) => { event.dataTransfer!.setData(kDragged, job.id); event.dataTransfer!.effectAllowed = "move"; }}>
                <span class="num soft place">{count(job.position)}</span>
                <a class="who-waits" draggable={false} href={link(["jobs", job.id])}><Middle text={job_name(job)} /></a>
                <span class="soft what">{[job.spec.project, resources_text(resources_of(job.spec)), start_text(job.start)].filter(Boolean).join(" · ")}</span>
                <JobButtons job={job} only="priority" on_done={on_done} />
              </li>
            ))}
          </ul>
          {groups[priority].length > kShown && <p class="quiet-line">{t("queue.more", { n: groups[priority].length - kShown, shown: count(groups[priority].length - kShown) })}</p>}
        </section>
      ))}
    </Card>
  );
}

export function JobQueue() {
  use_tick(1000);
  const [editing, set_editing] = useState<{ list: List; name: string } | null>(null);
  const { answer, error, again } = use_answer<QueueReply>("/api/v1/job_queue");
  const waiting = use_answer<{ rows: Job[]; total: number }>(`/api/v1/jobs?filter=state%3Dqueued&order=position&page_size=${kQueued}&fields=id,spec,state,stopping,position,start`);
  const trail = [{ text: t("nav.jobs"), path: ["jobs"] }];
  if (!answer) return <><Head trail={trail} title={t("nav.job_queue")} />{error ? <Failed {...failure(error)} /> : <Loading />}</>;
  const { settings, pools, projects } = answer;
  const operator = may("operator");
  const edit = (list: List): Edit | null => (operator ? (name) => set_editing({ list, name }) : null);
  const add = (list: List) => operator && <button type="button" class="button small" onClick={() => set_editing({ list, name: "" })}>{t(`queue.add.${list}`)}</button>;
  return (
    <>
      <Head trail={trail} title={t("nav.job_queue")} />
      <div class="page-body">
        <Card title={t("queue.pools")} action={add("pools")}>
          <Table label={t("queue.pools")} bare prefix="pools." height={360} rows={pools} columns={pool_columns(pools, edit("pools"))} id={(row) => row.pool.name} order="name" open={(row) => go(["jobs"], { pool: row.pool.name })} empty={<p class="quiet-line">–</p>} />
        </Card>
        <Card title={t("queue.projects")} action={add("projects")}>
          <Table label={t("queue.projects")} bare prefix="projects." height={360} rows={projects} columns={project_columns(projects, edit("projects"))} id={(row) => row.project.name} order="name" open={(row) => go(["jobs"], { project: row.project.name })} empty={<p class="quiet-line pad">{t("queue.projects.none")}</p>} />
        </Card>
        <div class="columns wide-side">
          <div class="stack">
            {waiting.answer ? <Waiting jobs={waiting.answer.rows} total={waiting.answer.total} on_done={waiting.again} /> : <Card title={t("queue.waiting")}>{waiting.error ? <Failed {...failure(waiting.error)} /> : <Loading />}</Card>}
          </div>
          <div class="stack side">
            <Preemption key={settings.version} settings={settings} on_done={again} />
            <Card title={t("queue.environments")} action={add("environments")}>
              <Table label={t("queue.environments")} bare prefix="environments." height={360} rows={settings.environments} columns={environment_columns(edit("environments"))} id={(row) => row.name} order="name" empty={<p class="quiet-line">{t("queue.environments.none")}</p>} />
            </Card>
            <Reports notifications={settings.notifications ?? []} mail={settings.mail?.host ?? ""} />
            <Card title={t("queue.yaml")}>
              <div class="yaml"><Code text={settings_yaml(settings)} /></div>
              <p class="quiet-line">{t("queue.terminal")}</p>
              <Code text="volador job queue --apply=queue.yaml" />
            </Card>
          </div>
        </div>
      </div>
      {editing && <QueueEntry list={editing.list} name={editing.name} settings={settings} on_close={() => set_editing(null)} on_done={again} />}
    </>
  );
}
