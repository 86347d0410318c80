// Explanation of an object's state from the head: facts as a list, and its history as a time line. Loaded when it is opened.
import { useEffect, useState } from "preact/hooks";
import { explain } from "../api";
import { actor_word, reason_of, t } from "../i18n";
import { said_en, type Why } from "../i18n/reason";
import { language } from "../prefs";
import { use_loaded } from "../ui/loaded";
import { Failed, Loading, failure, span } from "../ui/parts";
import { looks } from "../ui/states";
import type { Props } from "./explained";
import { explanation_of, type Change } from "./explanation";

export function View({ id, version, known, with_error }: Props) {
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
      {explanation_of(answer.text, answer.why).map((part) => ({ ...part, facts: part.facts.filter((fact) => fact.reason !== known && !(with_error && fact.why?.[0] === "explain.error")) })).map((part) => (
        <section key={part.of.reason}>
          <p class="explained-of">{reason_of(part.of)}</p>
          {part.facts.length > 0 && <ul>{part.facts.map((fact) => <li key={fact.reason}>{reason_of(fact)}</li>)}</ul>}
          {part.history.length > 0 && <ol class="changes" aria-label={t("explained.history")}>{part.history.map((one, i) => <Line key={i} of={one} before={part.history[i - 1]} />)}</ol>}
          {part.wrote.length > 0 && <><p class="explained-of">{t("explained.stderr")}</p><pre class="words stack-text" tabIndex={0}>{part.wrote.join("\n")}</pre></>}
        </section>
      ))}
    </div>
  );
}

function Line({ of, before }: { of: Change; before?: Change }) {
  const english = use_loaded(language.value === "en" ? () => import("../i18n/reasons_en") : null);
  const say = (why: Why) => (language.value === "zh" ? reason_of({ reason: "", why }) : english && said_en(why, english.kEnglish)) ?? "";
  if (!of.state) return <li class="gap"><time>…</time><span>{of.why && say(of.why)}</span></li>;
  const waited = before ? seconds_of(of) - seconds_of(before) : 0;
  return (
    <li class={`tone-${looks(of.state)[1]}`}>
      <time title={waited >= 0.1 ? t("explained.later", { time: span(waited * 1000) }) : undefined}>{of.time ? "+" + span(seconds_of(of) * 1000) : t("explained.created")}</time>
      <span><b>{actor_word(of.state)}</b>{of.node && t("explained.on", { node: of.node, n: of.epoch })}{of.why && <small>{say(of.why)}</small>}</span>
    </li>
  );
}

const seconds_of = ({ time }: Change): number => parseFloat(time) || 0;
