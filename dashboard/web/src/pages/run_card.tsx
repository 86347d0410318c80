// How a run was started, from its state file: search space, searcher, seed, stop rules, command and place.
import { useState } from "preact/hooks";
import { date_time } from "../format";
import { locale, t } from "../i18n";
import type { Experiment } from "../live/protocol";
import { Card, Code, Dialog, Facts, count, num, span } from "../ui/parts";
import { file_href } from "./downloads";
import { head_of_state, space_rows, stop_rule, type RunState } from "./run_state";

const kHeadMax = 256 << 10;  // Characters

async function read_head(href: string): Promise<RunState | null> {
  const answer = await fetch(href, { credentials: "same-origin", headers: { "X-Volador-Request": "1" } });
  if (!answer.ok || !answer.body) return null;
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (text.length < kHeadMax && !/"trials"\s*:/.test(text)) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  void reader.cancel();
  return head_of_state(text);
}

const rule_text = (rule: string) => {
  const { kind, metric, value } = stop_rule(rule);
  if (kind === "steps") return t("run.stop.steps", { n: Number(value), shown: count(Number(value)) });
  if (kind === "time") return t("run.stop.time", { time: span(Number(value)) });
  return kind === "metric" ? t("run.stop.metric", { metric: metric!, value: num(Number(value)) }) : t("run.stop.other");
};

const shell_word = (text: string) => (/[^\w@%+=:,./-]/.test(text) ? `'${text.replace(/'/g, "'\\''")}'` : text);

// An ended run with unfinished trials can be resumed by its program or in a terminal; the head does not start programs.
const may_go_on = (experiment: Experiment) => ["crashed", "interrupted", "failed"].includes(experiment.state) && Boolean(experiment.directory);
const resume_command = (experiment: Experiment) => `volador tune resume ${shell_word(experiment.directory)}`;

export function ResumeCard({ experiment }: { experiment: Experiment }) {
  if (!may_go_on(experiment)) return null;
  return <Card title={t("run.resume")}><p class="quiet-line space-below">{t("run.resume.what")}</p><Code text={resume_command(experiment)} /></Card>;
}

// Shown in place of the resume button of a paused run, which the head resumes.
export function ResumeButton({ experiment }: { experiment: Experiment }) {
  const [open, set_open] = useState(false);
  if (!may_go_on(experiment)) return null;
  return (
    <>
      <button type="button" class="button" onClick={() => set_open(true)}>{t("run.resume")}</button>
      {open && (
        <Dialog title={t("run.resume.title", { name: experiment.name })} on_close={() => set_open(false)}>
          <p>{t("run.resume.what")}</p>
          <Code text={resume_command(experiment)} />
        </Dialog>
      )}
    </>
  );
}

const kOptions = 8;  // Most options of a choice that are shown.

// Search space, one row per parameter; constants last.
function Space({ text }: { text: string }) {
  const rows = space_rows(text);
  return (
    <section class="space">
      <h3>{t("run.space")}</h3>
      <dl class="config">
        {[...rows.filter((row) => !row.fixed), ...rows.filter((row) => row.fixed)].map((row) => {
          const shown = row.options.length ? row.options.slice(0, kOptions).join(", ") + (row.options.length > kOptions ? ", …" : "") : row.domain;
          return <div key={row.name}><dt title={row.name}>{row.name}</dt><dd class={row.fixed ? "soft" : ""} title={row.options.length ? `${row.domain}: ${row.options.join(", ")}` : row.domain}>{shown}</dd></div>;
        })}
      </dl>
    </section>
  );
}

export function RunCard({ experiment }: { experiment: Experiment }) {
  const [state, set_state] = useState<RunState | null | undefined>(undefined);  // undefined: not loaded; null: unreadable.
  if (experiment.files === "none") return null;
  const load = () => { read_head(file_href(experiment.name, undefined, "experiment_state.json")).then(set_state, () => set_state(null)); };
  const origin = state?.origin;
  return (
    <Card title={t("run.title")} action={state ? undefined : <button type="button" class="button small" onClick={load}>{t("run.show")}</button>}>
      {state === undefined ? <p class="quiet-line">{t("run.what")}</p> : state === null ? <p class="quiet-line">{t("run.unread")}</p> : (
        <>
          <Facts of={[
            ["study.searcher", state.searcher ?? ""], ["experiment.scheduler", state.scheduler ?? ""], ["run.seed", state.seed === undefined ? "" : String(state.seed)],
            ["run.planned", experiment.trials_planned ? count(experiment.trials_planned) : ""], ["run.stop", state.stop?.length ? <>{state.stop.map((rule) => <span key={rule} class="line">{rule_text(rule)}</span>)}</> : ""],
            ["experiment.started", state.started_ns ? date_time(state.started_ns / 1e6, locale()) : ""], ["col.host", origin?.hostname ?? ""], ["run.folder", origin?.working_directory ?? ""],
            ["run.commit", origin?.git_commit ? `${origin.git_commit.slice(0, 12)}${origin.git_branch ? ` (${origin.git_branch})` : ""}${origin.git_changed ? ` ${t("run.changed")}` : ""}` : ""],
          ]} />
          {origin?.arguments && <Code text={origin.arguments.map(shell_word).join(" ")} />}
          {state.space && <Space text={state.space} />}
        </>
      )}
    </Card>
  );
}
