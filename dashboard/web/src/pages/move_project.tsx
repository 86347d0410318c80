// The form that moves experiments to a project. Loaded when it is opened.
import { useState } from "preact/hooks";
import { ApiError, call } from "../api";
import { t } from "../i18n";
import { use_answer } from "../live/poll";
import { Text } from "../ui/fields";
import { Code, Dialog, count, failure } from "../ui/parts";
import { toast } from "../ui/toast";
import { project_path, type Configured, type Place } from "./configured";
import { kMost } from "./experiment_poll";
import { run_each } from "./many";
import { field_of, known_names, move_command } from "./project_rows";
import { p } from "./projects_texts";

type Moved = Pick<Configured, "id" | "workspace" | "project">;

// `on_done`: all are moved.
export function MoveProject({ of, on_done, on_close }: { of: Moved[]; on_done: () => void; on_close: () => void }) {
  const [left, set_left] = useState(of);  // Those that are not moved yet.
  const [workspace, set_workspace] = useState(of.every((one) => one.workspace === of[0].workspace) ? of[0].workspace : "");
  const [project, set_project] = useState(of.every((one) => one.project === of[0].project) ? of[0].project : "");
  const [error, set_error] = useState<{ field: "workspace" | "project" | null; text: string } | null>(null);
  const [busy, set_busy] = useState(false);
  const { answer } = use_answer<{ rows: Place[] }>(`/api/v1/determined/experiments?page_size=${kMost}&fields=workspace,project`, 60_000);
  const known = known_names(answer?.rows ?? [], workspace);
  const place = { workspace: workspace.trim(), project: project.trim() };
  const move = async (to: Place) => {
    set_busy(true);
    set_error(null);
    const failed = await run_each(left, (one) => call("POST", `/api/v1/determined/experiments/${one.id}:edit`, { workspace: to.workspace, project: to.project }));
    set_busy(false);
    if (!failed.length) {
      toast(to.project ? p("moved", { n: left.length, project: project_path(to).slice(1).join(" / ") }) : p("moved.out", { n: left.length }));
      return on_done();
    }
    const first = failed[0][1];
    const { what } = failure(first);
    const text = left.length === 1 ? what : p("failed", { failed: count(failed.length), n: count(left.length), what });
    set_error({ field: field_of(what, to), text: [text, first instanceof ApiError ? first.next : ""].filter(Boolean).join(" ") });
    set_left(failed.map(([one]) => one));
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void move(place);
  };
  const said = (field: "workspace" | "project") => (error?.field === field ? error.text : undefined);
  return (
    <Dialog title={p("move.title", { n: left.length })} on_close={on_close}>
      <form class="move-project" onSubmit={submit}>
        <p>{p("move.explain")}</p>
        <Code text={move_command(left.map((one) => one.id), place)} />
        <Text label={p("workspace")} value={workspace} choices={known.workspaces} error={said("workspace")} on_change={set_workspace} />
        <Text label={p("project")} value={project} choices={known.projects} error={said("project")} on_change={set_project} />
        {error && error.field === null && <p class="field-error" role="alert">{error.text}</p>}
        <footer>
          <button type="button" class="button" onClick={on_close}>{t("cancel")}</button>
          {left.some((one) => one.project) && <button type="button" class="button" disabled={busy} onClick={() => void move({ workspace: "", project: "" })}>{p("move.out", { n: left.length })}</button>}
          <button type="submit" class="button primary" disabled={busy}>{p("move.now")}</button>
        </footer>
      </form>
    </Dialog>
  );
}
