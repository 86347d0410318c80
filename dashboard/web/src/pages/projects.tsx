// Workspaces and their projects, and the experiments of a project. Loaded when it is opened.
import { useMemo } from "preact/hooks";
import { date_time, day_time } from "../format";
import { locale, t } from "../i18n";
import { head_now } from "../live/use";
import { language } from "../prefs";
import { go, link, query, route, set_query } from "../router";
import { Icon } from "../ui/icons";
import { Empty, Failed, Head, Loading, Middle, RowLink, Tabs, Toggle, count, failure } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { project_path, type Place } from "./configured";
import "./configured.css";
import { d } from "./configured_texts";
import { ExperimentList, kLooks } from "./experiment_list";
import { l } from "./experiment_list_texts";
import { kMost, use_experiments } from "./experiment_poll";
import { counted, kCounted, projects_of, workspaces_of, type Counted, type ProjectRow, type Sum, type WorkspaceRow } from "./project_rows";
import { p } from "./projects_texts";

const kViews = ["projects", "workspaces"] as const;
const all_projects = () => ({ text: t("nav.projects"), path: ["projects"] });
const workspace_path = (workspace: string) => (workspace ? ["projects", workspace] : project_path({ workspace, project: "" }));

export function Projects() {
  const [page, workspace, project] = route.value.path;
  if (page === "uncategorized") return <ProjectPage workspace="" project="" />;
  return project === undefined ? <List key={workspace} workspace={workspace} /> : <ProjectPage key={JSON.stringify([workspace, project])} workspace={workspace} project={project} />;
}

function ProjectPage(place: Place) {
  const within = useMemo(() => place, [place.workspace, place.project]);
  return (
    <>
      <Head trail={[all_projects(), ...(place.workspace ? [{ text: place.workspace, path: ["projects", place.workspace] }] : [])]} title={place.project || d("uncategorized")} />
      <div class="page-body fill"><ExperimentList within={within} /></div>
    </>
  );
}

// The number of experiments in each state, as links to them where they are of one project.
const States = ({ of, path }: { of: Sum; path?: string[] }) => (
  <span class="state-counts">
    {of.states.map(([state, n]) => {
      const [icon, tone] = kLooks[state] ?? ["alive", "off"];
      const text = p("of_state", { n, state: state in kLooks ? l(state as "ACTIVE") : state });
      const shown = <><Icon name={icon} /><span aria-hidden="true" class="num">{count(n)}</span><span class="visually-hidden">{text}</span></>;
      return path ? <a key={state} class={`state tone-${tone}`} title={text} href={link(path, { state })}>{shown}</a> : <span key={state} class={`state tone-${tone}`} title={text}>{shown}</span>;
    })}
  </span>
);

const sums = <Row extends Sum>(path: (row: Row) => string[] | undefined): Column<Row>[] => [
  { key: "experiments", title: p("experiments"), width: 90, right: true, small: true, look: (row) => row.experiments, cell: (row) => <span class="num">{count(row.experiments)}</span> },
  { key: "states", title: p("states"), width: 220, small: true, look: (row) => row.states.map(([state]) => state.toLowerCase()).join(" "), cell: (row) => <States of={row} path={path(row)} /> },
  { key: "activity", title: p("activity"), width: 120, small: true, look: (row) => row.activity_ms, cell: (row) => <span class="num" title={`${p("activity.explain")}: ${date_time(row.activity_ms, locale())}`}>{day_time(row.activity_ms, head_now(), locale())}</span> },
  { key: "users", title: p("users"), width: 180, small: true, look: (row) => row.users.join(", ") },
];

const project_columns = (with_workspace: boolean): Column<ProjectRow>[] => [
  { key: "project", card: "title", title: p("project"), width: 220, look: (row) => row.project || d("uncategorized"), cell: (row) => <RowLink path={project_path(row)}>{row.project || d("uncategorized")}</RowLink> },
  ...(with_workspace ? [{ key: "workspace", card: "side" as const, title: p("workspace"), width: 160, look: (row: ProjectRow) => row.workspace, cell: (row: ProjectRow) => row.workspace && <a href={link(workspace_path(row.workspace))}><Middle text={row.workspace} /></a> }] : []),
  ...sums<ProjectRow>(project_path),
];

const workspace_columns = (): Column<WorkspaceRow>[] => [
  { key: "workspace", card: "title", title: p("workspace"), width: 220, look: (row) => row.workspace || d("uncategorized"), cell: (row) => <RowLink path={workspace_path(row.workspace)}>{row.workspace || d("uncategorized")}</RowLink> },
  { key: "projects", title: p("projects"), width: 90, right: true, look: (row) => (row.workspace ? row.projects : null), cell: (row) => <span class="num">{row.workspace ? count(row.projects) : "–"}</span> },
  ...sums<WorkspaceRow>((row) => (row.workspace ? undefined : project_path({ workspace: "", project: "" }))),
];

// All projects, those of a workspace, or all workspaces.
function List({ workspace }: { workspace?: string }) {
  const { answer, error } = use_experiments<Counted>(kCounted);
  const archived = query("archived") === "1";
  const view = workspace === undefined ? query("of", "projects") : "projects";
  const all = useMemo(() => (answer?.rows ?? []).filter((row) => workspace === undefined || row.workspace === workspace), [answer, workspace]);
  const rows = useMemo(() => counted(all, archived), [all, archived]);
  const projects = useMemo(() => projects_of(rows), [rows]);
  const workspaces = useMemo(() => workspaces_of(rows), [rows]);
  const columns = useMemo(() => project_columns(workspace === undefined), [workspace, language.value]);
  const hidden = all.length - counted(all, false).length;
  const toggle = hidden > 0 && <Toggle label={p("archived", { n: count(hidden) })} on={archived} on_change={(on) => set_query({ archived: on ? "1" : null })} />;
  const tools = <>{toggle}{(answer?.rows.length ?? 0) >= kMost && <span class="soft">{p("most", { n: count(kMost) })}</span>}</>;
  const empty = all.length > 0 ? <Empty icon="projects" title={p("only_archived")}>{toggle}</Empty>
    : <Empty icon="projects" title={workspace === undefined ? p("none") : p("none_in", { workspace })}>{p("none.next")}</Empty>;
  return (
    <>
      <Head trail={workspace === undefined ? undefined : [all_projects()]} title={workspace ?? t("nav.projects")}>
        {workspace === undefined && <Tabs now={view} tabs={kViews.map((key) => ({ key, text: p(key), href: link(["projects"], key === "projects" ? {} : { of: key }) }))} />}
      </Head>
      <div class="page-body fill">
        {!answer ? error ? <Failed {...failure(error)} /> : <Loading /> : view === "workspaces"
          ? <Table key="workspaces" prefix="w." label={p("workspaces")} rows={workspaces} columns={workspace_columns()} id={(row) => row.workspace} order="-activity" open={(row) => go(workspace_path(row.workspace))} tools={tools} empty={empty} />
          : <Table key="projects" label={t("nav.projects")} rows={projects} columns={columns} id={(row) => JSON.stringify([row.workspace, row.project])} order="-activity" open={(row) => go(project_path(row))} tools={tools} empty={empty} />}
      </div>
    </>
  );
}
