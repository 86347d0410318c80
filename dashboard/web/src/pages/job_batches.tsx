// A batch of jobs: its numbers of jobs by state as a bar and as a text.
import { t, word } from "../i18n";
import { count } from "../ui/parts";
import { counts_of } from "./job_groups";
import type { Job } from "./job_rows";

const kFills: Record<string, string> = { running: "st-running", stopping: "st-paused", queued: "st-waiting", succeeded: "st-finished", failed: "st-failed", expired: "st-interrupted", stopped: "st-stopped" };
const state_word = (state: string) => word(state === "stopped" ? "job_stopped" : state);

export const counts_text = (jobs: Job[]) => counts_of(jobs).map(([state, n]) => t("batch.count", { amount: count(n), state: state_word(state) })).join(", ");

export const BatchBar = ({ jobs }: { jobs: Job[] }) => (
  <div class="state-bar" role="img" aria-label={counts_text(jobs)} title={counts_text(jobs)}>
    {counts_of(jobs).map(([state, n]) => <div key={state} class={kFills[state]} style={{ flexGrow: n }} />)}
  </div>
);
