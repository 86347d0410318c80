// Explanation of an object's state from the head: facts as a list, and its history as a time line.
import { useEffect, useState } from "preact/hooks";
import { explain } from "../api";
import { actor_word, reason_of, t } from "../i18n";
import type { Why } from "../i18n/reason";
import { Failed, Loading, failure, span } from "../ui/parts";
import { looks } from "../ui/states";
import { explanation_of, type Change } from "./explanation";

// Reloads when `version` changes. `known`: a fact that the page already shows, which is left out.
export function Explained({ id, version, known }: { id: string; version: string; known?: string }) {
  const [answer, set_answer] = useState<{ text?: string; why?: (Why | null)[]; error?: unknown }>({});
  useEffect(() => {
    let current = true;
    explain(id).then((found) => current && set_answer(found), (error: unknown) => current && set_answer({ error }));
    return () => { current = false; };
  }, [id, version]);
  if (answer.error) return <Failed {...failure(answer.error)} />;
  if (answer.text === undefined) return <Loading />;
  return (
    <div class="explained">
      {explanation_of(answer.text, answer.why).map((part) => (
        <section key={part.of.reason}>
          <p class="explained-of">{reason_of(part.of)}</p>
          {part.facts.some((fact) => fact.reason !== known) && <ul>{part.facts.filter((fact) => fact.reason !== known).map((fact) => <li key={fact.reason}>{reason_of(fact)}</li>)}</ul>}
          {part.history.length > 0 && <ol class="changes" aria-label={t("explained.history")}>{part.history.map((one, i) => <Line key={i} of={one} before={part.history[i - 1]} />)}</ol>}
          {part.wrote.length > 0 && <><p class="explained-of">{t("explained.stderr")}</p><pre class="words stack-text" tabIndex={0}>{part.wrote.join("\n")}</pre></>}
        </section>
      ))}
    </div>
  );
}

function Line({ of, before }: { of: Change; before?: Change }) {
  if (of.after_ms === null) return <li class="gap"><time>…</time><span>{reason_of(of.why)}</span></li>;
  const waited = before && before.after_ms !== null ? of.after_ms - before.after_ms : 0;
  const state = of.state || t("explained.other");
  return (
    <li class={`tone-${looks(of.state)[1]}`}>
      <time title={waited >= 100 ? t("explained.later", { time: span(waited) }) : undefined}>{of.after_ms === 0 && !before ? t("explained.created") : "+" + span(of.after_ms)}</time>
      <span><b>{actor_word(state)}</b>{of.where.reason && reason_of(of.where)}{of.why.reason && <small>{reason_of(of.why)}</small>}</span>
    </li>
  );
}
