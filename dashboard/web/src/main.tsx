// The root of the page: the sign-in or the view of the current route.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, load_session, session } from "./api";
import { t } from "./i18n";
import { connection, start_connection } from "./live/use";
import { language } from "./prefs";
import { link, route } from "./router";
import { Later } from "./ui/loaded";
import { Empty, Head, failure } from "./ui/parts";
import { keep_scroll } from "./scroll";
import { Shell } from "./ui/shell";
import { ActorPage, Actors } from "./pages/actors";
import { Audit } from "./pages/audit";
import { Compare } from "./pages/compare";
import { CompareTrials } from "./pages/compare_trials";
import { DriverPage, Drivers } from "./pages/drivers";
import { Events } from "./pages/events";
import { ExperimentPage, Experiments } from "./pages/experiments";
import { GroupPage, Groups } from "./pages/groups";
import { JobQueue } from "./pages/job_queue";
import { JobPage, Jobs } from "./pages/jobs";
import { Logs } from "./pages/logs";
import { NodePage, Nodes } from "./pages/nodes";
import { Objects } from "./pages/objects";
import { Overview } from "./pages/overview";
import { Queue } from "./pages/queue";
import { SignIn } from "./pages/sign_in";
import { Studies, StudyPage } from "./pages/studies";
import { Tasks } from "./pages/tasks";
import { Tokens } from "./pages/tokens";
import { TrialPage } from "./pages/trial";
import "./style.css";

function View() {
  const [page, one, part, id] = route.value.path;
  if (session.value?.view && page !== undefined && !["overview", "experiments", "compare"].includes(page)) {
    return <Empty icon="info" title={t("view.no_cluster")}>{t("view.no_cluster.next")} <a href={link([])}>{t("nav.experiments")}</a></Empty>;
  }
  switch (page) {
    case undefined:
    case "overview": return session.value?.view ? <Experiments /> : <Overview />;
    case "experiments":
      if (part === "trials" && id) return <TrialPage key={one + id} name={one} id={id} />;
      if (part === "compare") return <CompareTrials key={one} name={one} />;
      return one ? <ExperimentPage key={one} name={one} /> : <Experiments />;
    case "new_experiment": return <Later key="new_experiment" load={() => import("./pages/new_experiment").then((part) => part.NewExperiment)} />;
    case "compare": return <Compare />;
    case "nodes": return one ? <NodePage key={one} name={one} /> : <Nodes />;
    case "actors": return one ? <ActorPage key={one} id={one} /> : <Actors />;
    case "studies": return one ? <StudyPage key={one} name={one} /> : <Studies />;
    case "tasks": return <Tasks />;
    case "queue": return <Queue />;
    case "jobs": return one ? <JobPage key={one} id={one} /> : <Jobs />;
    case "job_queue": return <JobQueue />;
    case "job_usage": return <Later key="job_usage" load={() => import("./pages/job_usage").then((part) => part.JobUsage)} />;
    case "groups": return one ? <GroupPage key={one} id={one} /> : <Groups />;
    case "objects": return <Objects />;
    case "logs": return <Logs />;
    case "events": return <Events />;
    case "drivers": return one ? <DriverPage key={one} id={one} /> : <Drivers />;
    case "tokens": return <Tokens />;
    case "projects":
    case "uncategorized": return <Later key="projects" load={() => import("./pages/projects").then((part) => part.Projects)} />;
    case "models": return <Later key="models" load={() => import("./pages/models").then((part) => part.Models)} />;
    case "users": return <Later key="users" load={() => import("./pages/users").then((part) => part.Users)} />;
    case "audit": return <Audit />;
    default: return <><Head title={t("page.unknown", { page })} /><Empty icon="search" title={t("page.unknown", { page })}><a href={link([])}>{t("page.unknown.next")}</a></Empty></>;
  }
}

function App() {
  const [error, set_error] = useState<unknown>(null);
  const load = () => load_session().then(() => set_error(null), set_error);
  useEffect(() => void load(), []);
  const signed_in = Boolean(session.value);
  useEffect(() => {
    if (!signed_in) return connection.stop();
    start_connection();
    return undefined;
  }, [signed_in]);
  useEffect(() => {
    if (!error) return undefined;
    const timer = setTimeout(load, 3000);
    return () => clearTimeout(timer);
  }, [error]);
  if (error && session.value === undefined) {
    const { what, next } = failure(error);
    return <main class="sign-in"><Empty icon="warning" title={what}>{next}</Empty></main>;
  }
  if (session.value === undefined) return null;
  if (session.value === null) return <SignIn />;
  return <Shell><View key={language.value} /></Shell>;
}

// The session may have ended if the socket was refused; loading it again then shows the sign-in.
connection.on_refused = () => {
  load_session().catch((error) => {
    if (!(error instanceof ApiError)) throw error;
  });
};

keep_scroll();
render(<App />, document.getElementById("app")!);
