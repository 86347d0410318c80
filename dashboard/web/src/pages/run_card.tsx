// How a run was started: its searcher, seed, command and place, as its state file has them.
import { useState } from "preact/hooks";
import { date_time } from "../format";
import { locale, t } from "../i18n";
import type { Experiment } from "../live/protocol";
import { Card, Code, Facts } from "../ui/parts";
import { file_href } from "./downloads";
import { head_of_state, type RunState } from "./run_state";

const kHeadMax = 256 << 10;  // Characters.

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

export function RunCard({ experiment }: { experiment: Experiment }) {
  const [state, set_state] = useState<RunState | null | undefined>(undefined);  // undefined: nobody asked yet; null: it cannot be read.
  if (experiment.files === "none") return null;
  const load = () => { read_head(file_href(experiment.name, undefined, "experiment_state.json")).then(set_state, () => set_state(null)); };
  const origin = state?.origin;
  return (
    <Card title={t("run.title")} action={state ? undefined : <button type="button" class="button small" onClick={load}>{t("run.show")}</button>}>
      {state === undefined ? <p class="quiet-line">{t("run.what")}</p> : state === null ? <p class="quiet-line">{t("run.unread")}</p> : (
        <>
          <Facts of={[
            ["study.searcher", state.searcher ?? ""], ["experiment.scheduler", state.scheduler ?? ""], ["run.seed", state.seed === undefined ? "" : String(state.seed)],
            ["experiment.started", state.started_ns ? date_time(state.started_ns / 1e6, locale()) : ""], ["col.host", origin?.hostname ?? ""], ["run.folder", origin?.working_directory ?? ""],
            ["run.commit", origin?.git_commit ? `${origin.git_commit.slice(0, 12)}${origin.git_branch ? ` (${origin.git_branch})` : ""}${origin.git_changed ? ` ${t("run.changed")}` : ""}` : ""],
          ]} />
          {origin?.arguments && <Code text={origin.arguments.map((one) => (/[^\w@%+=:,./-]/.test(one) ? `'${one.replace(/'/g, "'\\''")}'` : one)).join(" ")} />}
          {state.space !== undefined && <Code text={JSON.stringify(state.space, null, 2)} />}
        </>
      )}
    </Card>
  );
}
