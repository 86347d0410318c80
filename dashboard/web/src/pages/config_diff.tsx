// The configuration of an experiment beside the one of another experiment.
import { useState } from "preact/hooks";
import { use_answer } from "../live/poll";
import { Empty, Failed, Loading, failure } from "../ui/parts";
import { c } from "./code_texts";
import type { Configured } from "./configured";
import "./configured.css";
import { Diff } from "./diff_view";
import { use_other } from "./other_experiment";

// Keys in one order, since the order of a configuration says nothing.
function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, ordered(one)]));
}

export function ConfigDiff({ of }: { of: Configured }) {
  const [complete, set_complete] = useState(false);
  const { other, loaded, chooser } = use_other(of, false);
  const { answer, error } = use_answer<Configured>(other === null ? null : `/api/v1/determined/experiments/${other}`, 60_000);
  if (loaded && other === null) return <Empty icon="experiments" title={c("no_other")} />;
  const text = (one: Configured) => (complete ? JSON.stringify(ordered(one.config ?? {}), null, 2) : one.original_config);
  return (
    <section class="card">
      <div class="diff-tools">
        {chooser}
        <div class="segments" role="group" aria-label={c("differences")}>
          <button type="button" aria-pressed={!complete} onClick={() => set_complete(false)}>{c("given")}</button>
          <button type="button" aria-pressed={complete} onClick={() => set_complete(true)}>{c("complete")}</button>
        </div>
      </div>
      {error ? <Failed {...failure(error)} /> : !answer ? <Loading /> : <Diff key={`${answer.id}${complete}`} before={text(answer)} after={text(of)} left={c("of", { id: answer.id })} right={c("of", { id: of.id })} same={c("equal.next", { left: answer.id, right: of.id })} />}
    </section>
  );
}
